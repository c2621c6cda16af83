import { silentLogger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, expect, it } from 'vitest'
import { DISCOVERY_SERVER, SimulatedServer } from '../../test-peers/simulated-server.js'
import { HostNames } from '../host-names.js'
import type { AnnouncedServer } from './announced-server.js'
import { mdnsServers } from './mdns-method.js'

const servers: SimulatedServer[] = []
const stop = new AbortController()

afterEach(async () => {
  stop.abort()
  await Promise.all(servers.splice(0).map((server) => server.close()))
})

async function start(): Promise<SimulatedServer> {
  const server = await SimulatedServer.start({})
  servers.push(server)
  return server
}

function announced(port: number, isDiscoveryServer: boolean): AnnouncedServer {
  const discoveryUrl = `opc.tcp://plc.local:${port}`
  return { name: 'PLC', discoveryUrl, addresses: ['127.0.0.1'], capabilities: [], isDiscoveryServer }
}

it('gives servers as they are announced, and of a discovery server those that it lists, asked by its address', async () => {
  const listed = await start()
  const lds = await start()
  lds.applications = [DISCOVERY_SERVER, ...listed.applications]
  const clock = new ManualClock()
  async function* lists() {
    yield [announced(4841, false), announced(lds.port, true)]
    // Not asked again so soon: what it has said stays.
    lds.applications = [DISCOVERY_SERVER]
    yield [announced(lds.port, true)]
    await clock.advance(10_000)
    yield [announced(lds.port, true)]
    yield []
  }
  const hostNames = new HostNames({ clock })
  const heard = async () => new Set<string>()
  const found: string[][] = []
  for await (const list of mdnsServers({ announced: lists(), hostNames, heard, log: silentLogger, signal: stop.signal, clock }))
    found.push(list.map(({ discoveryUrl }) => discoveryUrl))
  const [url] = listed.applications.flatMap(({ discoveryUrls }) => discoveryUrls)
  expect(found).toEqual([['opc.tcp://plc.local:4841', url], [url], [], []])
})
