import { describe, expect, it } from 'vitest'
import { application, DISCOVERY_SERVER } from '../../test-peers/simulated-server.js'
import { parseEndpointUrl } from '../endpoint-url.js'
import { type ApplicationDescription, ApplicationType } from '../ua-tcp/index.js'
import { announcedServers, hostsIn, listedServers, type Respondent } from './server-list.js'

const ADDRESSES = new Map([
  ['plc1', ['192.168.0.1']],
  ['192.168.0.1', ['192.168.0.1']],
  ['192.168.0.7', ['192.168.0.7']],
  ['fd00::7', ['fd00::7']],
  ['localhost', ['127.0.0.1', '::1']],
  ['127.0.0.1', ['127.0.0.1']],
  ['0.0.0.0', ['0.0.0.0']],
])
const addressesOf = (host: string) => ADDRESSES.get(host) ?? []

function respondentAt(discoveryUrl: string): Respondent {
  const url = parseEndpointUrl(discoveryUrl)
  return { discoveryUrl, url, addresses: addressesOf(url.host) }
}

function read(
  applications: readonly ApplicationDescription[],
  discoveryUrl = 'opc.tcp://192.168.0.1:50000/',
) {
  return listedServers(applications, respondentAt(discoveryUrl), addressesOf)
}

const urlsIn = (...args: Parameters<typeof read>) =>
  read(...args).servers.map((server) => server.discoveryUrl)

const at = (...discoveryUrls: string[]) => application({ discoveryUrls })

