import net from 'node:net'
import path from 'node:path'
import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { aborted, silentLogger, systemClock } from '@akrijs/runtime'
import { DiscoveryProperties, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { ManualClock } from '@akrijs/runtime/testing'
import { serve } from '@akrijs/sdk'
import { ObjectStore } from '@akrijs/standalone'
import { connectivityState } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../../test/support/eventually.js'
import { HandlerAccess } from '../../core/access/handler-access.js'
import { Discovery } from '../../core/discovery/discovery.js'
import { configurationWith } from '../../testing/objects.js'
import { RegistrationHarness, range, toldHandler } from '../../testing/registration-harness.js'
import { KernelDeviceNodes } from '../kernel-device-nodes.js'

let world: RegistrationHarness
let serving: Awaited<ReturnType<typeof serve>> | undefined

beforeEach(async () => {
  world = await RegistrationHarness.start()
})

afterEach(async () => {
  await serving?.close()
  serving = undefined
  await world.close()
})

const serveTold = async () => {
  serving = await serve(toldHandler, {
    directory: world.directory,
    log: silentLogger,
    environment: {},
  })
}

describe('a flood of connections', () => {
  const flood = async (count: number): Promise<net.Socket[]> => {
    const sockets: net.Socket[] = []
    for (let number = 0; number < count; number++) {
      const connection = net.connect(world.server.socket)
      connection.on('error', () => {}).resume()
      sockets.push(connection)
      await new Promise((resolve) => {
        connection.once('connect', resolve)
        connection.once('close', resolve)
      })
    }
    return sockets
  }
  const open = (sockets: readonly net.Socket[]) => sockets.filter(({ destroyed }) => !destroyed)

  it('leaves one connection of each registered handler, and lets others register', async () => {
    // Time stands still: a slow machine would also close connections that are ten seconds old.
    await world.serve({ clock: new ManualClock() })
    await serveTold()
    await eventually(() => expect(world.uids('told')).toHaveLength(1))
    const [registered] = world.registry.endpoints('told')
    const registerBoth = async (name: string) => {
      const file = await world.socket(path.join(world.directory, `${name}.sock`))
      const clients = [world.connect(), world.connect()] as const
      for (const client of clients) await world.register(name, file, 0, false, client)
      return clients
    }
    const [first, second] = await registerBoth('a')
    const [ended, next] = await registerBoth('b')
    const states = () =>
      [first, second, next].map((client) => client.getChannel().getConnectivityState(false))
    const { READY, IDLE } = connectivityState
    expect(states()).toEqual([READY, READY, READY])
    ended.close()
    const sockets = await flood(600)
    try {
      await eventually(() => expect(open(sockets).length).toBeLessThanOrEqual(512))
      // The other connections of an endpoint give way before young ones.
      await eventually(() => expect(states()).toEqual([READY, IDLE, READY]))
      const late = await world.socket(path.join(world.directory, 'late.sock'))
      await eventually(async () =>
        expect(await world.register('late', late, 0, false, world.connect())).toBe('taken'),
      )
      expect(states()).toEqual([READY, IDLE, READY])
      // A handler whose connection had ended would have registered again.
      expect(world.registry.endpoints('told')).toEqual([registered])
    } finally {
      for (const connection of sockets) connection.destroy()
    }
  })

  it('ends: a connection that registers nothing is closed after ten seconds', async () => {
    const clock = new ManualClock()
    await world.serve({ clock })
    expect(
      await world.register('a', await world.socket(path.join(world.directory, 'a.sock'))),
    ).toBe('taken')
    const sockets = await flood(20)
    for (let second = 0; second < 10; second++) {
      for (const connection of sockets) connection.write(Buffer.alloc(1))
      await clock.advance(1000)
    }
    await eventually(() => expect(open(sockets)).toEqual([]))
  })
})

describe('a flood of registrations', () => {
  it('over one connection is refused after 32, and then one in a second is accepted', async () => {
    const clock = new ManualClock()
    const warn = vi.fn()
    const log = { ...silentLogger, warn }
    await world.serve({ log, clock })
    const file = await world.socket(path.join(world.directory, 'a.sock'))
    const [hostile, other] = [world.connect(), world.connect()]
    const flood = async (count: number) => {
      const answers = range(1, count).map(() => world.register('a', file, 0, false, hostile))
      const all = await Promise.all(answers)
      expect(
        all.filter((answer) => !/^taken$|^8 RESOURCE_EXHAUSTED: too many/.test(answer)),
      ).toEqual([])
      return all.filter((answer) => answer === 'taken').length
    }
    expect(await flood(300)).toBe(32)
    // The log has a bound too.
    expect(warn.mock.calls.length).toBeLessThanOrEqual(100)
    await clock.advance(2000)
    expect(await flood(300)).toBe(2)
    expect(await world.register('a', file, 0, false, other)).toBe('taken')
  })
  let configurations: ObjectStore<Configuration>
  let discovery: Discovery

  beforeEach(() => {
    configurations = new ObjectStore()
    const cluster = {
      resolveProperties: async () => new DiscoveryProperties(),
      onPropertiesChanged() {},
    }
    discovery = new Discovery({
      cluster,
      configurations,
      registry: world.registry,
      access: new HandlerAccess({ paths: new KernelDeviceNodes() }),
      clock: systemClock,
      log: silentLogger,
      rankDevices: () => ({ rankOf: () => 0, isServed: () => false }),
    })
    discovery.start()
  })

  afterEach(async () => {
    await discovery.close()
  })

  const found = () => [...discovery.deviceSet(keyOf(configurationWith())).devices.keys()]
  const junk = async (count: number) => {
    const answers = range(1, count).map((number) =>
      world.register(`junk${number}`, 'http://10.0.0.7:1', 1),
    )
    expect(await Promise.all(answers)).toEqual(Array(count).fill('taken'))
  }

  it('A5 under unused names does not lock out an awaited handler', async () => {
    configurations.put(configurationWith())
    await junk(300)
    await serveTold()
    await eventually(() => expect(found()).toEqual(['1']))
    // The flood does not replace the handler in use either.
    await junk(300)
    expect(world.uids('told')).toHaveLength(1)
    expect(world.registry.size).toBe(256)
  })

  it('A5 under a name without a Configuration yet does not lock out its handler', async () => {
    // As a handler in a Pod whose address changes each time.
    await world.registerMany('told', 1, 40)
    await serveTold()
    await eventually(() =>
      expect(world.uids('told').some((uid) => uid.startsWith(`told@${world.directory}`))).toBe(
        true,
      ),
    )
    configurations.put(configurationWith())
    await eventually(() => expect(found()).toEqual(['1']))
    expect(world.uids('told')).toHaveLength(32)
  })

  it('A5 under a used name do not lock out its handler once the others do not answer', async () => {
    configurations.put(configurationWith())
    for (const number of range(1, 32)) await world.register('told', `http://127.0.0.${number}:1`, 1)
    await eventually(() => {
      const states = discovery
        .status(keyOf(configurationWith()))
        ?.endpoints.map(({ state }) => state)
      expect(states).toEqual(
        Array(32).fill(expect.objectContaining({ phase: 'failed', reason: 'Unreachable' })),
      )
    })
    await serveTold()
    await eventually(() => expect(found()).toEqual(['1']))
    expect(world.uids('told')).toHaveLength(32)
  })

  it('A5 changes no stream and no devices of a handler; the handler itself can', async () => {
    configurations.put(configurationWith())
    let asked = 0
    const handlerWith = (shared: boolean) =>
      serve(
        defineDiscoveryHandler({
          ...toldHandler,
          shared,
          async *discover({ signal }) {
            asked++
            yield [{ id: '1' }]
            await aborted(signal)
          },
        }),
        { directory: world.directory, log: silentLogger, environment: {} },
      )
    const device = () => discovery.deviceSet(keyOf(configurationWith())).devices.get('1')
    serving = await handlerWith(true)
    await eventually(() => expect(device()).toMatchObject({ shared: true, healthy: true }))
    const file = path.join(world.directory, 'told.sock')
    for (let round = 0; round < 20; round++)
      expect(await world.register('told', file)).toBe('taken')
    expect(device()?.shared).toBe(true)
    expect(asked).toBe(1)
    await serving.close()
    serving = await handlerWith(false)
    await world.register('told', file, 0, true)
    await eventually(() => expect(device()).toMatchObject({ shared: false, healthy: true }))
    expect(asked).toBe(2)
  })

  it('A5 ends the connection of a dropped endpoint, so that its handler returns', async () => {
    const clock = new ManualClock()
    await world.serve({ clock })
    await serveTold()
    await eventually(() => expect(world.uids('told')).toHaveLength(1))
    // A hostile process has registered the endpoint too, and keeps its connection.
    await world.register('told', path.join(world.directory, 'told.sock'))
    const [endpoint] = world.registry.endpoints('told')
    if (endpoint !== undefined) world.registry.drop(endpoint)
    expect(world.uids('told')).toEqual([])
    await clock.advance(10_000)
    await eventually(() => expect(world.uids('told')).toHaveLength(1))
  })

  it('A5 ends with the return of a living handler that had given way', async () => {
    const clock = new ManualClock()
    await world.serve({ clock })
    await serveTold()
    await eventually(() => expect(world.uids('told')).toHaveLength(1))
    // Of the same user.
    const file = await world.socket(path.join(world.directory, 'junk.sock'))
    for (const number of range(1, 300)) await world.register(`junk${number}`, file)
    expect(world.uids('told')).toEqual([])
    await clock.advance(9999)
    expect(world.uids('told')).toEqual([])
    await clock.advance(1)
    await eventually(() => expect(world.uids('told')).toHaveLength(1))
    expect(world.registry.size).toBe(256)
  })
})
