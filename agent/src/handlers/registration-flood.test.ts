import { once } from 'node:events'
import { rm } from 'node:fs/promises'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { aborted, silentLogger, systemClock } from '@akrijs/runtime'
import { DiscoveryProperties, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { ManualClock } from '@akrijs/runtime/testing'
import { serve } from '@akrijs/sdk'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { HandlerAccess } from '../access/handler-access.js'
import { ObjectStore } from '../cluster/object-store.js'
import { RANK } from '../discovery/device-admission.js'
import { Discovery } from '../discovery/discovery.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import { configurationWith } from '../testing/objects.js'
import { RegistrationHarness, range, toldHandler } from '../testing/registration-harness.js'
import { AllowedAddresses } from './allowed-addresses.js'
import { EmbeddedEndpoint } from './embedded-endpoint.js'

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
  it('ends the oldest beyond 512: others register, and a handler of the SDK returns', async () => {
    await serveTold()
    await eventually(() => expect(world.uids('told')).toHaveLength(1))
    const [registered] = world.registry.endpoints('told')
    const returned: unknown[] = []
    world.registry.onChange(({ reregistered }) => {
      returned.push(reregistered)
    }, new AbortController().signal)
    const sockets: net.Socket[] = []
    try {
      for (const _ of range(1, 600)) {
        const connection = net.connect(world.server.socket)
        connection.on('error', () => {}).resume()
        sockets.push(connection)
        await once(connection, 'connect')
      }
      await eventually(() => expect(returned).toEqual([registered]))
      const late = await world.socket(path.join(world.directory, 'late.sock'))
      expect(await world.register('late', late, 0, false, world.connect())).toBe('taken')
      await eventually(() =>
        expect(sockets.filter(({ destroyed }) => !destroyed).length).toBeLessThanOrEqual(510),
      )
      expect(world.registry.endpoints('told')).toEqual([registered])
    } finally {
      for (const connection of sockets) connection.destroy()
    }
  })
})

/** A port of this machine that nothing serves. */
async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

describe('256 endpoints', () => {
  let clock: ManualClock
  let good: string

  beforeEach(async () => {
    clock = new ManualClock()
    good = await world.socket(path.join(world.directory, 'good.sock'))
  })

  const fill = async () => {
    const names = range(1, 256 - world.registry.size).map((number) => `name${number}`)
    const answers = await Promise.all(names.map((name) => world.register(name, good)))
    expect(new Set(answers)).toEqual(new Set(['taken']))
  }
  const late = () => world.register('late', good)
  const REFUSED =
    '8 RESOURCE_EXHAUSTED: the agent has 256 endpoints of handlers, the most that it accepts, ' +
    'and each is still served; end a handler that is not needed, and this one can register'

  it('are the most: others are told so, and those 256 may register again', async () => {
    const load = () => Promise.reject(new TypeError('nobody asks'))
    world.registry.register(
      new EmbeddedEndpoint({ name: 'loaded', load }, silentLogger, Promise.resolve()),
    )
    await fill()
    expect(await late()).toBe(REFUSED)
    expect(await world.register('name1', good, 0, true)).toBe('taken')
    expect(world.registry.endpoints('name1').map(({ shared }) => shared)).toEqual([true])
    expect(world.registry.size).toBe(256)
    expect(world.uids('loaded')).toEqual(['embedded-loaded'])
  })

  const holders = new Map<string, string>()
  it.each<[string, () => Promise<[endpoint: string, leave: () => Promise<unknown>]>]>([
    [
      'the socket is removed',
      async () => {
        const file = await world.socket(path.join(world.directory, 'left.sock'))
        return [file, () => rm(file)]
      },
    ],
    [
      'nothing listens at the port',
      async () => {
        const server = net.createServer().listen(0, '127.0.0.1')
        await once(server, 'listening')
        const { port } = server.address() as AddressInfo
        const leave = () => new Promise((resolve) => server.close(resolve))
        return [`http://127.0.0.1:${port}`, leave]
      },
    ],
    [
      'the Pod with the address is gone',
      async () => {
        holders.set('10.0.0.7', 'pod-1')
        return ['http://10.0.0.7:10000', async () => holders.delete('10.0.0.7')]
      },
    ],
  ])('have room for another when %s', async (_, handler) => {
    const pods = { holderOf: (address: string) => holders.get(address) }
    await world.serve({ clock, addresses: new AllowedAddresses(['127.0.0.1'], pods) })
    const [endpoint, leave] = await handler()
    const type = endpoint.startsWith('http') ? 1 : 0
    expect(await world.register('leaves', endpoint, type)).toBe('taken')
    await fill()
    await leave()
    expect(await late()).toBe('taken')
    expect(world.uids('leaves')).toEqual([])
    await clock.advance(1000)
    expect(await world.register('later', good)).toBe(REFUSED)
  })

  it('are checked once in a second at most, whatever is registered', async () => {
    await world.serve({ clock })
    await fill()
    let checks = 0
    const dropAbsent = world.registry.dropAbsent.bind(world.registry)
    world.registry.dropAbsent = () => {
      checks++
      return dropAbsent()
    }
    for (const seconds of [1, 2]) {
      const answers = await Promise.all(range(1, 50).map(() => late()))
      expect(new Set(answers)).toEqual(new Set([REFUSED]))
      expect(checks).toBe(seconds)
      await clock.advance(1000)
    }
  })
})

describe('a flood of registrations', () => {
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
      rankDevices: () => () => RANK.new,
    })
    discovery.start()
  })

  afterEach(async () => {
    await discovery.close()
  })

  const found = () => [...discovery.deviceSet(keyOf(configurationWith())).devices.keys()]

  it.each([
    ['unused names', (number: number) => `junk${number}`],
    ['a used name', () => 'told'],
  ])('A5 under %s, which nothing serves, does not lock out an awaited handler', async (_, name) => {
    configurations.put(configurationWith())
    const port = await freePort()
    const junk = range(1, 256).map((number) =>
      world.register(name(number), `http://127.0.0.${number % 256}:${port}`, 1),
    )
    await Promise.all(junk)
    expect(world.registry.size).toBe(256)
    await serveTold()
    await eventually(() => expect(found()).toEqual(['1']))
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
})
