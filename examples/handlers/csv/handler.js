// Finds a device for each row of a CSV file. The column id names it; others become properties.
import { readFile, stat } from 'node:fs/promises'
import { defineDiscoveryHandler, every } from '@akrijs/sdk'
import { z } from 'zod'

/** A list of tens of thousands is for a database. */
const MAX_BYTES = 1024 * 1024

const Details = z.strictObject({
  file: z.string().startsWith('/'),
  separator: z.string().length(1).default(','),
})

export default defineDiscoveryHandler({
  name: 'csv',
  shared: true,
  details: Details,
  async *discover({ details: { file, separator }, signal, leaveOut }) {
    let read
    for await (const _ of every('2s', { signal })) {
      const { mtimeMs, size } = await stat(file)
      const state = `${mtimeMs} ${size}`
      if (state === read) continue
      read = state
      if (size > MAX_BYTES) throw new Error(`${file} has ${size} bytes, more than ${MAX_BYTES}`)
      const [header, ...rows] = rowsOf(await readFile(file, 'utf8'), separator)
      const column = header?.indexOf('id') ?? -1
      if (column < 0) throw new Error(`${file} has no column id in its first line`)
      const devices = new Map()
      rows.forEach((row, index) => {
        if (row.join('') === '') return
        const id = row[column]
        if (!id || devices.has(id)) leaveOut(`line ${index + 2}`, 'has no id of its own', id)
        else devices.set(id, deviceOf(id, header, row))
      })
      yield [...devices.values()]
    }
  },
})

/** Without quotes: a field has no separator. */
function rowsOf(text, separator) {
  return text.split(/\r?\n/).map((line) => line.split(separator).map((field) => field.trim()))
}

function deviceOf(id, header, row) {
  const properties = header.map((name, index) => [
    `CSV_${name.toUpperCase().replace(/[^A-Z0-9]/g, '_')}`,
    row[index],
  ])
  return { id, properties: Object.fromEntries(properties) }
}
