import { execFile } from 'node:child_process'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { openDiscovery } from '@akrijs/sdk/host'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Change } from './device-monitor.js'
import { createUdevHandler } from './index.js'
import { openMonitor } from './uevent-monitor.js'

const run = promisify(execFile)
const isRoot = process.getuid?.() === 0

let stop: AbortController

beforeEach(() => {
  stop = new AbortController()
})

afterEach(() => {
  stop.abort()
})

/** Takes changes until one satisfies. */
async function until(changes: AsyncIterator<Change>, satisfied: (change: Change) => boolean): Promise<Change> {
  for (;;) {
    const { value, done } = await changes.next()
    if (done) throw new TypeError('the monitor ended')
    if (satisfied(value)) return value
  }
}

/** A pair of links that are one cable. */
const addLink = (name: string) => run('ip', ['link', 'add', name, 'type', 'veth', 'peer', 'name', `${name}x`])

const concerns = (name: string) => (change: Change) =>
  change.kind === 'events' && change.events.some(({ devpath }) => devpath.includes(name))

describe('the monitor of device events', () => {
  it('begins with a look at everything', async () => {
    const changes = openMonitor({ log: silentLogger }).changes(stop.signal)[Symbol.asyncIterator]()
    expect((await changes.next()).value).toMatchObject({ kind: 'rescan' })
  })

  it.skipIf(!isRoot)(
    'D1 tells of a network link that comes and goes as the kernel does, without polling (needs root)',
    async () => {
      const name = `akri${process.pid % 10_000}`
      const changes = openMonitor({ log: silentLogger, runUdevRoot: '/nonexistent' }).changes(stop.signal)[Symbol.asyncIterator]()
      await changes.next()
      await addLink(name)
      try {
        const change = await until(changes, concerns(name))
        expect(change).toMatchObject({
          kind: 'events',
          events: expect.arrayContaining([expect.objectContaining({ action: 'add' })]),
        })
      } finally {
        await run('ip', ['link', 'del', name])
      }
      await until(
        changes,
        (next) =>
          next.kind === 'events' && next.events.some(({ action, devpath }) => action === 'remove' && devpath.endsWith(name)),
      )
    },
  )

  it.skipIf(!isRoot)('looks itself when udevd does not pass on what the kernel said (needs root)', async () => {
    const name = `akru${process.pid % 10_000}`
    // A `control` without anybody who sends: what a Pod sees that does not have the network of its host.
    const runUdevRoot = await mkdtemp(path.join(os.tmpdir(), 'akri-udev-'))
    try {
      await writeFile(path.join(runUdevRoot, 'control'), '')
      const clock = new ManualClock()
      const changes = openMonitor({ log: silentLogger, clock, runUdevRoot }).changes(stop.signal)[Symbol.asyncIterator]()
      await changes.next()
      await clock.untilSleeping(1)
      const next = changes.next()
      await addLink(name)
      await run('ip', ['link', 'del', name])
      await clock.untilSleeping(2)
      await clock.advance(2000)
      expect(await next).toMatchObject({ value: { kind: 'rescan', reason: expect.stringContaining('udevd') } })
    } finally {
      await rm(runUdevRoot, { recursive: true, force: true })
    }
  })

  it('ends with its signal and leaves no timer behind', async () => {
    const clock = new ManualClock()
    const iterator = openMonitor({ log: silentLogger, clock }).changes(stop.signal)[Symbol.asyncIterator]()
    await iterator.next()
    const next = iterator.next()
    stop.abort()
    expect(await next).toMatchObject({ done: true })
    await clock.advance(0)
    expect(clock.sleeping).toEqual([])
  })
})

describe('the udev handler on this kernel', () => {
  it.skipIf(!isRoot)('gives a new list when a link comes, and another when it goes (needs root)', async () => {
    const name = `akrl${process.pid % 10_000}`
    const details = JSON.stringify({ udevRules: [`SUBSYSTEM=="net", KERNEL=="${name}"`] })
    const lists = openDiscovery(createUdevHandler(), {
      details,
      properties: new DiscoveryProperties(),
      signal: stop.signal,
      log: silentLogger,
    })
    expect((await lists.next()).value).toEqual([])
    await addLink(name)
    expect((await lists.next()).value).toMatchObject([{ id: `/devices/virtual/net/${name}` }])
    await run('ip', ['link', 'del', name])
    expect((await lists.next()).value).toEqual([])
  })
})
