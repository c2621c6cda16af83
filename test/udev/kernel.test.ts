import { execFile, spawnSync } from 'node:child_process'
import { accessSync, constants, mkdtempSync, rmSync, truncateSync, writeFileSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import udev from '@akrijs/handler-udev'
import { silentLogger } from '@akrijs/runtime'
import { type Device, DiscoveryProperties } from '@akrijs/sdk/handler'
import { openDiscovery } from '@akrijs/sdk/host'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alone } from '../support/alone.js'

// Devices that the kernel of this machine can create and remove. Each test removes its devices,
// also after a failure.
alone()

const run = promisify(execFile)
const isRoot = process.getuid?.() === 0
const has = (command: string) => spawnSync('sh', ['-c', 'command -v "$0"', command]).status === 0

const withLoop = isRoot && has('losetup') && writable('/dev/loop-control')
const withLinks = isRoot && has('ip')

let stop: AbortController
let undo: (() => Promise<unknown>)[]

beforeEach(() => {
  stop = new AbortController()
  undo = []
})

afterEach(async () => {
  stop.abort()
  for (const step of undo.reverse()) await step()
})

type Lists = AsyncGenerator<readonly Device[], void, void>

function discover(...udevRules: string[]): Lists {
  const properties = new DiscoveryProperties()
  return openDiscovery(udev, {
    details: JSON.stringify({ udevRules }),
    properties,
    signal: stop.signal,
    log: silentLogger,
  })
}

async function next(lists: Lists): Promise<readonly Device[]> {
  const { value } = await lists.next()
  return value ?? expect.fail('the discovery ended')
}

/** Two links appear one by one: a list may come in between. */
async function until(lists: Lists, wanted: readonly string[]): Promise<readonly Device[]> {
  for (;;) {
    const devices = await next(lists)
    if (ids(devices).join() === wanted.join()) return devices
  }
}

const ids = (devices: readonly Device[]) => devices.map(({ id }) => id)

describe("the udev handler and this machine's kernel", () => {
  it.skipIf(!withLoop)(
    'has a device while its attributes match (needs root and losetup)',
    async () => {
      const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-loop-'))
      undo.push(async () => rmSync(directory, { recursive: true, force: true }))
      const file = path.join(directory, 'disk')
      writeFileSync(file, '')
      truncateSync(file, 96 * 512)
      const byFile = discover(
        `SUBSYSTEM=="block", KERNEL=="loop*", ATTR{loop/backing_file}=="${file}"`,
      )
      const bySize = discover(
        `SUBSYSTEM=="block", ATTR{loop/backing_file}=="${directory}/*", ATTR{size}=="96"`,
      )
      expect([await next(byFile), await next(bySize)]).toEqual([[], []])
      const { stdout } = await run('losetup', ['--find', '--show', '--read-only', file])
      const node = stdout.trim()
      const detach = once(() => run('losetup', ['--detach', node]))
      undo.push(detach)
      const id = `/devices/virtual/block/${path.basename(node)}`
      for (const lists of [byFile, bySize]) {
        expect(await next(lists)).toMatchObject([{ id, properties: { UDEV_DEVNODE: node } }])
      }
      await detach()
      expect([await next(byFile), await next(bySize)]).toEqual([[], []])
    },
  )

  it.skipIf(!withLinks)(
    'finds network links without a node, and follows their names (needs root)',
    async () => {
      const name = `akk${process.pid % 100_000}`
      const lists = discover(`SUBSYSTEM=="net", KERNEL=="${name}*"`)
      expect(await next(lists)).toEqual([])
      await run('ip', ['link', 'add', `${name}a`, 'type', 'veth', 'peer', 'name', `${name}b`])
      const remove = once(() => run('ip', ['link', 'del', `${name}b`]))
      undo.push(remove)
      const idOf = (suffix: string) => `/devices/virtual/net/${name}${suffix}`
      await until(lists, [idOf('a'), idOf('b')])
      await run('ip', ['link', 'set', `${name}a`, 'name', `${name}c`])
      const devices = await until(lists, [idOf('b'), idOf('c')])
      const link = (id: string) => ({
        id,
        properties: { UDEV_DEVPATH: id },
        mounts: [],
        deviceSpecs: [],
      })
      expect(devices).toEqual([link(idOf('b')), link(idOf('c'))])
      // Removing a link also removes its peer.
      await remove()
      await until(lists, [])
    },
  )
})

function writable(file: string): boolean {
  try {
    accessSync(file, constants.W_OK)
    return true
  } catch {
    return false
  }
}

/** The removal runs once, in the test or after it. */
function once(step: () => Promise<unknown>): () => Promise<unknown> {
  let done: Promise<unknown> | undefined
  return () => {
    done ??= step()
    return done
  }
}
