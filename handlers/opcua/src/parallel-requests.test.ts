import net from 'node:net'
import { silentLogger, systemClock } from '@akrijs/sdk'
import { HostNames, readNetwork } from '@akrijs/sdk/network'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { SimulatedServer } from '../test-peers/simulated-server.js'
import type { OpcuaServer } from './opcua-server.js'
import { Reach } from './reach.js'
import { ServerDescriptions } from './server-descriptions.js'

/** The limit of parallel calls in server-descriptions.ts. */
const AT_MOST = 16
const timeouts = { connectMs: 60_000, totalMs: 60_000 }

describe('80 servers that delay their answers', () => {
  let server: SimulatedServer
  let urls: readonly string[]
  let answer: () => void
  let stop: AbortController
  const hostNames = new HostNames({ clock: systemClock })

  beforeEach(async () => {
    stop = new AbortController()
    // Each server has its own path at one port, which counts all connections.
    server = await SimulatedServer.start()
    urls = Array.from({ length: 80 }, (_, index) => `${server.url}${index}`)
    server.answersAfter = new Promise<void>((resolve) => {
      answer = resolve
    })
  })

  afterEach(async () => {
    stop.abort()
    await server.close()
  })

  /**
   * Waits until this number of connections is open, and checks that no other connection is
   * requested.
   */
  async function expectConnections(count: number): Promise<void> {
    await expect.poll(() => server.connections).toBe(count)
    // The server accepts this connection after all earlier ones.
    const last = net.connect(server.port, '127.0.0.1')
    await expect.poll(() => server.connections).toBe(count + 1)
    const taken = server.accepted
    last.destroy()
    expect(taken).toBe(count + 1)
    await expect.poll(() => server.connections).toBe(count)
  }

  it(`all receive GetEndpoints, ${AT_MOST} at a time`, async () => {
    const allowedNetworks = ['127.0.0.1'].flatMap((network) => readNetwork(network) ?? [])
    const reach = new Reach({ allowedNetworks, hostNames })
    const options = { reach, clock: systemClock, log: silentLogger, timeouts }
    const descriptions = new ServerDescriptions(options, { roundMs: 60_000 })
    const servers = urls.map((discoveryUrl): OpcuaServer => ({ discoveryUrl }))
    const described = descriptions.update(servers, stop.signal)
    await expectConnections(AT_MOST)
    answer()
    await described
    expect(servers.filter((server) => descriptions.of(server) !== undefined)).toHaveLength(80)
    expect(server.asked).toEqual(Array(80).fill('GetEndpoints'))
  })
})
