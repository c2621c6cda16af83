import { once } from 'node:events'
import net, { type AddressInfo } from 'node:net'
import path from 'node:path'
import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { aborted, silentLogger, systemClock } from '@akrijs/runtime'
import { DiscoveryProperties, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { serve } from '@akrijs/sdk'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { HandlerAccess } from '../access/handler-access.js'
import { ObjectStore } from '../cluster/object-store.js'
import { RANK } from '../discovery/device-set.js'
import { Discovery } from '../discovery/discovery.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import { configurationWith } from '../testing/objects.js'
import { RegistrationHarness, range, toldHandler } from '../testing/registration-harness.js'

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

it('connections without right HTTP/2 disturb no others, and end with the agent', async () => {
  const preface = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
  const starts = ['', '\x16\x03\x01', 'GET / HTTP/1.1\r\n', preface.slice(0, 9), preface]
  const sockets = [...starts, `${preface}${'\x7f'.repeat(2000)}`].map((start) => {
    const socket = net.connect(world.server.socket)
    socket.on('error', () => {}).resume()
    socket.write(start)
    return socket
  })
  const file = await world.socket(path.join(world.directory, 'good.sock'))
  expect(await world.register('good', file)).toBe('taken')
  // A connection that is reset ends no process.
  sockets.pop()?.resetAndDestroy()
  expect(await world.register('good', file)).toBe('taken')
  await world.server.close()
  await eventually(() => expect(sockets.every(({ closed }) => closed)).toBe(true))
})

/** A port of this machine that nothing serves. */
async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise((resolve) => server.close(resolve))
  return port
}

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
