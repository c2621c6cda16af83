import { silentLogger } from '@akrijs/sdk'
import { MulticastSearch, UdpSocket } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { alone } from '../../../../test/support/alone.js'
import { eventually } from '../../../../test/support/eventually.js'
import { listen, sayHello } from '../testing/internal/announcements.js'
import { type DiscoveryEvent, WsDiscovery, type WsDiscoveryOptions } from './client.js'
import { DISCOVERY_GROUP, DISCOVERY_PORT } from './message.js'

// All tests of this machine share the loopback interface.
alone()

let clock: ManualClock
let stop: AbortController
let heard: DiscoveryEvent[]
let warned: unknown[]
let search: MulticastSearch
let discovery: WsDiscovery | undefined
let sockets: UdpSocket[]

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  stop = new AbortController()
  heard = []
  warned = []
  search = new MulticastSearch({ messages: 'Probes', waitMs: 1000, clock })
  sockets = []
})

afterEach(() => {
  stop.abort()
  discovery?.close()
  for (const socket of sockets) socket.close()
})

function open(options: Partial<WsDiscoveryOptions> = {}, random = 1): WsDiscovery {
  const all: WsDiscoveryOptions = {
    interfaces: ['lo'],
    probeAddresses: [],
    search,
    allows: () => true,
    onForeign: () => {},
    onUnreadable: () => {},
    onFault: () => {},
    onOtherDevice: () => {},
    camerasAt: () => 0,
    onEvent: (event) => heard.push(event),
    onFailure: (error) => expect.fail(String(error)),
    clock,
    log: { ...silentLogger, warn: (fields: object) => warned.push(fields) },
    signal: stop.signal,
    ...options,
  }
  discovery = new WsDiscovery(all, () => random)
  return discovery
}

/** Counts the copies of each different datagram. */
async function counted(address?: string): Promise<() => number[]> {
  const texts: string[] = []
  sockets.push(await listen((text) => texts.push(text), address))
  return () => [...new Set(texts)].map((text) => texts.filter((copy) => copy === text).length)
}

/** Resolves when the sleeps with these remaining times are under way. */
async function untilSleeping(...sleeping: readonly number[]): Promise<void> {
  await eventually(() => expect(clock.sleeping).toEqual(sleeping))
}

describe('probing', () => {
  it('sends each Probe five times with the delays of the specification', async () => {
    const counts = await counted()
    const round = open().round(1000)
    for (const [sent, sleeping] of [
      [1, [250, 250, 1000]],
      [2, [500, 500, 750]],
      [3, [250, 500, 500]],
    ] as const) {
      await eventually(() => expect(counts()).toEqual([sent, sent]))
      await untilSleeping(...sleeping)
      await clock.advance(sent === 1 ? 250 : 500)
    }
    await round
    await eventually(() => expect(counts()).toEqual([4, 4]))
    await untilSleeping(500, 500)
    await clock.advance(500)
    await eventually(() => expect(counts()).toEqual([5, 5]))
    expect(clock.sleeping).toEqual([])
  })

  it('sends each Probe three times to each of probeAddresses', async () => {
    const counts = await counted('127.77.0.1')
    const round = open({ interfaces: ['none'], probeAddresses: ['127.77.0.1'] }).round(1000)
    for (const [sent, sleeping] of [
      [1, [250, 250, 1000]],
      [2, [500, 500, 750]],
      [3, [250]],
    ] as const) {
      await eventually(() => expect(counts()).toEqual([sent, sent]))
      await untilSleeping(...sleeping)
      await clock.advance(sent === 1 ? 250 : 500)
    }
    await round
  })

  it('stops its repetitions when the signal is aborted', async () => {
    const counts = await counted()
    const round = open().round(1000)
    await eventually(() => expect(counts()).toEqual([1, 1]))
    await untilSleeping(250, 250, 1000)
    stop.abort()
    await round
    await clock.advance(60_000)
    expect([clock.sleeping, counts()]).toEqual([[], [1, 1]])
  })
})

