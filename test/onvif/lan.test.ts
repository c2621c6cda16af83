import { spawnSync } from 'node:child_process'
import { once } from 'node:events'
import path from 'node:path'
import type { Device } from '@akrijs/sdk/handler'
import { SimulatedAgent, type SimulatedDiscovery } from '@akrijs/sdk/testing'
import { beforeAll, describe, expect, it, type TestContext, vi } from 'vitest'
import type { SimulatedCameraOptions } from '../../handlers/onvif/src/testing/index.js'
import { DISCOVERY_GROUP } from '../../handlers/onvif/src/ws-discovery/message.js'
import { eventually } from '../support/eventually.js'
import { bundle, Cameras, HostProcess } from './host-process.js'
import { Lan, missingForLan } from './lan.js'

// Each camera has a host, and so has the handler. Multicast is real.

const missing = missingForLan()
const title =
  missing.length > 0
    ? `the ONVIF handler on a network (needs ${missing.join(', ')})`
    : 'the ONVIF handler on a network'

/** A busy machine is slow. */
const LIMIT_MS = 250_000

interface Found {
  readonly index: number
  readonly uuid: string
  readonly url: string
}

const idOf = ({ url, uuid }: Found) => `${url}-${uuid}`
const idsOf = (devices: readonly Device[]) => devices.map(({ id }) => id).sort()

/**
 * Reads lists until a list has exactly these cameras: on a busy machine some answer after the first
 * round.
 */
async function untilFound(
  session: SimulatedDiscovery,
  found: readonly Found[],
  timeoutMs = LIMIT_MS,
): Promise<void> {
  const wanted = JSON.stringify(found.map(idOf).sort())
  while (JSON.stringify(idsOf(await session.next(timeoutMs))) !== wanted);
}

/** Polls until the condition holds. */
async function until(satisfied: () => Promise<boolean>): Promise<void> {
  await vi.waitUntil(satisfied, { timeout: LIMIT_MS, interval: 200 })
}

/** The networks of a test, and the programs on their hosts. */
class World {
  readonly lan = new Lan()
  readonly agent: SimulatedAgent
  readonly open: { close(): Promise<void> }[] = []

  private constructor(agent: SimulatedAgent) {
    this.agent = agent
  }

  /** The tests run at the same time: each has a world of its own. */
  static async create({ onTestFinished }: TestContext): Promise<World> {
    const world = new World(await SimulatedAgent.start())
    onTestFinished(async () => {
      for (const resource of world.open.reverse()) await resource.close()
      await world.agent.close()
      await world.lan.down()
    })
    return world
  }

  cameras(host: string): Cameras {
    const started = new Cameras(new HostProcess(this.lan.namespace(host), programs.cameras))
    this.open.push(started)
    return started
  }

  async discover(details: object = {}, intervalMs = 1000): Promise<SimulatedDiscovery> {
    const args = [this.agent.directory, String(intervalMs)]
    this.open.push(new HostProcess(this.lan.namespace('handler'), programs.handler, args))
    const request = { details: JSON.stringify(details) }
    const session = await eventually(() => this.agent.discover('onvif', request))
    this.open.push(session)
    return session
  }
}

const camera = (of: Cameras, options: SimulatedCameraOptions): Promise<Found> =>
  of.call('start', options)

let programs: { readonly cameras: string; readonly handler: string }

