// Finds serial ports, by the links that udev makes for them: /dev/serial/by-id.
import { readdir, realpath } from 'node:fs/promises'
import path from 'node:path'
import { defineDiscoveryHandler, every } from '@akrijs/sdk'
import { z } from 'zod'

/** Where a container of its own has the directories of the node: see deploy/daemonset.yaml. */
const HOST = process.env.HOST_ROOT ?? ''

const Details = z.strictObject({
  /** The directory with a link for each port. */
  directory: z.string().startsWith('/').default('/dev/serial/by-id'),
})

export default defineDiscoveryHandler({
  name: 'serial',
  shared: false,
  details: Details,
  async *discover({ details: { directory }, signal }) {
    for await (const _ of every('2s', { signal })) {
      const names = await namesIn(directory)
      yield await Promise.all(names.map((name) => portOf(directory, name)))
    }
  },
})

/** The name of a link stays, also if the port has another number after the next start. */
async function portOf(directory, name) {
  const device = (await realpath(path.join(HOST + directory, name))).slice(HOST.length)
  return {
    id: name,
    properties: { SERIAL_DEVICE: device, SERIAL_NAME: name },
    deviceSpecs: [{ hostPath: device, containerPath: device, permissions: 'rw' }],
  }
}

/** Without a port, udev removes the directory. */
async function namesIn(directory) {
  try {
    return await readdir(HOST + directory)
  } catch (error) {
    if (error.code === 'ENOENT') return []
    throw error
  }
}
