import { execFile } from 'node:child_process'
import { readdirSync, readFileSync, readlinkSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { promisify } from 'node:util'
import { type DiscoveryHandler, DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { createUdevHandler } from './index.js'
import { UeventMonitor } from './uevent-monitor.js'

const run = promisify(execFile)
const isRoot = process.getuid?.() === 0

let stop: AbortController

beforeEach(() => {
  stop = new AbortController()
})

afterEach(() => {
  stop.abort()
})

/** The open event sockets of this process. */
function eventSockets(): string[] {
  const inodes = readdirSync('/proc/self/fd').flatMap((fd) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/self/fd/${fd}`))?.[1] ?? []
    } catch {
      // This descriptor was open for the listing.
      return []
    }
  })
  const rows = readFileSync('/proc/self/net/netlink', 'utf8')
    .split('\n')
    .map((line) => line.trim().split(/ +/))
  // NETLINK_KOBJECT_UEVENT is the protocol 15.
  return rows
    .filter((row) => row[1] === '15' && inodes.includes(row.at(-1) ?? ''))
    .map((row) => row.at(-1) ?? '')
}

/** A pair of links with a virtual cable. */
const addLink = (name: string) =>
  run('ip', ['link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}x`])

describe('the monitor of device events', () => {
  it('starts with a rescan', async () => {
    const changes = new UeventMonitor().changes(stop.signal, silentLogger)[Symbol.asyncIterator]()
    expect((await changes.next()).value).toMatchObject({ kind: 'rescan' })
  })

  it.skipIf(!isRoot)('finds a udevd that starts later elsewhere (needs root)', async () => {
    const runUdevRoot = await temporaryDirectory()
    const monitor = new UeventMonitor({ runUdevRoot })
    await monitor.changes(stop.signal, silentLogger).next()
    expect(monitor.problem).toBeUndefined()
    writeFileSync(path.join(runUdevRoot, 'control'), '')
    monitor.checkProblem()
    expect(monitor.problem).toMatch(/^events of udevd do not reach this network namespace/)
  })

  it('ends with its signal and leaves no timer behind', async () => {
    const clock = new ManualClock()
    const iterator = new UeventMonitor({ clock })
      .changes(stop.signal, silentLogger)
      [Symbol.asyncIterator]()
    await iterator.next()
    const next = iterator.next()
    stop.abort()
    expect(await next).toMatchObject({ done: true })
    await clock.advance(0)
    expect(clock.sleeping).toEqual([])
  })
})

describe('the udev handler on this kernel', () => {
  const discover = (handler: DiscoveryHandler, name: string, signal: AbortSignal) =>
    openDiscovery(handler, {
      details: JSON.stringify({ udevRules: [`SUBSYSTEM=="net", KERNEL=="${name}"`] }),
      properties: new DiscoveryProperties(),
      signal,
      log: silentLogger,
    })

  it.skipIf(!isRoot)(
    'shares a pair of sockets between all Configurations while there is one (needs root)',
    async () => {
      // The sockets of earlier tests close soon.
      await eventually(() => expect(eventSockets()).toEqual([]))
      const handler = createUdevHandler({ runUdevRoot: '/nonexistent' })
      const name = `akrs${process.pid % 10_000}`
      const first = new AbortController()
      const ends = discover(handler, name, first.signal)
      const stays = discover(handler, name, stop.signal)
      for (const lists of [ends, stays]) expect((await lists.next()).value).toEqual([])
      expect(eventSockets()).toHaveLength(2)
      await addLink(name)
      try {
        for (const lists of [ends, stays]) expect((await lists.next()).value).toHaveLength(1)
        // The Configuration that opened the sockets ends: the other Configuration keeps them.
        first.abort()
        expect(await ends.next()).toMatchObject({ done: true })
      } finally {
        await run('ip', ['link', 'del', name])
      }
      expect((await stays.next()).value).toEqual([])
      expect(eventSockets()).toHaveLength(2)
      stop.abort()
      await eventually(() => expect(eventSockets()).toEqual([]))
      // A new Configuration opens the sockets again.
      const again = new AbortController()
      await discover(handler, name, again.signal).next()
      expect(eventSockets()).toHaveLength(2)
      again.abort()
    },
  )
})