describe('a search', () => {
  async function oneRound(options: Partial<WsDiscoveryOptions>): Promise<void> {
    const round = open(options).round(1000)
    await eventually(() => expect(clock.sleeping).toContain(1000))
    await clock.advance(1000)
    await round
  }

  it('tells the interface and the address of Probes without an answer', async () => {
    await oneRound({ probeAddresses: ['127.77.0.1'] })
    expect(search.remarks(true)).toEqual([
      expect.stringMatching(/^no answer in 1 s to Probes from lo \(127\.0\.0\.1/),
      'no answer in 1 s to Probes to 127.77.0.1',
    ])
  })

  it('tells that no interface is there, or why a Probe was not sent', async () => {
    search = new MulticastSearch({ messages: 'Probes', waitMs: 1000, only: ['none'], clock })
    await oneRound({ interfaces: ['none'] })
    expect(search.remarks(true)).toEqual(['no interface for Probes: none does not exist'])
    // A socket may not send to the broadcast address.
    await oneRound({ interfaces: ['none'], probeAddresses: ['255.255.255.255'] })
    expect(search.remarks(true)).toEqual([
      'Probes not sent to 255.255.255.255: EACCES, this machine does not allow it',
    ])
  })

  it('tells the senders of announcements that it does not read, not of others', async () => {
    await oneRound({ allows: (address) => address === '127.77.0.1' })
    await sayHello(['127.77.0.66', '127.77.0.1'])
    const other = await UdpSocket.open({
      family: 'IPv4',
      address: '127.77.0.67',
      multicastInterface: '127.0.0.1',
      onDatagram() {},
      onBroken() {},
    })
    sockets.push(other)
    await other.send(Buffer.from('<Probe/>'), DISCOVERY_PORT, DISCOVERY_GROUP.IPv4)
    await sayHello(['127.77.0.68'])
    await eventually(() => expect(search.remarks(true).at(-1)).toContain('127.77.0.68'))
    expect(search.remarks(true).at(-1)).toBe(
      'announcements ignored, not from the allowed networks: 127.77.0.66, 127.77.0.68',
    )
  })
})

describe('reading', () => {
  /** A client that listens. */
  async function listening(options: Partial<WsDiscoveryOptions> = {}): Promise<WsDiscovery> {
    const listener = open(options, 0)
    await nextRound(listener)
    return listener
  }

  async function nextRound(of: WsDiscovery): Promise<void> {
    const round = of.round(1000)
    await untilSleeping(50, 50, 1000)
    await clock.advance(10_000)
    await round
  }

  const from = (address: string) => heard.filter(({ source }) => source === address).length
  const FLOODER = '127.77.0.66'

  it('is limited for each address in a round, and logged', async () => {
    const hears = await listening()
    await sayHello(Array(300).fill(FLOODER))
    await sayHello(['127.77.0.67'])
    await eventually(() => expect(from('127.77.0.67')).toBe(1))
    expect(from(FLOODER)).toBe(128)
    await nextRound(hears)
    expect(warned).toEqual([{ dropped: 172 }])
    await sayHello([FLOODER])
    await eventually(() => expect(from(FLOODER)).toBe(129))
    await nextRound(hears)
    expect(warned).toHaveLength(1)
  })

  it('counts a datagram with much markup as several, and skips a long one', async () => {
    await listening()
    // Tags, attributes and references count, long texts do not.
    await sayHello(Array(10).fill(FLOODER), { scopes: [`onvif://${'x'.repeat(14_000)}`] })
    await eventually(() => expect(from(FLOODER)).toBe(10))
    await sayHello(Array(5).fill(FLOODER), { scopes: [`onvif://${'x'.repeat(16_384)}`] })
    await sayHello(Array(10).fill('127.77.0.68'), { scopes: ['='.repeat(128 * 30)] })
    await sayHello(Array(10).fill('127.77.0.69'), { scopes: ['&'.repeat(128 * 15)] })
    await sayHello(['127.77.0.67'])
    await eventually(() => expect(from('127.77.0.67')).toBe(1))
    expect([FLOODER, '127.77.0.68', '127.77.0.69'].map(from)).toEqual([10, 4, 8])
  })

  const MANY = Array.from({ length: 700 }, (_, n) => `127.78.${n >> 8}.${n & 255}`)

  it('is limited for all addresses in a second, except for known cameras', async () => {
    const [known, other] = ['127.77.0.1', '127.77.0.2']
    const hears = await listening({ camerasAt: (address) => Number(address === known) })
    await sayHello(MANY)
    await sayHello([other, ...Array(9).fill(known)])
    await eventually(() => expect(from(known)).toBe(8))
    // Fewer are read, and more dropped, if other programs of this machine announce themselves.
    expect(heard.length).toBeLessThanOrEqual(500 + 8)
    expect(from(other)).toBe(0)
    await nextRound(hears)
    expect(warned).toEqual([{ dropped: expect.toSatisfy((count) => count >= 202) }])
    await sayHello([other])
    await eventually(() => expect(from(other)).toBe(1))
  })
})
