import type { Service } from '@akrijs/dns-sd'
import { describe, expect, it } from 'vitest'
import { mdnsServer, mdnsServers, unusableServers } from './mdns-server.js'

const txt = (record: Readonly<Record<string, string>>) => new Map(Object.entries(record))
const service: Service = {
  type: '_opcua-tcp._tcp',
  name: 'Mixer 1.2',
  interface: 'eth0',
  host: 'PLC1.local',
  port: 4840,
  txt: txt({ path: '/UA/Mixer', caps: 'HD,DA' }),
  addresses: ['192.0.2.1'],
  sender: '192.0.2.1',
}
const listOf = (...services: Service[]) => ({ services, incomplete: [], ended: [] })

describe('a server that announces itself', () => {
  it('has a URL of host, port and path, and addresses in the order of their scope', () => {
    const addresses = ['fe80::1%eth0', '2001:db8::1', '192.0.2.1']
    expect(mdnsServer({ ...service, addresses })).toEqual({
      name: 'Mixer 1.2',
      discoveryUrl: 'opc.tcp://plc1.local:4840/UA/Mixer',
      addresses: ['192.0.2.1', '2001:db8::1', 'fe80::1%eth0'],
      capabilities: ['DA', 'HD'],
      isDiscoveryServer: false,
    })
  })

  it.each<[string, string]>([
    ['', ''],
    ['/', ''],
    ['/a', '/a'],
    ['x', ''],
    ['/a?b#c', ''],
    ['/a\nb', ''],
  ])('with the path %j has a URL that ends in %j', (path, end) => {
    const { discoveryUrl } = mdnsServer({ ...service, txt: txt({ path }) }) ?? {}
    expect(discoveryUrl).toBe(`opc.tcp://plc1.local:4840${end}`)
  })

  it('is a discovery server by its capabilities, of which only valid identifiers count', () => {
    const caps = `LDS, NA,,a b,${'x'.repeat(40)}`
    expect(mdnsServer({ ...service, txt: txt({ caps }) })).toMatchObject({
      capabilities: ['LDS', 'NA'],
      isDiscoveryServer: true,
    })
  })

  it.each([
    'plc/1.local',
    'user@plc.local',
    '',
    'plc\\.1.local',
    // As node-opcua announces it.
    '!TODO-find how to extract hostname',
  ])("has the sender's address in its URL if its host name is %j", (host) => {
    const addresses = ['192.0.2.1', '192.0.2.7', 'fe80::1%eth0']
    expect(
      mdnsServer({ ...service, host, addresses, sender: '192.0.2.7', txt: txt({}) }),
    ).toMatchObject({
      discoveryUrl: 'opc.tcp://192.0.2.7:4840',
      addresses: ['192.0.2.7'],
    })
    const byIpv6 = { addresses: ['2001:db8::1', 'fe80::1%eth0'], txt: txt({}) }
    expect(mdnsServer({ ...service, host, ...byIpv6, sender: 'fe80::2%eth0' })).toMatchObject({
      discoveryUrl: 'opc.tcp://[2001:db8::1]:4840',
    })
  })

  it.each([
    ['port 0', { port: 0 }, 'port 0'],
    [
      'neither a host name nor an address for a URL',
      { host: 'a b', addresses: ['fe80::1%eth0'] },
      'neither its host "a b" nor its addresses fit into a URL',
    ],
  ])('is no server with %s, and the reason is told', (_, change, detail) => {
    const list = listOf({ ...service, ...change })
    expect(mdnsServers(list)).toEqual([])
    const id = 'Mixer 1.2 at 192.0.2.1'
    expect(unusableServers(list)).toEqual([{ id, reason: 'no URL announced', detail }])
  })

  it.each([
    [undefined, 'no URL announced', 'no host and port (SRV record)'],
    [
      'PLC1.local',
      'no address announced',
      'no address (A or AAAA record) of its host "PLC1.local"',
    ],
  ])('without the records for a call is told, with the host %s', (host, reason, detail) => {
    const { type, name, interface: network, sender } = service
    const incomplete = [{ type, name, interface: network, sender, host }]
    expect(unusableServers({ services: [service], incomplete, ended: [] })).toEqual([
      { id: 'Mixer 1.2 at 192.0.2.1', reason, detail: expect.stringContaining(detail) },
    ])
  })

  it('is one server with several names, and on several interfaces in one network', () => {
    const other = {
      ...service,
      name: 'Another',
      addresses: ['192.0.2.1', '198.51.100.1'],
      interface: 'wlan0',
      txt: txt({ path: '/UA/Mixer', caps: 'NA' }),
    }
    expect(mdnsServers(listOf(service, other, service))).toEqual([
      {
        name: 'Another',
        discoveryUrl: 'opc.tcp://plc1.local:4840/UA/Mixer',
        addresses: ['192.0.2.1', '198.51.100.1'],
        capabilities: ['DA', 'HD', 'NA'],
        isDiscoveryServer: false,
      },
    ])
  })

  it('is the first of two servers whose hosts have one name on two networks', () => {
    const namesake = {
      ...{ ...service, interface: 'eth1', addresses: ['198.51.100.1'], sender: '198.51.100.1' },
      txt: txt({ path: '/UA/Mixer', caps: 'NA' }),
    }
    const list = listOf(service, { ...service, name: 'Another', addresses: ['::1'] }, namesake)
    expect(mdnsServers(list)).toMatchObject([
      { addresses: ['192.0.2.1', '::1'], capabilities: ['DA', 'HD'] },
    ])
    const reason = 'same URL on another network'
    expect(unusableServers(list)).toEqual([
      { id: 'Mixer 1.2 at 198.51.100.1', reason, detail: 'announced on eth1' },
    ])
  })

  it('stays a server if its URL is also announced as that of a discovery server', () => {
    const forged = { ...service, txt: txt({ path: '/UA/Mixer', caps: 'LDS' }) }
    const both = [service, forged].map(mdnsServer)
    expect(mdnsServers(listOf(service, forged))).toEqual(both)
    expect(mdnsServers(listOf(forged, service))).toEqual(both)
  })
})
