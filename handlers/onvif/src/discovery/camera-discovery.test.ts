import { setImmediate as turn } from 'node:timers/promises'
import { silentLogger, systemClock } from '@akrijs/sdk'
import { readNetwork } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it, onTestFinished } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { eventually } from '../../../../test/support/eventually.js'
import { OnvifUnreachableError } from '../errors.js'
import { NetworkPolicy } from '../network-policy.js'
import { DiscoveryResponder } from '../testing/discovery-responder.js'
import { announcementAt, listen, sayHello } from '../testing/internal/announcements.js'
import { type CameraDiscoveryOptions, discoverCameras } from './camera-discovery.js'
import type { Camera } from './camera-set.js'
import type { LeftOutCamera } from './left-out-cameras.js'

// All tests of this machine share the loopback interface.
alone()

const LOOPBACK = new NetworkPolicy([readNetwork('127.0.0.0/8') ?? expect.fail()])

let clock: ManualClock
let stop: AbortController
let warned: object[]
let running: Promise<void> | undefined
/** The last list. */
let cameras: readonly Camera[] | undefined
let leftOut: readonly LeftOutCamera[]

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  stop = new AbortController()
  warned = []
  cameras = undefined
  leftOut = []
})

afterEach(async () => {
  stop.abort()
  await running
})

function discover(options: Partial<CameraDiscoveryOptions> = {}): void {
  const lists = discoverCameras({
    identity: 'url',
    refreshMs: 600_000,
    excludedBy: () => undefined,
    interfaces: ['lo'],
    probeAddresses: [],
    currentPolicy: () => LOOPBACK,
    read: async () => ({ authentication: 'none' }),
    windowMs: 1000,
    intervalMs: 10_000,
    clock,
    log: { ...silentLogger, warn: (fields: object) => warned.push(fields) },
    signal: stop.signal,
    ...options,
  })
  running = (async () => {
    for await (const list of lists) ({ cameras, leftOut } = list)
  })()
}

/** Advances the clock in steps, so that datagrams arrive in between. */
async function pass(ms: number): Promise<void> {
  for (let passed = 0; passed < ms; passed += 100) {
    await clock.advance(100)
    await turn()
  }
}

const urls = () => cameras?.map(({ url }) => new URL(url).hostname).sort()

describe('the discovery of cameras', () => {
  it('keeps cameras and finds probed addresses while thousands announce cameras', async () => {
    const [known, asked, other] = ['127.77.0.1', '127.77.0.2', '127.77.0.3'].map((address) => ({
      address,
      announcement: announcementAt(address),
    }))
    if (!known || !asked || !other) expect.fail()
    const real = [known, asked, other].map(({ announcement }) => announcement.uuid)
    // The filter excludes all others, so that the test makes no thousands of queries.
    discover({
      probeAddresses: [asked.address],
      excludedBy: ({ uuid }) => (real.includes(uuid) ? undefined : 'uuids'),
    })
    await clock.untilSleeping(3)
    await sayHello([known.address], known.announcement)
    await eventually(async () => {
      await pass(100)
      expect(urls()).toEqual([known.address])
    })
    for (let round = 0; round < 5; round++) {
      const before = warned.length
      await sayHello(
        Array.from({ length: 1000 }, (_, n) => `127.${80 + round}.${n >> 8}.${n & 255}`),
      )
      for (const { address, announcement } of [known, asked, other])
        await sayHello([address], announcement)
      await pass(10_000)
      expect(warned.slice(before)).toEqual([{ dropped: expect.any(Number) }])
    }
    expect(urls()).toEqual([known.address, asked.address])
    // Without further announcements, the cameras go.
    await pass(30_000)
    expect(urls()).toEqual([])
  }, 120_000)

  it('keeps all cameras of an address that tell their URLs in a ResolveMatch only', async () => {
    const address = '127.77.0.4'
    const responders: DiscoveryResponder[] = []
    for (let n = 0; n < 12; n++) {
      const announcement = announcementAt(address, { xAddrs: [`http://${address}:${n + 1}/`] })
      const faults = { withoutUrls: true, delayMs: 0 }
      const options = { address, announcement: () => announcement, faults }
      responders.push(await DiscoveryResponder.open(options))
    }
    onTestFinished(() => {
      for (const responder of responders) responder.close()
    })
    const resolves = new Set<string>()
    const group = await listen((text) => {
      if (text.includes('<d:Resolve>')) resolves.add(text)
    })
    onTestFinished(() => group.close())
    const sizes: (number | undefined)[] = []
    const asked: number[] = []
    discover()
    for (let round = 1; round <= 10; round++) {
      // Each round has two Probes.
      await eventually(async () => {
        await pass(100)
        expect(Math.min(...responders.map(({ probes }) => probes))).toBe(2 * round)
      })
      // The answers need no time of the clock of the test.
      await systemClock.sleep(100)
      const now = clock.monotonicMs()
      await pass(round * 10_000 - (now - 1_000_000) - 100)
      sizes.push(cameras?.length)
      asked.push(resolves.size)
    }
    expect(sizes.slice(2)).toEqual(Array(8).fill(12))
    // No camera is asked again.
    expect(asked.at(-1)).toBe(asked[2])
  })

  it('queries a camera that says Hello at once, while many queries wait', async () => {
    const asked = new Set<string>()
    const [fresh, restarted] = ['127.77.0.5', '127.77.0.6']
    discover({
      read: async ({ url, signal }) => {
        const { hostname } = new URL(url)
        asked.add(hostname)
        if (hostname === fresh || hostname === restarted) return { authentication: 'none' }
        await clock.sleep(3000, signal)
        throw new OnvifUnreachableError(`${url}: no answer`)
      },
    })
    await eventually(async () => {
      await pass(100)
      expect(cameras).toEqual([])
    })
    // A host that announces another address does not prove that a device was switched on there.
    const unreachable = Array.from({ length: 48 }, (_, n) => `127.78.0.${n + 1}`)
    for (const host of unreachable) {
      const source = host.replace('127.78', '127.79')
      await sayHello([source], announcementAt(host))
    }
    const waiting = announcementAt(restarted)
    await sayHello(['127.79.0.60'], waiting)
    await eventually(() => expect(asked.size).toBe(16))
    const before = clock.monotonicMs()
    await sayHello([fresh])
    await sayHello([restarted], waiting)
    await eventually(() => expect(asked).toContain(restarted))
    await eventually(async () => {
      await pass(100)
      expect(urls()).toEqual([fresh, restarted])
    })
    expect(clock.monotonicMs() - before).toBeLessThan(1000)
    // All others still get their turn.
    await eventually(async () => {
      await pass(1000)
      expect([...asked].sort()).toEqual([fresh, restarted, ...unreachable].sort())
    })
  })

  it('lists a camera that a filter excludes beside hundreds of foreign senders', async () => {
    const network = readNetwork('127.77.0.0/16') ?? expect.fail()
    discover({
      excludedBy: () => 'uuids',
      currentPolicy: () => new NetworkPolicy([network]),
    })
    await clock.untilSleeping(3)
    await sayHello(Array.from({ length: 300 }, (_, n) => `127.90.${n >> 8}.${n & 255}`))
    const excluded = announcementAt('127.77.0.1')
    await sayHello(['127.77.0.1'], excluded)
    await eventually(async () => {
      await pass(100)
      expect(leftOut.map(({ id }) => id)).toContain(`${excluded.uuid} at 127.77.0.1`)
    })
    expect(leftOut.filter(({ reason }) => reason === 'sender not allowed')).toHaveLength(256)
  })
})
