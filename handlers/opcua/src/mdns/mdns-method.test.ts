import { type Logger, silentLogger } from '@akrijs/sdk'
import { HostNames, readNetwork } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { DISCOVERY_SERVER, SimulatedServer } from '../../test-peers/simulated-server.js'
import { Reach } from '../reach.js'
import { mdnsMethod } from './mdns-method.js'
import type { MdnsServer } from './mdns-server.js'

const servers: SimulatedServer[] = []
let stop: AbortController

beforeEach(() => {
  stop = new AbortController()
})

afterEach(async () => {
  stop.abort()
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function start(): Promise<SimulatedServer> {
  const server = await SimulatedServer.start({})
  servers.push(server)
  return server
}

function announced(port: number, isDiscoveryServer: boolean, address = '127.0.0.1'): MdnsServer {
  const discoveryUrl = `opc.tcp://plc.local:${port}`
  return { name: 'PLC', discoveryUrl, addresses: [address], capabilities: [], isDiscoveryServer }
}

function within(hostNames: HostNames, ...networks: string[]): Reach {
  return new Reach({
    allowedNetworks: networks.flatMap((network) => readNetwork(network) ?? []),
    hostNames,
  })
}

it('yields announced servers, and those of a discovery server at its address', async () => {
  const listed = await start()
  const lds = await start()
  lds.applications = [DISCOVERY_SERVER, ...listed.applications]
  const clock = new ManualClock()
  async function* lists() {
    yield [announced(4841, false), announced(lds.port, true)]
    // The next call is not due yet: the servers stay.
    lds.applications = [DISCOVERY_SERVER]
    yield [announced(lds.port, true)]
    await clock.advance(10_000)
    yield [announced(lds.port, true)]
    yield []
  }
  const hostNames = new HostNames({ clock })
  const noAddresses = async () => new Set<string>()
  const reach = within(hostNames, '127.0.0.1')
  const found: string[][] = []
  const options = {
    hostNames,
    reach,
    recentlyAnswered: noAddresses,
    responsive: noAddresses,
    log: silentLogger,
    signal: stop.signal,
    clock,
  }
  for await (const list of mdnsMethod({ announced: lists(), ...options }))
    found.push(list.servers.map(({ discoveryUrl }) => discoveryUrl))
  const [url] = listed.applications.flatMap(({ discoveryUrls }) => discoveryUrls)
  expect(found).toEqual([['opc.tcp://plc.local:4841', url], [url], [], []])
})

it('keeps a server whose URL is also announced as that of a discovery server', async () => {
  const victim = await start()
  const [server, forged] = [announced(victim.port, false), announced(victim.port, true)]
  async function* lists() {
    yield [server, forged]
  }
  const clock = new ManualClock()
  const hostNames = new HostNames({ clock })
  const noAddresses = async () => new Set<string>()
  const found: unknown[] = []
  for await (const list of mdnsMethod({
    announced: lists(),
    hostNames,
    reach: within(hostNames, '127.0.0.1'),
    recentlyAnswered: noAddresses,
    responsive: noAddresses,
    log: silentLogger,
    signal: stop.signal,
    clock,
  }))
    found.push(list.servers)
  // Without an application, the second does not count as listed, and cannot replace the first.
  expect(found).toEqual([[server, { discoveryUrl: victim.url, listedFrom: ['127.0.0.1'] }]])
})

it('keeps the servers of a discovery server while a hundred others are announced', async () => {
  const [listed, lds] = [await start(), await start()]
  lds.applications = [DISCOVERY_SERVER, ...listed.applications]
  const clock = new ManualClock()
  const others = Array.from({ length: 100 }, (_, n) => ({
    ...announced(1, true, `127.0.1.${n}`),
    discoveryUrl: `opc.tcp://a${n}.local:1`,
  }))
  async function* lists() {
    yield [announced(lds.port, true)]
    yield [...others, announced(lds.port, true)]
  }
  const hostNames = new HostNames({ clock })
  const noAddresses = async () => new Set<string>()
  const found: string[][] = []
  for await (const list of mdnsMethod({
    announced: lists(),
    hostNames,
    reach: within(hostNames, '127.0.0.0/8'),
    recentlyAnswered: noAddresses,
    responsive: noAddresses,
    log: silentLogger,
    signal: stop.signal,
    clock,
  }))
    found.push(list.servers.map(({ discoveryUrl }) => discoveryUrl))
  expect(found).toEqual([[listed.url], [listed.url]])
})

it('does not call a discovery server outside the callable networks, and logs it once', async () => {
  const victim = await start()
  const clock = new ManualClock()
  async function* lists() {
    for (let round = 0; round < 2; round++) {
      yield [announced(victim.port, true), announced(victim.port, true, '169.254.169.254')]
      await clock.advance(10_000)
    }
  }
  const hostNames = new HostNames({ clock })
  const logged: unknown[] = []
  const log: Logger = {
    ...silentLogger,
    child: () => log,
    info: (fields, message) => void logged.push([fields, message]),
  }
  const noAddresses = async () => new Set<string>()
  const options = {
    hostNames,
    recentlyAnswered: noAddresses,
    responsive: noAddresses,
    log,
    signal: stop.signal,
    clock,
  }
  for (const reach of [
    within(hostNames, '0.0.0.0/0'),
    new Reach({ hostNames, allowedNetworks: undefined, ownNetworks: () => [] }),
  ])
    for await (const list of mdnsMethod({ announced: lists(), reach, ...options }))
      expect(list).toEqual({
        servers: [],
        leftOut: ['127.0.0.1', '169.254.169.254'].map((detail) => ({
          id: `opc.tcp://plc.local:${victim.port}`,
          reason: 'address not allowed',
          detail,
        })),
      })
  expect(victim.connections).toBe(0)
  const lines = ['127.0.0.1', '169.254.169.254'].map((address) => {
    const fields = { discoveryUrl: `opc.tcp://plc.local:${victim.port}`, addresses: [address] }
    return [
      fields,
      expect.stringContaining('discovery server outside the callable networks ignored'),
    ]
  })
  expect(logged).toEqual([...lines, ...lines])
})