describe.skipIf(missing.length > 0)(title, { concurrent: true }, () => {
  beforeAll(async () => {
    programs = {
      cameras: await bundle('cameras-program'),
      handler: await bundle('handler-program'),
    }
  })

  it('D2 finds cameras on every interface, also with IPv6 only', async (test) => {
    const world = await World.create(test)
    await world.lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await world.lan.plug({
      host: 'handler',
      interface: 'eth1',
      network: 'other',
      addresses: ['10.78.0.1/24', 'fd78::1/64'],
    })
    await world.lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    await world.lan.plug({ host: 'two', network: 'other', addresses: ['10.78.0.2/24'] })
    await world.lan.plug({ host: 'three', network: 'other', addresses: ['fd78::3/64'] })
    await world.lan.plug({ host: 'four', network: 'other', addresses: [] })
    const found = await Promise.all([
      camera(world.cameras('one'), { address: '10.77.0.2' }),
      camera(world.cameras('two'), { address: '10.78.0.2' }),
      camera(world.cameras('three'), { address: 'fd78::3' }),
      camera(world.cameras('four'), { address: await world.lan.linkLocal('four') }),
    ])
    const session = await world.discover()
    await untilFound(session, found)
  })

  it.for(['an answer', 'a Hello'])(
    'D2 calls a link-local URL on the interface of the announcement: %s by IPv4',
    async (how, test) => {
      const world = await World.create(test)
      await world.lan.plug({ host: 'handler', network: 'other', addresses: ['10.78.0.1/24'] })
      await world.lan.plug({ host: 'handler', interface: 'eth1', addresses: ['10.77.0.1/24'] })
      await world.lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
      const host = world.cameras('one')
      const service = await camera(host, { address: await world.lan.linkLocal('one') })
      const target = await camera(host, { address: '10.77.0.2', xAddrs: [service.url] })
      await host.call('faults', service.index, { silent: true })
      if (how === 'a Hello') await host.call('faults', target.index, { silent: true })
      const session = await world.discover()
      if (how === 'a Hello') {
        expect(await session.next(LIMIT_MS)).toEqual([])
        await host.call('hello', target.index)
      }
      await untilFound(session, [{ ...target, url: service.url }])
    },
  )

  it('D2 takes the zone of an answer where another interface has the address', async (test) => {
    const world = await World.create(test)
    const [address, port] = ['fe80::aa', 8080]
    const found: Found[] = []
    const wanted: string[][] = []
    for (const [index, network] of ['lan', 'other'].entries()) {
      await world.lan.plug({ host: 'handler', interface: `eth${index}`, network, addresses: [] })
      await world.lan.plug({ host: network, network, addresses: [`${address}/64`] })
      const identity = { serialNumber: `serial of ${network}` }
      const options = { address: `${address}%eth0`, port, identity }
      const started = await camera(world.cameras(network), options)
      found.push(started)
      wanted.push([started.uuid, identity.serialNumber])
    }
    // The announced URLs differ in nothing: with a wrong zone, the other camera answers.
    expect(new Set(found.map(({ url }) => url)).size).toBe(1)
    const serials = (devices: readonly Device[]) =>
      devices.map(({ properties }) => [
        properties?.ONVIF_DEVICE_UUID,
        properties?.ONVIF_DEVICE_SERIAL_NUMBER,
      ])
    const session = await world.discover({ deviceId: 'uuid' })
    for (;;) {
      const now = serials(await session.next(LIMIT_MS))
      if (now.length < wanted.length) continue
      expect(now.sort()).toEqual(wanted.sort())
      break
    }
  })

  const hasFirewall = spawnSync('iptables', ['--version']).status === 0
  const needs = hasFirewall ? '' : ' (needs iptables)'
  it.skipIf(!hasFirewall)(`keeps cameras although packets are lost${needs}`, async (test) => {
    const world = await World.create(test)
    await world.lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    const addresses = Array.from({ length: 10 }, (_, n) => `10.77.0.${n + 2}`)
    await world.lan.plug({
      host: 'cameras',
      addresses: addresses.map((address) => `${address}/24`),
    })
    for (const host of ['handler', 'cameras']) await world.lan.lose(host, 33)
    const host = world.cameras('cameras')
    const found = await Promise.all(addresses.map((address) => camera(host, { address })))
    const session = await world.discover()
    // A connection that loses its first packets takes one to three seconds. After four failures,
    // the next query comes after 80 s.
    await untilFound(session, found)
    const { probes } = await host.call('counts')
    await until(async () => (await host.call('counts')).probes > probes + 5 * 2 * found.length)
    // A camera whose query was interrupted tells the rest later. No camera goes.
    while (session.pending > 0)
      expect(idsOf(await session.next(LIMIT_MS))).toEqual(found.map(idOf).sort())
  })

  it('D2 probes on a new interface at once, and forgets those of a lost one', async (test) => {
    const world = await World.create(test)
    await world.lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await world.lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    await world.lan.plug({ host: 'two', network: 'other', addresses: ['10.78.0.2/24'] })
    const target = await camera(world.cameras('one'), { address: '10.77.0.2' })
    const two = await camera(world.cameras('two'), { address: '10.78.0.2' })
    const session = await world.discover()
    await untilFound(session, [target])
    for (const _ of [1, 2]) {
      await world.lan.plug({
        host: 'handler',
        interface: 'eth1',
        network: 'other',
        addresses: ['10.78.0.1/24'],
      })
      await untilFound(session, [target, two])
      await world.lan.unplug('handler', 'eth1')
      await untilFound(session, [target])
    }
  })

  it('receives Hello and Bye on all interfaces, also if their addresses change', async (test) => {
    const world = await World.create(test)
    await world.lan.plug({
      host: 'handler',
      interface: 'aa0',
      addresses: ['10.77.0.1/24', '10.77.0.9/24'],
    })
    await world.lan.plug({
      host: 'handler',
      interface: 'bb0',
      network: 'other',
      addresses: ['10.78.0.1/24'],
    })
    await world.lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    await world.lan.plug({ host: 'two', network: 'other', addresses: ['10.78.0.2/24'] })
    const [host1, host2] = [world.cameras('one'), world.cameras('two')]
    // The cameras answer no Probe: only Hello can find them.
    const shy = async (host: Cameras, address: string) => {
      const started = await camera(host, { address })
      await host.call('faults', started.index, { silent: true })
      return started
    }
    const [first, second] = [await shy(host1, '10.77.0.2'), await shy(host2, '10.78.0.2')]
    const session = await world.discover({}, 2000)
    expect(await session.next(LIMIT_MS)).toEqual([])
    const heard = async () => {
      // On a busy machine, the first may be gone before the second is found: it answers no Probe.
      for (let isFound = false; !isFound; ) {
        await host1.call('hello', first.index)
        await host2.call('hello', second.index)
        isFound = await untilFound(session, [first, second], 10_000).then(
          () => true,
          () => false,
        )
      }
      await host1.call('bye', first.index)
      await host2.call('bye', second.index)
      await untilFound(session, [])
    }
    await heard()
    const listening = () => world.lan.listening('handler', DISCOVERY_GROUP.IPv4)
    expect(await listening()).toEqual(['aa0', 'bb0'])
    await world.lan.removeAddresses('handler', 'aa0')
    await until(async () => (await listening()).join() === 'bb0')
    await world.lan.addAddress('handler', '10.77.0.7/24', 'aa0')
    await until(async () => (await listening()).join() === 'aa0,bb0')
    await heard()
  })

  it('finds cameras by Probes only if another program holds the port alone', async (test) => {
    const world = await World.create(test)
    await world.lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await world.lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    const holder = new HostProcess(
      world.lan.namespace('handler'),
      path.join(import.meta.dirname, 'port-holder.mjs'),
    )
    world.open.push(holder)
    await once(holder.child, 'message')
    const host = world.cameras('one')
    const target = await camera(host, { address: '10.77.0.2' })
    const session = await world.discover()
    await untilFound(session, [target])
    await host.call('bye', target.index)
    await host.call('close', target.index)
    expect(await session.next(LIMIT_MS)).toEqual([])
  })
})
