import { stat } from 'node:fs/promises'
import { defineDiscoveryHandler, every } from '@akrijs/sdk'
import { z } from 'zod'

/** Where a container of its own has the directories of the node: see deploy/daemonset.yaml. */
const HOST = process.env.HOST_ROOT ?? ''

/** The `discoveryDetails` of a Configuration. Wrong details show as an error in its status. */
const Details = z.strictObject({
  /** The device nodes to look for. */
  paths: z
    .array(z.string().regex(/^\/dev\/\w[\w-]*$/, 'is not a path such as /dev/video0'))
    .max(100)
    .default(['/dev/null']),
  /** The time from one look to the next. */
  intervalMs: z.int().min(100).default(5000),
})

export default defineDiscoveryHandler({
  name: 'my-sensor',
  // Only its node can use a device node. Of a camera on the network, say true.
  shared: false,
  details: Details,
  async *discover({ details, signal, leaveOut }) {
    for await (const _ of every(details.intervalMs, { signal })) {
      const devices = []
      for (const path of details.paths) {
        const kind = await kindOf(path)
        if (kind === undefined) leaveOut(path, 'is not a device node')
        else devices.push(deviceOf(path, kind))
      }
      // Each list is complete. A device that is not in it is gone.
      yield devices
    }
  },
})

/** What the containers that use the device get. */
function deviceOf(path, kind) {
  return {
    // The same after a restart.
    id: path,
    properties: { MY_SENSOR_DEVICE: path, MY_SENSOR_KIND: kind },
    deviceSpecs: [{ hostPath: path, containerPath: path, permissions: 'rw' }],
    mounts: [
      { hostPath: '/etc/hostname', containerPath: '/run/my-sensor/hostname', readOnly: true },
    ],
  }
}

async function kindOf(path) {
  try {
    const found = await stat(HOST + path)
    if (found.isCharacterDevice()) return 'character'
    return found.isBlockDevice() ? 'block' : undefined
  } catch (error) {
    if (error.code === 'ENOENT') return undefined
    throw error
  }
}
