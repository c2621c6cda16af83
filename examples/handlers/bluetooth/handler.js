// Finds the Bluetooth devices that BlueZ knows, by its program bluetoothctl.
import { execFile } from 'node:child_process'
import { promisify } from 'node:util'
import { defineDiscoveryHandler, every } from '@akrijs/sdk'
import { z } from 'zod'

const run = promisify(execFile)

const Details = z.strictObject({
  /** Such as `Paired` or `Connected`. */
  filter: z.enum(['Paired', 'Bonded', 'Trusted', 'Connected']).optional(),
  /** The program, for tests. */
  program: z.string().default('bluetoothctl'),
})

export default defineDiscoveryHandler({
  name: 'bluetooth',
  // Another machine has other radio contact.
  shared: false,
  details: Details,
  async *discover({ details: { filter, program }, signal, remark }) {
    for await (const _ of every('10s', { signal })) {
      const args = ['devices', ...(filter === undefined ? [] : [filter])]
      const { stdout } = await run(program, args, { signal, timeout: 5000 })
      const devices = stdout.split('\n').flatMap(deviceOf)
      if (devices.length === 0) remark('pair devices first: bluetoothctl pair ADDRESS')
      yield devices
    }
  },
})

/** `Device 00:11:22:33:44:55 Thermometer`. Of other lines nothing. */
function deviceOf(line) {
  const [, address, name] = /^Device ((?:[0-9A-F]{2}:){5}[0-9A-F]{2}) (.*)$/.exec(line) ?? []
  if (address === undefined) return []
  return [{ id: address, properties: { BLUETOOTH_ADDRESS: address, BLUETOOTH_NAME: name } }]
}
