import { type Logger, silentLogger } from '@akrijs/sdk'
import { HostNames, readNetworks } from '@akrijs/sdk/network'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { DISCOVERY_SERVER, SimulatedServer } from '../../test-peers/simulated-server.js'
import type { ServerList } from '../opcua-server.js'
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

const clock = new ManualClock()
const hostNames = new HostNames({ clock })
const allowing = (network: string) =>
  new Reach({ allowedNetworks: readNetworks([network]), hostNames })

/** The lists of servers that the method makes of announcements. */
async function listsOf(
  announcements: AsyncIterable<readonly MdnsServer[]>,
  { reach = allowing('127.0.0.0/8'), log = silentLogger }: { reach?: Reach; log?: Logger } = {},
): Promise<ServerList[]> {
  const noAddresses = async () => new Set<string>()
  const lists: ServerList[] = []
  for await (const list of mdnsMethod({
    announced: announcements,
    hostNames,
    reach,
    recentlyAnswered: noAddresses,
    responsive: noAddresses,
    log,
    signal: stop.signal,
    clock,
  }))
    lists.push(list)
  return lists
}

const urlsOf = ({ servers }: ServerList) => servers.map(({ discoveryUrl }) => discoveryUrl)

it('yields announced servers, and those of a discovery server at its address', async () => {
  const listed = await start()
  const lds = await start()
  lds.applications = [DISCOVERY_SERVER, ...listed.applications]
  async function* lists() {
    yield [announced(4841, false), announced(lds.port, true)]
    // The next call is not due yet: the servers stay.
    lds.applications = [DISCOVERY_SERVER]
    yield [announced(lds.port, true)]
    await clock.advance(10_000)
    yield [announced(lds.port, true)]
    yield []
  }
  const found = (await listsOf(lists())).map(urlsOf)
  expect(found).toEqual([['opc.tcp://plc.local:4841', listed.url], [listed.url], [], []])
})

it('keeps a server whose URL is also announced as that of a discovery server', async () => {
  const victim = await start()
  const server = announced(victim.port, false)
  async function* lists() {
    yield [server, announced(victim.port, true)]
  }
  // Without an application, the second does not count as listed, and cannot replace the first.
  expect((await listsOf(lists()))[0]?.servers).toEqual([
    server,
    { discoveryUrl: victim.url, listedFrom: ['127.0.0.1'] },
  ])
})

it('keeps the servers of a discovery server while a hundred others are announced', async () => {
  const [listed, lds] = [await start(), await start()]
  lds.applications = [DISCOVERY_SERVER, ...listed.applications]
  const others = Array.from({ length: 100 }, (_, n) => ({
    ...announced(1, true, `127.0.1.${n}`),
    discoveryUrl: `opc.tcp://a${n}.local:1`,
  }))
  async function* lists() {
    yield [announced(lds.port, true)]
    yield [...others, announced(lds.port, true)]
  }
  expect((await listsOf(lists())).map(urlsOf)).toEqual([[listed.url], [listed.url]])
})

it('does not call a discovery server outside the callable networks, and logs it once', async () => {
  const victim = await start()
  const addresses = ['127.0.0.1', '169.254.169.254']
  async function* lists() {
    for (let round = 0; round < 2; round++) {
      yield addresses.map((address) => announced(victim.port, true, address))
      await clock.advance(10_000)
    }
  }
  const logged: unknown[] = []
  const log: Logger = {
    ...silentLogger,
    child: () => log,
    info: (fields, message) => void logged.push([fields, message]),
  }
  const discoveryUrl = `opc.tcp://plc.local:${victim.port}`
  for (const reach of [
    allowing('0.0.0.0/0'),
    new Reach({ hostNames, allowedNetworks: undefined, ownNetworks: () => [] }),
  ])
    for (const list of await listsOf(lists(), { reach, log }))
      expect(list).toEqual({
        servers: [],
        leftOut: addresses.map((detail) => ({
          id: discoveryUrl,
          reason: 'address not allowed',
          detail,
        })),
      })
  expect(victim.connections).toBe(0)
  const lines = addresses.map((address) => [
    { discoveryUrl, addresses: [address] },
    'discovery server outside the callable networks ignored',
  ])
  expect(logged).toEqual([...lines, ...lines])
})
