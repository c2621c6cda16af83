import { execFile, spawnSync } from 'node:child_process'
import { promisify } from 'node:util'
import udev from '@akrijs/handler-udev'
import { silentLogger } from '@akrijs/runtime'
import { type Device, DiscoveryProperties } from '@akrijs/sdk/handler'
import { openDiscovery } from '@akrijs/sdk/host'
import { expect, it, onTestFinished } from 'vitest'
import { alone } from '../support/alone.js'

// Links that the kernel of this machine makes, renames and removes.
alone()

const run = promisify(execFile)
const isUsable = process.getuid?.() === 0 && spawnSync('ip', ['link']).status === 0

it.skipIf(!isUsable)(
  'the udev handler finds network links without a node, and follows their names (needs root)',
  async () => {
    const stop = new AbortController()
    const name = `akk${process.pid % 100_000}`
    onTestFinished(async () => {
      stop.abort()
      for (const suffix of ['a', 'b'])
        await run('ip', ['link', 'del', name + suffix]).catch(() => {})
    })
    const lists = openDiscovery(udev, {
      details: JSON.stringify({ udevRules: [`SUBSYSTEM=="net", KERNEL=="${name}*"`] }),
      properties: new DiscoveryProperties(),
      signal: stop.signal,
      log: silentLogger,
    })
    /** Two links appear one by one: a list may come in between. */
    const until = async (...suffixes: readonly string[]): Promise<readonly Device[]> => {
      const wanted = suffixes.map((suffix) => `/devices/virtual/net/${name}${suffix}`)
      for (;;) {
        const { value } = await lists.next()
        const devices = value ?? expect.fail('the discovery ended')
        if (devices.map(({ id }) => id).join() === wanted.join()) return devices
      }
    }
    await until()
    await run('ip', ['link', 'add', `${name}a`, 'type', 'veth', 'peer', 'name', `${name}b`])
    await until('a', 'b')
    await run('ip', ['link', 'set', `${name}a`, 'name', `${name}c`])
    const devices = await until('b', 'c')
    const link = ({ id }: Device) => {
      const properties = { UDEV_DEVPATH: id }
      return { id, properties, mounts: [], deviceSpecs: [] }
    }
    expect(devices).toEqual(devices.map(link))
    // Removing a link also removes its peer.
    await run('ip', ['link', 'del', `${name}b`])
    await until()
  },
)
