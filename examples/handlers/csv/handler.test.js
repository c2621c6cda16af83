import assert from 'node:assert/strict'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { it } from 'node:test'
import { discover, ManualClock } from '@akrijs/sdk/testing'
import handler from './handler.js'

async function csv(t, text) {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'csv-'))
  t.after(() => rm(directory, { recursive: true }))
  const file = path.join(directory, 'devices.csv')
  await writeFile(file, text)
  return file
}

it('finds a device for each row, and reads the file again when it changes', async (t) => {
  const file = await csv(t, 'id, IP address\npump-1, 192.0.2.1\n\npump-1, 192.0.2.2\n\n')
  const clock = new ManualClock()
  const session = discover(handler, { file }, { clock })
  t.after(() => session.close())
  const [pump, ...others] = await session.next()
  assert.deepEqual(others, [])
  assert.deepEqual(pump.properties, { CSV_ID: 'pump-1', CSV_IP_ADDRESS: '192.0.2.1' })
  assert.deepEqual(session.leftOut, [
    { id: 'line 4', reason: 'has no id of its own', detail: 'pump-1' },
  ])
  await writeFile(file, 'id\nvalve-10\n')
  await clock.advance('2s')
  assert.deepEqual(
    (await session.next()).map(({ id }) => id),
    ['valve-10'],
  )
})

it('says what is wrong with a file', async (t) => {
  const session = discover(handler, { file: await csv(t, 'name\na\n') })
  t.after(() => session.close())
  await assert.rejects(session.next(), /has no column id in its first line/)
})
