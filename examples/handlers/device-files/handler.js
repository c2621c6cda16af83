// Finds a device for each JSON file of a directory, such as { "id": "pump-1" }.
import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { defineDiscoveryHandler, every, messageOf } from '@akrijs/sdk'
import { z } from 'zod'

const Details = z.strictObject({
  directory: z.string().startsWith('/'),
})

const DeviceFile = z.strictObject({
  id: z.string().min(1).max(200),
  properties: z.record(z.string().regex(/^[A-Z][A-Z0-9_]*$/), z.string()).default({}),
})

export default defineDiscoveryHandler({
  name: 'device-files',
  // Several nodes can have the same files.
  shared: true,
  details: Details,
  async *discover({ details: { directory }, signal, leaveOut }) {
    for await (const _ of every('5s', { signal })) {
      const devices = new Map()
      const names = (await readdir(directory)).filter((name) => name.endsWith('.json'))
      for (const name of names.sort()) {
        try {
          const device = await readDevice(path.join(directory, name))
          if (devices.has(device.id)) leaveOut(name, 'another file has its id', device.id)
          else devices.set(device.id, device)
        } catch (error) {
          // A wrong file hides no other.
          leaveOut(name, 'is no device', messageOf(error))
        }
      }
      yield [...devices.values()]
    }
  },
})

async function readDevice(file) {
  const { id, properties } = DeviceFile.parse(JSON.parse(await readFile(file, 'utf8')))
  const names = Object.entries(properties).map(([name, value]) => [`DEVICE_FILES_${name}`, value])
  return { id, properties: Object.fromEntries(names) }
}
