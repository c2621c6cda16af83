import { describe, expect, it } from 'vitest'
import { application, DISCOVERY_SERVER } from '../../test-peers/simulated-server.js'
import { parseEndpointUrl } from '../endpoint-url.js'
import { type ApplicationDescription, ApplicationType } from '../ua-tcp/discovery-services.js'
import { announcedServers, hostsOf, listedServers, type Respondent } from './server-list.js'

const KNOWN = ['plc1', '192.168.0.1', '192.168.0.7', 'fd00::7']

function urlsIn(
  applications: readonly ApplicationDescription[],
  discoveryUrl = 'opc.tcp://192.168.0.1:50000/',
): string[] {
  const respondent: Respondent = {
    discoveryUrl,
    url: parseEndpointUrl(discoveryUrl),
    addresses: ['192.168.0.1'],
  }
  return listedServers(applications, respondent, (host) => KNOWN.includes(host)).map(
    (server) => server.discoveryUrl,
  )
}

const at = (...discoveryUrls: string[]) => application({ discoveryUrls })

describe('the servers in an answer to FindServers', () => {
  it('are the applications of type Server', () => {
    const all = Object.values(ApplicationType).map((applicationType) =>
      application({ applicationType, discoveryUrls: [`opc.tcp://plc1:${4840 + applicationType}`] }),
    )
    expect(urlsIn(all)).toEqual(['opc.tcp://plc1:4840'])
  })

  it('D3 have their first UA-TCP URL, and are left out without one', () => {
    expect(
      urlsIn([at('https://plc1:443/', 'opc.tcp://plc1:4840/a', 'opc.tcp://plc1:4840/b')]),
    ).toEqual(['opc.tcp://plc1:4840/a'])
    expect(
      urlsIn([at('https://plc1:443/'), at(), at('opc.tcp://'), at('opc.tcp://plc1:4841')]),
    ).toEqual(['opc.tcp://plc1:4841'])
    expect(hostsOf([at('opc.tcp://a:1'), at('opc.tcp://a:2', 'opc.tcp://b:1'), at()])).toEqual([
      'a',
    ])
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

  it('of a discovery server keep their own ports with an unresolvable host name', () => {
    const listed = [
      DISCOVERY_SERVER,
      at('opc.tcp://OPCTest:51000'),
      at('opc.tcp://OPCTest:51001/ua'),
    ]
    expect(urlsIn(listed, 'opc.tcp://plc1:4840/UADiscovery')).toEqual([
      'opc.tcp://plc1:51000',
      'opc.tcp://plc1:51001/ua',
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
    ]
    expect(announcedServers(records, respondent)).toEqual([
      { discoveryUrl: 'opc.tcp://a:4840', listedFrom: ['192.168.0.1'] },
    ])
  })
})
