import { describe, expect, it } from 'vitest'
import { mdnsServer, mergeServers, unusableServer } from './mdns-server.js'

const service = {
  name: ['Mixer 1.2', '_opcua-tcp', '_tcp', 'local'],
  target: ['PLC1', 'local'],
  port: 4840,
  text: ['path=/UA/Mixer', 'caps=HD,DA'],
  addresses: ['192.0.2.1'],
  sender: '192.0.2.1',
}

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

  it.each<[string, string[], string]>([
    ['no path', [], ''],
    ['an empty path', ['path='], ''],
    ['a path that is none of its own', ['path=/'], ''],
    ['a path, by its first key, in any case', ['PATH=/a', 'path=/b'], '/a'],
    ['a path that is none', ['path=x'], ''],
    ['a path that would be something else in a URL', ['path=/a?b#c'], ''],
    ['a path with a line break', ['path=/a\nb'], ''],
  ])('has %s', (_, text, path) => {
    expect(mdnsServer({ ...service, text })?.discoveryUrl).toBe(`opc.tcp://plc1.local:4840${path}`)
  })

  it('is a discovery server by its capabilities, of which only valid identifiers count', () => {
    const caps = `caps=LDS, NA,,a b,${'x'.repeat(40)}`
    expect(mdnsServer({ ...service, text: [caps] })).toMatchObject({
      capabilities: ['LDS', 'NA'],
      isDiscoveryServer: true,
    })
  })

  it.each([
    ['a slash', ['plc/1', 'local']],
    ['a user', ['user@plc', 'local']],
    ['nothing in it', []],
    ["node-opcua's nonsense in it", ['!TODO-find how to extract hostname']],
  ])("has the sender's address in its URL if its host name has %s", (_, target) => {
    const addresses = ['192.0.2.1', '192.0.2.7', 'fe80::1%eth0']
    expect(
      mdnsServer({ ...service, target, addresses, sender: '192.0.2.7', text: [] }),
    ).toMatchObject({
      discoveryUrl: 'opc.tcp://192.0.2.7:4840',
      addresses: ['192.0.2.7'],
    })
    const byIpv6 = { addresses: ['2001:db8::1', 'fe80::1%eth0'], sender: 'fe80::1%eth0', text: [] }
    expect(mdnsServer({ ...service, target, ...byIpv6, sender: 'fe80::2%eth0' })).toMatchObject({
      discoveryUrl: 'opc.tcp://[2001:db8::1]:4840',
    })
  })

  it.each([
    ['port 0', { port: 0 }, 'port 0'],
    [
      'neither a host name nor an address for a URL',
      { target: ['a b'], addresses: ['fe80::1%eth0'] },
      'neither its host "a b" nor its addresses fit into a URL',
    ],
  ])('is no server with %s, and the reason is told', (_, change, detail) => {
    const announced = { ...service, ...change }
    expect(mdnsServer(announced)).toBeUndefined()
    const id = 'Mixer 1.2 at 192.0.2.1'
    expect(unusableServer(announced)).toEqual({ id, reason: 'no URL announced', detail })
  })

  it.each([
    [undefined, 'no URL announced', 'no host and port (SRV record)'],
    [
      service.target,
      'no address announced',
      'no address (A or AAAA record) of its host "PLC1.local"',
    ],
  ])('without the records for a call is told, with the host %s', (target, reason, detail) => {
    const { name, sender } = service
    expect(unusableServer({ name, sender, target })).toEqual({
      id: 'Mixer 1.2 at 192.0.2.1',
      reason,
      detail: expect.stringContaining(detail),
    })
  })

  it('is one server on several networks and with several names', () => {
    const first = mdnsServer(service)
    const other = mdnsServer({
      ...service,
      name: ['Another'],
      addresses: ['198.51.100.1'],
      text: ['path=/UA/Mixer', 'caps=NA'],
    })
    expect(mergeServers([first, other, first].filter((server) => server !== undefined))).toEqual([
      {
        name: 'Another',
        discoveryUrl: 'opc.tcp://plc1.local:4840/UA/Mixer',
        addresses: ['192.0.2.1', '198.51.100.1'],
        capabilities: ['DA', 'HD', 'NA'],
        isDiscoveryServer: false,
      },
    ])
  })

  it('stays a server if its URL is also announced as that of a discovery server', () => {
    const server = mdnsServer(service)
    const forged = mdnsServer({ ...service, text: ['path=/UA/Mixer', 'caps=LDS'] })
    if (server === undefined || forged === undefined) expect.unreachable()
    expect(mergeServers([server, forged])).toEqual([server, forged])
    expect(mergeServers([forged, server])).toEqual([server, forged])
  })
})
