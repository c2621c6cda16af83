import { machineAddresses } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import type { MachineLinks } from './machine-links.js'
import { MulticastSearch, type MulticastSearchOptions } from './multicast-search.js'

const LINK = {
  isLoopback: false,
  isDown: false,
  lacksCarrier: false,
  lacksMulticast: false,
  hasAddress: true,
}
const linksOf = (
  links: Record<string, Partial<typeof LINK>>,
  isSeparate = false,
): MachineLinks => ({
  links: new Map(Object.entries(links).map(([name, link]) => [name, { ...LINK, ...link }])),
  isSeparate,
})
const failure = (code: string) => Object.assign(new Error(`send ${code} 239.255.255.250`), { code })
const eth0 = { interface: 'eth0', address: '10.0.0.7' }

let clock: ManualClock
let links: MachineLinks

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  links = linksOf({})
})

const search = (options: Partial<MulticastSearchOptions> = {}) =>
  new MulticastSearch({ messages: 'Probes', waitMs: 1500, clock, ...options }, () => links)

describe('a search without an answer', () => {
  it('has the interfaces and the addresses, in a stable order', () => {
    const sent = search()
    sent.sent({ to: '10.9.0.2' })
    sent.sent({ interface: 'eth1', address: '10.1.0.7' })
    sent.sent({ interface: 'eth0', address: 'fe80::7%eth0' })
    sent.sent(eth0)
    sent.sent({ to: '10.9.0.1' })
    expect(sent.remarks(true)).toEqual([
      'no answer in 1.5 s to Probes from eth0 (10.0.0.7, IPv6), eth1 (10.1.0.7)',
      'no answer in 1.5 s to Probes to 10.9.0.1, 10.9.0.2',
    ])
    expect(sent.remarks(false)).toEqual([])
  })

  it('has three places of a kind and the number of the others, in 200 characters', () => {
    const sent = search()
    for (let n = 0; n < 200; n++) {
      for (const address of ['192.168.100.200', '192.168.100.201', '192.168.100.202', 'fe80::1'])
        sent.sent({ interface: `interface-n-${String(n).padStart(3, '0')}`, address })
      sent.sent({ to: `10.0.0.${n}` })
    }
    const [from = '', to = ''] = sent.remarks(true)
    expect(from).toMatch(/ from interface-n-000 \(192\.168\.100\.200, …\), .* and 197 more$/)
    expect(from.length).toBeLessThanOrEqual(200)
    expect(to).toMatch(/ to 10\.0\.0\.0, 10\.0\.0\.1, 10\.0\.0\.10 and 197 more$/)
  })

  it('names an interface without multicast, and a network that is not that of the node', () => {
    links = linksOf({ eth0: {}, wg0: { lacksMulticast: true } }, true)
    const sent = search()
    sent.sent(eth0)
    sent.sent({ interface: 'wg0', address: '10.8.0.1' })
    expect(sent.remarks(true)).toEqual([
      'no answer in 1.5 s to Probes from eth0 (10.0.0.7), wg0 (10.8.0.1) without multicast',
      expect.stringMatching(/^the handler has a network of its own, as in a Pod .*hostNetwork/),
    ])
  })

  it.each<[string, MachineLinks, Partial<MulticastSearchOptions>, string]>([
    ['has no interface', linksOf({}), {}, 'this machine has none'],
    [
      'has none that can lead to devices',
      linksOf({
        lo: { isLoopback: true },
        cni0: {},
        eth0: { isDown: true },
        eth1: { lacksCarrier: true },
        eth2: { hasAddress: false },
      }),
      {},
      'eth0 is down, eth1 has no link, eth2 has no address and 2 more',
    ],
    [
      'has loopback and container networks only',
      linksOf({ lo: { isLoopback: true }, cni0: {} }),
      {},
      'lo is the loopback interface, cni0 is of a container network',
    ],
    [
      'has none of the chosen interfaces',
      linksOf({ eth0: {} }),
      { only: ['eth9', 'eth0'] },
      'eth9 does not exist, eth0 has no IPv4 or link-local address',
    ],
    [
      'has IPv6 only, for messages of IPv4',
      linksOf({ eth0: {} }),
      { family: 'IPv4' },
      'eth0 has no IPv4 address',
    ],
  ])('on a machine that %s says so', (_what, machine, options, expected) => {
    links = machine
    expect(search(options).remarks(true)).toEqual([`no interface for Probes: ${expected}`])
  })
})

describe('a search that fails', () => {
  it.each([
    ['EPERM', 'EPERM, a firewall of this machine refuses it'],
    ['ENETUNREACH', 'ENETUNREACH, there is no route'],
    ['EMSGSIZE', 'send EMSGSIZE 239.255.255.250'],
  ])('has the error %s, also if devices answered elsewhere', (code, expected) => {
    const failing = search()
    failing.failed(eth0, failure(code))
    for (const isUnanswered of [true, false])
      expect(failing.remarks(isUnanswered)).toEqual([
        `Probes not sent from eth0 (10.0.0.7): ${expected}`,
      ])
    failing.sent(eth0)
    expect(failing.remarks(false)).toEqual([])
  })

  it('forgets the error with the interface, or with the address', () => {
    const failing = search()
    failing.failed(eth0, failure('ENODEV'))
    failing.failed({ to: '10.9.0.1' }, failure('ENETUNREACH'))
    expect(failing.remarks(false)).toEqual([expect.stringMatching(/eth0.*; 1 more failed$/)])
    failing.keep([{ interface: 'eth0', address: '10.0.0.8' }])
    expect(failing.remarks(false)).toEqual([expect.stringContaining('not sent to 10.9.0.1: ')])
    failing.forget('10.9.0.1')
    expect(failing.remarks(false)).toEqual([])
  })
})

describe('announcements from other networks', () => {
  it('are named by their senders without this machine, for ten minutes', async () => {
    const sent = search()
    sent.sent(eth0)
    for (const sender of ['192.168.1.10', '192.168.1.9', ...machineAddresses()])
      sent.ignored(sender)
    expect(sent.remarks(true)[1]).toBe(
      'announcements ignored, not from the allowed networks: 192.168.1.10, 192.168.1.9',
    )
    expect(sent.remarks(false)).toEqual([])
    await clock.advance(10 * 60_000 + 1)
    expect(sent.remarks(true)).toHaveLength(1)
  })

  it('are limited in number, and old senders make room for new senders', async () => {
    const sent = search()
    sent.sent(eth0)
    for (let n = 0; n < 1000; n++) sent.ignored(`192.168.${n >> 8}.${n & 255}`)
    expect(sent.remarks(true)[1]).toMatch(/ and 61 more$/)
    await clock.advance(10 * 60_000 + 1)
    sent.ignored('192.168.9.9')
    expect(sent.remarks(true)[1]).toMatch(/: 192\.168\.9\.9$/)
  })
})
