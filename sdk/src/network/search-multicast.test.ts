import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { machineInterfaces } from './machine-interfaces.js'
import { MulticastSearch } from './multicast-search.js'
import { type SearchMulticastOptions, searchMulticast } from './search-multicast.js'

// The loopback interface has no multicast route on all machines: what is sent to its own address
// arrives as an answer does.

/** An address outside the networks of the loopback interface, if this machine has one. */
const foreign = machineInterfaces()
  .flatMap(({ addresses }) => addresses)
  .find(({ family }) => family === 'IPv4')?.address

const GROUP = '239.255.255.250'
const heard: string[] = []
let stop: AbortController
let clock: ManualClock
let search: MulticastSearch
let device: ReturnType<typeof createSocket>
let port: number

beforeEach(async () => {
  heard.length = 0
  stop = new AbortController()
  clock = new ManualClock()
  search = new MulticastSearch({ messages: 'searches', waitMs: 1000, only: ['lo'], clock })
  device = createSocket({ type: 'udp4', reuseAddr: true }).bind(0, '0.0.0.0')
  await once(device, 'listening')
  port = (device.address() as AddressInfo).port
  device.addMembership(GROUP, '127.0.0.1')
})

afterEach(() => {
  stop.abort()
  device.close()
})

function run(options: Partial<SearchMulticastOptions> = {}): Promise<void> {
  return searchMulticast({
    ...{ group: GROUP, port, messages: [Buffer.from('who?')], everyMs: 30_000 },
    ...{ interfaces: ['lo'], limit: { perSource: 10, perSecond: 100 } },
    ...{ search, log: silentLogger, signal: stop.signal, clock },
    // A machine also hears its own searches.
    onDatagram: (bytes, sender) => {
      if (String(bytes) !== 'who?') heard.push(`${bytes} ${sender}`)
    },
    ...options,
  })
}

describe('a search of networks', () => {
  it('is sent twice, each time again, and hears the answers', async () => {
    const asked: string[] = []
    device.on('message', (bytes, { port: from, address }) => {
      asked.push(bytes.toString())
      device.send(`here ${asked.length}`, from, address)
    })
    const running = run()
    await vi.waitFor(() => expect(heard).toEqual(['here 1 127.0.0.1', 'here 2 127.0.0.1']))
    expect(search.remarks(true)).toEqual([expect.stringContaining('from lo (127.0.0.1)')])
    for (const total of [2, 2, 2, 2, 2, 4]) {
      await clock.untilSleeping()
      expect(asked.length).toBeLessThanOrEqual(total)
      await clock.advance(5000)
    }
    await vi.waitFor(() => expect(asked).toHaveLength(4))
    stop.abort()
    await running
  })

  it('reads as many datagrams of an address as the limit says', async () => {
    device.once('message', (_, { port: from, address }) => {
      for (let n = 0; n < 20; n++) device.send(`here ${n}`, from, address)
    })
    run({ onDatagram: (bytes) => void heard.push(String(bytes)) })
    await vi.waitFor(() => expect(heard).toHaveLength(10))
  })

  it.skipIf(foreign === undefined)('leaves the limit to senders of its networks', async () => {
    const flood = createSocket('udp4').bind(0, foreign)
    await once(flood, 'listening')
    device.once('message', (_, { port: from, address }) => {
      for (let n = 0; n < 20; n++) flood.send('forged', from, address)
      flood.send('forged', from, address, () => device.send('here', from, address))
    })
    run({ limit: { perSource: 10, perSecond: 10 } })
    await vi.waitFor(() => expect(heard).toEqual(['here 127.0.0.1']))
    flood.close()
  })

  it('tells of a message that was not sent, and ends with its signal', async () => {
    const running = run({ messages: [new Uint8Array(70_000)] })
    await vi.waitFor(() =>
      expect(search.remarks(true)).toEqual([expect.stringMatching(/not sent from lo .*EMSGSIZE/)]),
    )
    stop.abort()
    await running
  })
})