describe('the servers in an answer to FindServers', () => {
  it('are the applications of type Server, and those of type ClientAndServer with proof', () => {
    const all = Object.values(ApplicationType).map((applicationType) =>
      application({ applicationType, discoveryUrls: [`opc.tcp://plc1:${4840 + applicationType}`] }),
    )
    const { servers, leftOut } = read(all)
    expect(servers).toMatchObject([
      { discoveryUrl: 'opc.tcp://plc1:4840', application: {} },
      {
        discoveryUrl: 'opc.tcp://plc1:4842',
        claims: [{ reason: 'ClientAndServer without a working endpoint' }],
      },
    ])
    expect(servers[1]).not.toHaveProperty('application')
    expect(leftOut).toEqual([{ id: 'opc.tcp://plc1:4841', reason: 'only a client' }])
  })

  it('D3 have their first UA-TCP URL, and are left out without one', () => {
    expect(
      urlsIn([at('https://plc1:443/', 'opc.tcp://plc1:4840/a', 'opc.tcp://plc1:4840/b')]),
    ).toEqual(['opc.tcp://plc1:4840/a'])
    expect(
      urlsIn([at('https://plc1:443/'), at(), at('opc.tcp://'), at('opc.tcp://plc1:4841')]),
    ).toEqual(['opc.tcp://plc1:4841'])
    expect(hostsIn(['opc.tcp://a:1', 'opc.tcp://a:2', '', 'opc.tcp://b:1'])).toEqual(['a', 'b'])
  })

  it.each([
    [
      'opc.tcp://192.168.0.1:50000/',
      'opc.tcp://OPCTest:51000/OPCUA/Simulation',
      'opc.tcp://192.168.0.1:50000/OPCUA/Simulation',
    ],
    [
      'opc.tcp://192.168.0.1:50000',
      'opc.tcp://OPCTest:51000/OPCUA/Simulation',
      'opc.tcp://192.168.0.1:50000/OPCUA/Simulation',
    ],
    ['opc.tcp://192.168.0.1:50000/', 'opc.tcp://OPCTest:51000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://192.168.0.1:50000', 'opc.tcp://OPCTest:51000/', 'opc.tcp://192.168.0.1:50000'],
    [
      'opc.tcp://192.168.0.1:50000/own',
      'opc.tcp://OPCTest:51000/OPCUA',
      'opc.tcp://192.168.0.1:50000/own',
    ],
    [
      'opc.tcp://[fd00::7]:50000',
      'opc.tcp://OPCTest:51000/OPCUA',
      'opc.tcp://[fd00::7]:50000/OPCUA',
    ],
    ['opc.tcp://192.168.0.1:50000/', 'opc.tcp://plc1:51000/OPCUA', 'opc.tcp://plc1:51000/OPCUA'],
    ['opc.tcp://192.168.0.1:50000/', 'opc.tcp://192.168.0.7:51000', 'opc.tcp://192.168.0.7:51000'],
  ])(
    'D3 from %s, a server at %s is offered as %s, at a host that resolves',
    (respondent, ownAddress, id) => {
      expect(urlsIn([at(ownAddress)], respondent)).toEqual([id])
    },
  )

  it.each([
    ['opc.tcp://0.0.0.0:51000/ua', 'opc.tcp://192.168.0.1:50000/ua'],
    ['opc.tcp://:51000/ua', 'opc.tcp://192.168.0.1:50000/ua'],
    ['opc.tcp://:50000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://localhost.:51000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://[::]:51000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://127.0.0.1:51000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://127.8.9.1:51000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://[::1]:51000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://[::ffff:127.0.0.1]:51000', 'opc.tcp://192.168.0.1:50000/'],
    ['opc.tcp://localhost:51000/ua', 'opc.tcp://192.168.0.1:50000/ua'],
  ])('D3 with the local address %s are offered where they were asked: %s', (local, id) => {
    for (const host of ['::', '::1', '127.8.9.1', '::ffff:7f00:1']) ADDRESSES.set(host, [host])
    expect(urlsIn([at(local)])).toEqual([id])
    expect(urlsIn([at(local, 'opc.tcp://192.168.0.7:4840')])).toEqual([id])
  })

  it('keep a local address that is also the address where they were asked', () => {
    for (const [asked, local] of [
      ['opc.tcp://localhost:4840/', 'opc.tcp://127.0.0.1:4840'],
      ['opc.tcp://127.0.0.1:4840/', 'opc.tcp://localhost:4840'],
    ] as const)
      expect(urlsIn([at(local)], asked)).toEqual([local])
    expect(urlsIn([at('opc.tcp://0.0.0.0:4840')], 'opc.tcp://localhost:4840/')).toEqual([
      'opc.tcp://localhost:4840/',
    ])
  })

  it('of a discovery server are only claimed at its host if their host means nothing here', () => {
    const claimed = (url: string, asked = 'opc.tcp://plc1:4840/UADiscovery') =>
      read([DISCOVERY_SERVER, at(url)], asked).servers.map(
        ({ discoveryUrl, application: known, claims = [] }) => [
          discoveryUrl,
          known !== undefined ||
            claims.map(({ applicationUri, reason }) => [applicationUri, reason]),
        ],
      )
    const uri = 'urn:test:simulated'
    const local = 'address is valid on its own machine only'
    expect(claimed('opc.tcp://OPCTest:51001/ua')).toEqual([
      ['opc.tcp://plc1:51001/ua', [[uri, 'host name does not resolve']]],
    ])
    for (const host of ['0.0.0.0', '127.0.0.1', 'localhost', ''])
      expect(claimed(`opc.tcp://${host}:51001`)).toEqual([['opc.tcp://plc1:51001', [[uri, local]]]])
    // A discovery server on this machine means this machine.
    expect(claimed('opc.tcp://127.0.0.1:51001', 'opc.tcp://localhost:4840')).toEqual([
      ['opc.tcp://127.0.0.1:51001', true],
    ])
  })

  it('of a discovery server are only claimed at the address of the discovery server', () => {
    for (const url of ['opc.tcp://192.168.0.1:4840/', 'opc.tcp://plc1:4840/ua', 'opc.tcp://plc1'])
      expect(read([DISCOVERY_SERVER, at(url)], 'opc.tcp://plc1:4840').servers).toMatchObject([
        { claims: [{ url, reason: 'has the address of its discovery server' }] },
      ])
  })

  it('of a discovery server have the first URL whose host means something here', () => {
    const url = 'opc.tcp://192.168.0.7:4841'
    expect(
      read([DISCOVERY_SERVER, at('opc.tcp://OPCTest:1', 'opc.tcp://localhost:1', url)]).servers,
    ).toMatchObject([{ discoveryUrl: url, application: {} }])
  })

  it('of a redundant set are only claimed at the address of the respondent', () => {
    const [one, two] = ['urn:one', 'urn:two'].map((applicationUri) =>
      application({ applicationUri, discoveryUrls: ['opc.tcp://OPCTest:51000'] }),
    )
    if (one === undefined || two === undefined) expect.unreachable()
    expect(read([one, two]).servers).toMatchObject([
      { discoveryUrl: 'opc.tcp://192.168.0.1:50000/', claims: [{ applicationUri: 'urn:one' }] },
      { discoveryUrl: 'opc.tcp://192.168.0.1:50000/', claims: [{ applicationUri: 'urn:two' }] },
    ])
    expect(read([one, one]).servers).toMatchObject([{ application: {} }, { application: {} }])
  })

  it('are left out with the reason if no URL is usable', () => {
    const reasons = (...discoveryUrls: string[]) => {
      const { servers, leftOut } = read([at(...discoveryUrls)])
      expect(servers).toEqual([])
      return leftOut.map(({ id, reason, detail }) => [id, reason, detail])
    }
    expect(reasons()).toEqual([['urn:test:simulated', 'no discovery URL', undefined]])
    expect(reasons('', '  ')).toEqual([['urn:test:simulated', 'no discovery URL', undefined]])
    expect(reasons('https://plc1:443/', 'opc.wss://plc1')).toEqual([
      ['https://plc1:443/', 'no opc.tcp URL', 'https://plc1:443/, opc.wss://plc1'],
    ])
    expect(reasons('opc.tcp://plc1:4840 ')).toEqual([
      [
        'opc.tcp://plc1:4840',
        'unusable discovery URL',
        expect.stringContaining('has characters that a URL cannot have'),
      ],
    ])
    expect(reasons('opc.tcp://anna:geheim@plc1:4840')).toEqual([
      ['opc.tcp://…@plc1:4840', 'unusable discovery URL', expect.not.stringContaining('geheim')],
    ])
  })
})

describe('the servers that a discovery server received by multicast', () => {
  it('have a UA-TCP URL and no identity, and are not discovery servers', () => {
    const record = (discoveryUrl: string, ...serverCapabilities: string[]) => ({
      serverName: 'x',
      discoveryUrl,
      serverCapabilities,
    })
    const respondent: Respondent = {
      discoveryUrl: 'opc.tcp://l:1',
      url: parseEndpointUrl('opc.tcp://l:1'),
      addresses: ['192.168.0.1'],
    }
    const records = [
      record('opc.tcp://a:4840', 'DA'),
      record('opc.tcp://b:4840', 'LDS'),
      record('https://c/'),
      record(''),
      record('opc.tcp://localhost:1'),
    ]
    expect(announcedServers(records, respondent, addressesOf)).toEqual({
      servers: [{ discoveryUrl: 'opc.tcp://a:4840', listedFrom: ['192.168.0.1'] }],
      leftOut: [
        { id: 'https://c/', reason: 'no opc.tcp URL', detail: 'https://c/' },
        { id: 'x', reason: 'no discovery URL' },
        { id: 'opc.tcp://localhost:1', reason: 'address is valid on its own machine only' },
      ],
    })
  })
})
