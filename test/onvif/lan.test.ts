import { execFile, spawnSync } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Device } from '@akrijs/runtime/handler'
import { SimulatedAgent, type SimulatedDiscovery } from '@akrijs/sdk/testing'
import { afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest'
import { DISCOVERY_GROUP } from '../../handlers/onvif/src/discovery/message.js'
import type { SimulatedCameraOptions } from '../../handlers/onvif/src/testing/index.js'
import { bundle, Cameras, HostProcess } from './host-process.js'
import { Lan, missingForLan } from './lan.js'

// Each camera has a host, and so has the handler. Multicast is real.

const missing = missingForLan()
const title =
  missing.length > 0
    ? `the ONVIF handler on a network (needs ${missing.join(', ')})`
    : 'the ONVIF handler on a network'

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
  timeoutMs = 30_000,
): Promise<void> {
  const wanted = JSON.stringify(found.map(idOf).sort())
  while (JSON.stringify(idsOf(await session.next(timeoutMs))) !== wanted);
}

/** Polls until the condition holds. */
async function until(satisfied: () => Promise<boolean>): Promise<void> {
  await vi.waitUntil(satisfied, { timeout: 60_000, interval: 200 })
}

describe.skipIf(missing.length > 0)(title, () => {
  let programs: { readonly cameras: string; readonly handler: string }
  let lan: Lan
  let agent: SimulatedAgent
  let open: { close(): Promise<void> }[]

  beforeAll(async () => {
    programs = {
      cameras: await bundle('cameras-program'),
      handler: await bundle('handler-program'),
    }
  })

  beforeEach(async () => {
    lan = new Lan()
    agent = await SimulatedAgent.start()
    open = []
  })

  afterEach(async () => {
    for (const resource of open.reverse()) await resource.close()
    await agent.close()
    await lan.down()
  })

  function cameras(host: string): Cameras {
    const started = new Cameras(new HostProcess(lan.namespace(host), programs.cameras))
    open.push(started)
    return started
  }

  async function discover(details: object = {}, intervalMs = 1000): Promise<SimulatedDiscovery> {
    open.push(
      new HostProcess(lan.namespace('handler'), programs.handler, [
        agent.directory,
        String(intervalMs),
      ]),
    )
    const session = await agent.discover('onvif', { details: JSON.stringify(details) })
    open.push(session)
    return session
  }

  async function camera(of: Cameras, options: SimulatedCameraOptions): Promise<Found> {
    return of.call('start', options)
  }

  /** Counts the connections to one port at several addresses of a host. */
  async function callsTo(host: string, addresses: readonly string[]) {
    const program = path.join(import.meta.dirname, 'connection-counter.mjs')
    const listening = new HostProcess(lan.namespace(host), program, addresses)
    open.push(listening)
    const [port] = await once(listening.child, 'message')
    const count = async (): Promise<number> => {
      const answer = once(listening.child, 'message')
      listening.child.send('how many')
      return (await answer)[0]
    }
    return { addresses, port, count }
  }

  it('finds the cameras of several hosts', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    const found: Found[] = []
    for (const n of [2, 3, 4]) {
      await lan.plug({ host: `h${n}`, addresses: [`10.77.0.${n}/24`] })
      found.push(await camera(cameras(`h${n}`), { address: `10.77.0.${n}` }))
    }
    const session = await discover()
    await untilFound(session, found)
  })

  it('D2 finds cameras on every interface, also with IPv6 only', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({
      host: 'handler',
      interface: 'eth1',
      network: 'other',
      addresses: ['10.78.0.1/24', 'fd78::1/64'],
    })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    await lan.plug({ host: 'two', network: 'other', addresses: ['10.78.0.2/24'] })
    await lan.plug({ host: 'three', network: 'other', addresses: ['fd78::3/64'] })
    await lan.plug({ host: 'four', network: 'other', addresses: [] })
    const found = await Promise.all([
      camera(cameras('one'), { address: '10.77.0.2' }),
      camera(cameras('two'), { address: '10.78.0.2' }),
      camera(cameras('three'), { address: 'fd78::3' }),
      camera(cameras('four'), { address: await lan.linkLocal('four') }),
    ])
    const session = await discover()
    await untilFound(session, found)
  })

  it.each(['an answer', 'a Hello'])(
    'D2 calls a link-local URL on the interface of the announcement: %s by IPv4',
    async (how) => {
      await lan.plug({ host: 'handler', network: 'other', addresses: ['10.78.0.1/24'] })
      await lan.plug({ host: 'handler', interface: 'eth1', addresses: ['10.77.0.1/24'] })
      await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
      const host = cameras('one')
      const service = await camera(host, { address: await lan.linkLocal('one') })
      const target = await camera(host, { address: '10.77.0.2', xAddrs: [service.url] })
      await host.call('faults', service.index, { silent: true })
      if (how === 'a Hello') await host.call('faults', target.index, { silent: true })
      const session = await discover()
      if (how === 'a Hello') {
        expect(await session.next()).toEqual([])
        await host.call('hello', target.index)
      }
      await untilFound(session, [{ ...target, url: service.url }])
    },
  )

  it('D2 takes the zone of the interface of an answer where another has the address', async () => {
    const [address, port] = ['fe80::aa', 8080]
    const found: Found[] = []
    const wanted: string[][] = []
    for (const [index, network] of ['lan', 'other'].entries()) {
      await lan.plug({ host: 'handler', interface: `eth${index}`, network, addresses: [] })
      await lan.plug({ host: network, network, addresses: [`${address}/64`] })
      const identity = { serialNumber: `serial of ${network}` }
      const options = { address: `${address}%eth0`, port, identity }
      const started = await camera(cameras(network), options)
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
    const session = await discover({ deviceId: 'uuid' })
    for (;;) {
      const now = serials(await session.next(45_000))
      if (now.length < wanted.length) continue
      expect(now.sort()).toEqual(wanted.sort())
      break
    }
  })

  it('finds and keeps all cameras in a network that loses a third of packets', async (context) => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    const addresses = Array.from({ length: 10 }, (_, n) => `10.77.0.${n + 2}`)
    await lan.plug({ host: 'cameras', addresses: addresses.map((address) => `${address}/24`) })
    context.skip(spawnSync('iptables', ['--version']).status !== 0, 'the Debian package iptables')
    for (const host of ['handler', 'cameras']) await lan.lose(host, 33)
    const host = cameras('cameras')
    const found = await Promise.all(addresses.map((address) => camera(host, { address })))
    const session = await discover()
    // A connection that loses its first packets takes one to three seconds. After four failures,
    // the next query comes after 80 s.
    await untilFound(session, found, 150_000)
    const { probes } = await host.call('counts')
    await until(async () => (await host.call('counts')).probes > probes + 5 * 2 * found.length)
    // A camera whose query was interrupted tells the rest later. No camera goes.
    while (session.pending > 0) expect(idsOf(await session.next())).toEqual(found.map(idOf).sort())
  })

  it('finds two hundred cameras in a round, and calls none in the next rounds', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/16'] })
    const addresses = Array.from({ length: 200 }, (_, n) => `10.77.1.${n + 1}`)
    await lan.plug({ host: 'cameras', addresses: addresses.map((address) => `${address}/16`) })
    const host = cameras('cameras')
    const found = await Promise.all(addresses.map((address) => camera(host, { address })))
    const session = await discover({}, 3000)
    await untilFound(session, found, 120_000)
    const rounds = async (number: number) => {
      const { probes } = await host.call('counts')
      await until(async () => (await host.call('counts')).probes >= probes + number * 2 * 200)
      return (await host.call('counts')).requests
    }
    // A busy machine interrupts queries, and an interrupted query is made again.
    let requests = 0
    await until(async () => {
      const before = requests
      requests = await rounds(1)
      return requests === before
    })
    // Each camera gets four requests: time, information, interfaces and scopes.
    expect(requests).toBeGreaterThanOrEqual(4 * 200)
    expect(requests).toBeLessThan(6 * 200)
    expect(await rounds(2)).toBe(requests)
    expect(session.pending).toBe(0)
  })

  it('offers a camera a second after its Hello, and removes it after its Bye', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    // The rounds are so far apart that no Probe finds the camera.
    const session = await discover({}, 60_000)
    expect(await session.next()).toEqual([])
    const host = cameras('one')
    const target = await camera(host, { address: '10.77.0.2' })
    const took: { readonly hello: number; readonly bye: number }[] = []
    for (let round = 0; round < 3; round++) {
      const switchedOn = performance.now()
      await host.call('hello', target.index)
      await untilFound(session, [target])
      const offered = performance.now()
      await host.call('bye', target.index)
      expect(await session.next()).toEqual([])
      took.push({ hello: offered - switchedOn, bye: performance.now() - offered })
    }
    // A busy machine may be late in some rounds.
    expect(Math.min(...took.map(({ hello }) => hello))).toBeLessThan(1000)
    expect(Math.min(...took.map(({ bye }) => bye))).toBeLessThan(1000)
  })

  it('D2 probes on a new interface at once, and forgets those of a lost one', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    await lan.plug({ host: 'two', network: 'other', addresses: ['10.78.0.2/24'] })
    const target = await camera(cameras('one'), { address: '10.77.0.2' })
    const two = await camera(cameras('two'), { address: '10.78.0.2' })
    const session = await discover()
    await untilFound(session, [target])
    for (const _ of [1, 2]) {
      await lan.plug({
        host: 'handler',
        interface: 'eth1',
        network: 'other',
        addresses: ['10.78.0.1/24'],
      })
      await untilFound(session, [target, two])
      await lan.unplug('handler', 'eth1')
      await untilFound(session, [target])
    }
  })

  it('D2 follows a camera to another address, and keeps its id with uuid', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    const host = cameras('one')
    const target = await camera(host, { address: '10.77.0.2' })
    const session = await discover({ deviceId: 'uuid' })
    expect(await session.next()).toMatchObject([
      { id: target.uuid, properties: { ONVIF_DEVICE_IP_ADDRESS: '10.77.0.2' } },
    ])
    await lan.addAddress('one', '10.77.0.3/24')
    const url = await host.call('move', target.index, '10.77.0.3')
    expect(await session.next()).toMatchObject([
      {
        id: target.uuid,
        properties: { ONVIF_DEVICE_IP_ADDRESS: '10.77.0.3', ONVIF_DEVICE_SERVICE_URL: url },
      },
    ])
  })

  it('finds a camera behind a router by its address', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({ host: 'router', addresses: ['10.77.0.254/24'] })
    await lan.plug({
      host: 'router',
      interface: 'eth1',
      network: 'far',
      addresses: ['10.99.0.254/24'],
    })
    await lan.plug({ host: 'far', network: 'far', addresses: ['10.99.0.2/24'] })
    await lan.forward('router')
    await lan.route('handler', '10.99.0.0/24', '10.77.0.254')
    await lan.route('far', '10.77.0.0/24', '10.99.0.254')
    const far = await camera(cameras('far'), { address: '10.99.0.2' })
    const without = await discover()
    expect(await without.next()).toEqual([])
    const session = await agent.discover('onvif', {
      details: JSON.stringify({ probeAddresses: ['10.99.0.2'] }),
    })
    open.push(session)
    await untilFound(session, [far])
  })

  it('finds all cameras in a flood of forged ones, and calls no forged address', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24', '10.99.0.1/32'] })
    const node = await callsTo('handler', ['10.77.0.1', '10.99.0.1', '127.0.0.1'])
    const addresses = Array.from({ length: 20 }, (_, n) => `10.77.0.${n + 2}`)
    await lan.plug({ host: 'cameras', addresses: addresses.map((address) => `${address}/24`) })
    await lan.plug({ host: 'forger', addresses: ['10.77.0.66/24', '10.77.0.67/24'] })
    const host = cameras('cameras')
    const found = await Promise.all(addresses.map((address) => camera(host, { address })))
    const forger = cameras('forger')
    // Each answer has forty devices: at closed ports of an allowed address, and at addresses of the
    // handler's machine.
    const forged = (url: string) => ({
      uuid: randomUUID(),
      types: ['dn:NetworkVideoTransmitter'],
      scopes: [],
      xAddrs: [url],
      metadataVersion: 1,
    })
    for (const address of ['10.77.0.66', '10.77.0.67']) {
      for (let n = 0; n < 10; n++) {
        const xAddrs = node.addresses.map((local) => `http://${local}:${node.port}/`)
        const target = await camera(forger, { address, xAddrs })
        const furtherMatches = Array.from({ length: 40 }, (_, port) =>
          forged(`http://${address}:${port + 1}/`),
        )
        await forger.call('faults', target.index, { delayMs: 0, furtherMatches })
      }
    }
    const session = await discover()
    await untilFound(session, found)
    // After two more rounds, all queries are done.
    const { probes } = await host.call('counts')
    await until(async () => (await host.call('counts')).probes >= probes + 2 * 2 * found.length)
    expect(await node.count()).toBe(0)
  })

  it('calls a camera on its own machine only if the address itself is named', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    const local = await camera(cameras('handler'), { address: '10.77.0.1' })
    const target = await camera(cameras('one'), { address: '10.77.0.2' })
    await untilFound(await discover(), [target])
    const also = (details: object) => agent.discover('onvif', { details: JSON.stringify(details) })
    for (const [allowedNetworks, found] of [
      [['10.77.0.0/24'], [target]],
      [
        ['10.77.0.0/24', '10.77.0.1'],
        [local, target],
      ],
    ] as const) {
      const session = await also({ allowedNetworks })
      open.push(session)
      await untilFound(session, found)
    }
  })

  it('receives Hello and Bye on all interfaces, also if their addresses change', async () => {
    await lan.plug({
      host: 'handler',
      interface: 'aa0',
      addresses: ['10.77.0.1/24', '10.77.0.9/24'],
    })
    await lan.plug({
      host: 'handler',
      interface: 'bb0',
      network: 'other',
      addresses: ['10.78.0.1/24'],
    })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    await lan.plug({ host: 'two', network: 'other', addresses: ['10.78.0.2/24'] })
    const [host1, host2] = [cameras('one'), cameras('two')]
    // The cameras answer no Probe: only Hello can find them.
    const shy = async (host: Cameras, address: string) => {
      const started = await camera(host, { address })
      await host.call('faults', started.index, { silent: true })
      return started
    }
    const [first, second] = [await shy(host1, '10.77.0.2'), await shy(host2, '10.78.0.2')]
    const session = await discover({}, 2000)
    expect(await session.next()).toEqual([])
    const heard = async () => {
      await host1.call('hello', first.index)
      await host2.call('hello', second.index)
      await untilFound(session, [first, second])
      await host1.call('bye', first.index)
      await host2.call('bye', second.index)
      await untilFound(session, [])
    }
    await heard()
    const listening = () => lan.listening('handler', DISCOVERY_GROUP.IPv4)
    expect(await listening()).toEqual(['aa0', 'bb0'])
    await lan.removeAddresses('handler', 'aa0')
    await until(async () => (await listening()).join() === 'bb0')
    await lan.addAddress('handler', '10.77.0.7/24', 'aa0')
    await until(async () => (await listening()).join() === 'aa0,bb0')
    await heard()
  })

  it('has simulated cameras that the clients node-onvif and onvif also find', async () => {
    await lan.plug({ host: 'client', addresses: ['10.77.0.1/24'] })
    await lan.route('client', 'default', '10.77.0.254')
    const found: Found[] = []
    for (const n of [2, 3]) {
      await lan.plug({ host: `h${n}`, addresses: [`10.77.0.${n}/24`] })
      found.push(await camera(cameras(`h${n}`), { address: `10.77.0.${n}` }))
    }
    const client = [process.execPath, path.join(import.meta.dirname, 'discovery-clients.mjs')]
    const { stdout } = await promisify(execFile)('ip', [
      'netns',
      'exec',
      lan.namespace('client'),
      ...client,
    ])
    const answers: Record<string, { readonly urn: string; readonly xaddrs: readonly string[] }[]> =
      JSON.parse(stdout)
    const wanted = found.map(({ uuid, url }) => ({ urn: `urn:uuid:${uuid}`, xaddrs: [url] }))
    for (const name of ['node-onvif', 'onvif']) {
      expect(answers[name]).toHaveLength(wanted.length)
      expect(answers[name]).toEqual(expect.arrayContaining(wanted))
    }
  })

  it('finds cameras by Probes only if another program holds the port alone', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    const holder = new HostProcess(
      lan.namespace('handler'),
      path.join(import.meta.dirname, 'port-holder.mjs'),
    )
    open.push(holder)
    await once(holder.child, 'message')
    const host = cameras('one')
    const target = await camera(host, { address: '10.77.0.2' })
    const session = await discover()
    await untilFound(session, [target])
    await host.call('bye', target.index)
    await host.call('close', target.index)
    expect(await session.next()).toEqual([])
  })

  it('runs as a program', async () => {
    await lan.plug({ host: 'handler', addresses: ['10.77.0.1/24'] })
    await lan.plug({ host: 'one', addresses: ['10.77.0.2/24'] })
    const target = await camera(cameras('one'), { address: '10.77.0.2' })
    const akriHandler = path.resolve(import.meta.dirname, '../../sdk/dist/akri-handler.js')
    const args = ['@akrijs/handler-onvif', '--directory', agent.directory, '--log-level', 'error']
    open.push(new HostProcess(lan.namespace('handler'), akriHandler, args))
    expect(await agent.registration('onvif')).toMatchObject({ endpointType: 'UDS', shared: true })
    const session = await agent.discover('onvif')
    open.push(session)
    await untilFound(session, [target])
  })
})
