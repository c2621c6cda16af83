import { chmod, mkdir, mkdtemp, rm, stat, symlink, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { RegistrationClient } from '@akrijs/proto/discovery'
import { aborted, Listeners, silentLogger, systemClock } from '@akrijs/runtime'
import { DiscoveryProperties, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { ManualClock } from '@akrijs/runtime/testing'
import { serve } from '@akrijs/sdk'
import { ObjectStore } from '@akrijs/standalone'
import { connectivityState, credentials } from '@grpc/grpc-js'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../../test/support/eventually.js'
import { HandlerAccess } from '../../core/access/handler-access.js'
import { Discovery } from '../../core/discovery/discovery.js'
import { HandlerRegistry } from '../../core/discovery/handler-registry.js'
import { configurationWith } from '../../testing/objects.js'
import { KernelDeviceNodes } from '../kernel-device-nodes.js'
import { AllowedAddresses } from './allowed-addresses.js'
import { EmbeddedEndpoint } from './embedded-endpoint.js'
import { type RegistrationServer, serveRegistration } from './registration-server.js'

/** Any name. */
const names = { allBut: new Set<string>() }

const addresses = new AllowedAddresses(['0.0.0.0/0', '::/0', '127.0.0.0/8', '::1'])

let directory: string
let registry: HandlerRegistry
let server: RegistrationServer
const clients: RegistrationClient[] = []
/** The registrations over the last connection. */
let registrations: number
const listeners: net.Server[] = []

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
  registry = new HandlerRegistry()
  server = await serveRegistration({
    directory,
    registry,
    names,
    addresses,
    clock: systemClock,
    log: silentLogger,
  })
  registrations = 0
})

/** A client with a connection of its own. */
function connect(): RegistrationClient {
  const options = { 'grpc.use_local_subchannel_pool': 1 }
  const address = `unix:${server.socket}`
  const client = new RegistrationClient(address, credentials.createInsecure(), options)
  clients.push(client)
  return client
}

/** A client whose connection has a budget. */
function clientWithBudget(): RegistrationClient {
  const last = clients.at(-1)
  return last !== undefined && registrations++ % 30 !== 0 ? last : connect()
}

afterEach(async () => {
  for (const client of clients.splice(0)) client.close()
  await server.close()
  for (const listener of listeners.splice(0)) listener.close()
  await rm(directory, { recursive: true, force: true })
})

/** A socket with a listener. */
async function socket(file: string): Promise<string> {
  const listener = net.createServer()
  listeners.push(listener)
  await new Promise<void>((resolve) => listener.listen(file, resolve))
  return file
}

function register(
  name: string,
  endpoint: string,
  type = 0,
  shared = false,
  client = clientWithBudget(),
): Promise<string> {
  return new Promise((resolve) => {
    // The test also sends a type that the contract does not know.
    const endpointType = type as 0
    client.registerDiscoveryHandler({ name, endpoint, endpointType, shared }, (error) =>
      resolve(error?.message ?? 'taken'),
    )
  })
}

const uids = (name: string) => registry.endpoints(name).map(({ uid }) => uid)

const range = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

/** The names in {@link address}. */
const addressed: string[] = []

/** An endpoint with an address of its own. */
function address(name: string, number: number): string {
  if (!addressed.includes(name)) addressed.push(name)
  return `http://10.${addressed.indexOf(name)}.0.${number}:1`
}

async function registerMany(name: string, first: number, last: number): Promise<string[]> {
  const answers: string[] = []
  for (const number of range(first, last))
    answers.push(await register(name, address(name, number), 1))
  return answers
}

/** The endpoints that {@link registerMany} has registered. */
const numbers = (name: string) =>
  uids(name)
    .map((uid) => Number(/\.(\d+):1$/.exec(uid)?.[1]))
    .sort((a, b) => a - b)

/** A handler with one device. */
const toldHandler = defineDiscoveryHandler({
  name: 'told',
  shared: true,
  details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  async *discover({ signal }) {
    yield [{ id: '1' }]
    await aborted(signal)
  },
})

describe('the registration of handlers', () => {
  it('accepts a socket in its directory, and an address of the network', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    expect(await register('a', file)).toBe('taken')
    expect(await register('a', 'http://10.0.0.7:10000', 1, true)).toBe('taken')
    expect(await register('a', 'http://[fd00::7]:10000', 1)).toBe('taken')
    expect(uids('a')).toEqual(
      [`a@${file}`, 'a@http://10.0.0.7:10000', 'a@http://[fd00::7]:10000'].sort(),
    )
  })

  it('A5 gives one endpoint for repeated requests, and follows shared until then', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    for (const shared of [false, true]) await register('a', file, 0, shared)
    expect(registry.endpoints('a').map(({ shared }) => shared)).toEqual([true])
  })

  it('A9 refuses wrong requests with the values that would be right, and goes on', async () => {
    await mkdir(path.join(directory, 'sub'))
    const outside = await mkdtemp(path.join(os.tmpdir(), 'akri-out-'))
    const elsewhere = await socket(path.join(outside, 'x.sock'))
    await symlink(elsewhere, path.join(directory, 'link.sock'))
    await writeFile(path.join(directory, 'file.sock'), '')
    const cases: [string, string, number, RegExp][] = [
      [
        'a',
        '/x',
        7,
        /INVALID_ARGUMENT.*endpoint_type 7 is not known; it is UDS \(0\) or NETWORK \(1\)/,
      ],
      ['', '/x', 0, /name "" is not a handler name/],
      ['a b', '/x', 0, /not a handler name/],
      ['a', 'relative.sock', 0, /not an absolute path/],
      ['a', elsewhere, 0, /is not in /],
      ['a', path.join(directory, 'link.sock'), 0, /is not in /],
      ['a', `${directory}/sub/../../${path.basename(outside)}/x.sock`, 0, /is not in /],
      ['a', path.join(directory, 'none.sock'), 0, /is not there/],
      ['a', path.join(directory, 'file.sock'), 0, /is not a socket/],
      ['a', server.socket, 0, /the agent's socket/],
      ['a', 'https://10.0.0.7:1', 1, /not http:\/\/address:port/],
      ['a', 'http://user@10.0.0.7:1', 1, /not http:\/\/address:port/],
      ['a', 'unix:/x', 1, /not http:\/\/address:port/],
      // Another host can have the name at the next look.
      ['a', 'http://localhost:1', 1, /not http:\/\/address:port/],
      ['a', 'http://sensor.akri.svc:1', 1, /not http:\/\/address:port/],
      ['a', 'http://:secret@10.0.0.7:1', 1, /not http:\/\/address:port/],
    ]
    for (const [name, endpoint, type, message] of cases)
      expect(await register(name, endpoint, type)).toMatch(message)
    expect(registry.size).toBe(0)
    await rm(outside, { recursive: true, force: true })
  })

  it('refuses the names of loaded handlers, except on their own sockets', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    await server.close()
    const options = { directory, registry, addresses, clock: systemClock, log: silentLogger }
    server = await serveRegistration({ ...options, names: { allBut: new Set(['udev']) } })
    expect(await register('udev', file)).toMatch(
      'PERMISSION_DENIED: the agent loads a handler udev itself; ' +
        'end this handler, or do not name it',
    )
    expect(await register('udev', 'http://10.0.0.7:10000', 1)).toMatch(/PERMISSION_DENIED/)
    expect(await register('Udev', file)).toBe('taken')
    await server.close()
    server = await serveRegistration({ ...options, names: { only: new Set(['udev', 'onvif']) } })
    expect(await register('udev', file)).toBe('taken')
    expect(await register('opcua', file)).toMatch(/PERMISSION_DENIED: only udev, onvif register/)
    expect(registry.names).toEqual(['Udev', 'udev'])
  })

  it('dials a socket only while the path is a socket of its directory', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    await register('a', file)
    await rm(file)
    const outside = await mkdtemp(path.join(os.tmpdir(), 'akri-out-'))
    const elsewhere = await socket(path.join(outside, 'x.sock'))
    await symlink(elsewhere, file)
    await expect(firstListOf('a')).rejects.toThrow(/is not asked: endpoint .*a.sock" is not in /)
    await rm(outside, { recursive: true, force: true })
  })

  it('accepts a bounded number of endpoints', async () => {
    await registerMany('other', 1, 1)
    expect(await registerMany('a', 1, 40)).toEqual(Array(40).fill('taken'))
    expect([numbers('a'), numbers('other')]).toEqual([range(9, 40), [1]])
    for (let number = 1; number <= 10; number++) await registerMany(`b${number}`, 1, 32)
    expect(registry.size).toBe(256)
    // The oldest registrations gave way. A repeated registration counts as new.
    expect(['other', 'a', 'b1', 'b2', 'b3'].map(numbers)).toEqual([[], [], [], [], range(1, 32)])
    await registerMany('b3', 1, 1)
    await registerMany('c', 1, 2)
    expect(numbers('b3')).toEqual([1, ...range(4, 32)])
    expect(registry.size).toBe(256)
  })

  it('accepts eight endpoints of a name from one address; unused ones give way', async () => {
    for (const port of range(1, 40)) await register('a', `http://10.0.0.7:${port}`, 1)
    expect(uids('a')).toHaveLength(8)
    expect(await register('a', address('a', 1), 1)).toBe('taken')
    expect(uids('a')).toHaveLength(9)
    registry.judgeBy(() => 'listing')
    expect(await register('a', 'http://10.0.0.7:99', 1)).toMatch(/RESOURCE_EXHAUSTED/)
    expect(await register('a', address('a', 2), 1)).toBe('taken')
  })

  it('takes no place of an endpoint in use, and refuses if all are in use', async () => {
    const inUse = (...used: number[]) =>
      registry.judgeBy(({ uid }) =>
        used.some((number) => uid.endsWith(`.${number}:1`)) ? 'listing' : 'unused',
      )
    inUse(1, 7)
    await registerMany('a', 1, 70)
    expect(numbers('a')).toEqual([1, 7, ...range(41, 70)])
    inUse(...range(1, 70))
    expect(await register('a', address('a', 99), 1)).toMatch(
      /RESOURCE_EXHAUSTED.*32 endpoints of a and 32 in all.*in use/,
    )
    expect(await register('a', address('a', 70), 1)).toBe('taken')
    expect(await register('b', address('b', 99), 1)).toBe('taken')
    inUse(1, 7)
    expect(await register('a', address('a', 99), 1)).toBe('taken')
    expect(numbers('a')).toEqual([1, 7, ...range(42, 70), 99])
  })

  it('takes no place of a handler in this process, which does not register again', async () => {
    const load = () => Promise.reject(new TypeError('nobody asks'))
    registry.register(new EmbeddedEndpoint({ name: 'a', load }, silentLogger, Promise.resolve()))
    await registerMany('a', 1, 40)
    for (let number = 1; number <= 10; number++) await registerMany(`b${number}`, 1, 32)
    expect(registry.endpoints('a').map(({ uid }) => uid)).toEqual(['embedded-a'])
    expect(registry.size).toBe(256)
  })

  it('A9 survives any input', async () => {
    const text = fc.oneof(
      fc.string(),
      fc.string({ unit: 'binary' }),
      fc.constantFrom(directory, `${directory}/`, 'http://', 'http://[', '/\0'),
    )
    await fc.assert(
      fc.asyncProperty(
        text,
        text,
        fc.integer({ min: -5, max: 5 }),
        async (name, endpoint, type) => {
          expect(await register(name, endpoint, type)).toMatch(/^taken$|^3 INVALID_ARGUMENT/)
        },
      ),
      { numRuns: 200 },
    )
  })

  it('does not replace a living agent, and replaces a dead one', async () => {
    await expect(
      serveRegistration({
        directory,
        registry,
        names,
        addresses,
        clock: systemClock,
        log: silentLogger,
      }),
    ).rejects.toThrow(/is served by another process/)
    await server.close()
    await writeFile(server.socket, '').then(() => chmod(server.socket, 0o600))
    await expect(
      serveRegistration({
        directory,
        registry,
        names,
        addresses,
        clock: systemClock,
        log: silentLogger,
      }),
    ).rejects.toThrow(/it is not a socket/)
    await rm(server.socket)
    server = await serveRegistration({
      directory,
      registry,
      names,
      addresses,
      clock: systemClock,
      log: silentLogger,
    })
    expect((await stat(server.socket)).isSocket()).toBe(true)
  })

  it('works with a handler that the SDK serves, whose lists arrive', async () => {
    const handler = defineDiscoveryHandler({
      name: 'told',
      shared: true,
      details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
      async *discover({ details }) {
        yield [{ id: JSON.stringify(details) }]
      },
    })
    const serving = await serve(handler, { directory, log: silentLogger, environment: {} })
    try {
      await eventually(() => expect(uids('told')).toHaveLength(1))
      const [endpoint] = registry.endpoints('told')
      const stop = new AbortController()
      const { DiscoveryProperties } = await import('@akrijs/sdk')
      const request = {
        configuration: 'default/lab',
        details: 'a: 1',
        properties: new DiscoveryProperties(),
        mostDevices: 10,
        rank: () => () => 0,
      }
      for await (const list of endpoint?.discover(request, stop.signal) ?? []) {
        expect(list).toMatchObject({ devices: [{ id: '{"a":1}' }], leftOut: 0 })
        stop.abort()
      }
      expect(endpoint?.shared).toBe(true)
    } finally {
      await serving.close()
    }
  })
})

async function firstListOf(name: string): Promise<unknown> {
  const request = {
    configuration: 'default/lab',
    details: '',
    properties: new DiscoveryProperties(),
    mostDevices: 1000,
    rank: () => () => 0,
  }
  const [endpoint] = registry.endpoints(name)
  const stop = new AbortController()
  for await (const list of endpoint?.discover(request, stop.signal) ?? []) return list
  return undefined
}

describe('an endpoint on the network', () => {
  let clock: ManualClock
  let holders: Map<string, string>
  const changed = new Listeners()

  beforeEach(async () => {
    clock = new ManualClock()
    holders = new Map([['10.0.0.7', 'pod-1']])
    const pods = {
      holderOf: (address: string) => holders.get(address),
      onChange: (listener: () => void, signal: AbortSignal) => changed.add(listener, signal),
    }
    const allowed = new AllowedAddresses(['10.9.0.0/16'], pods)
    await server.close()
    const options = { directory, registry, names, clock, log: silentLogger }
    server = await serveRegistration({ ...options, addresses: allowed })
  })

  /** Without the interval in which the server checks its connections. */
  const pauses = () => clock.sleeping.filter((ms) => ms > 1000)
  const waiting = (count: number) =>
    eventually(() => expect(pauses()).toEqual(Array(count).fill(5000)))

  it('has the address of a Pod of this node, or an address that the operator allows', async () => {
    for (const address of ['10.0.0.7', '[::ffff:10.0.0.7]', '0x0a.7', '10.9.1.1'])
      expect(await register('a', `http://${address}:10000`, 1), address).toBe('taken')
    expect(uids('a')).toEqual(['a@http://10.0.0.7:10000', 'a@http://10.9.1.1:10000'])
    const others = ['10.0.0.8', '127.0.0.1', '[::1]', '169.254.169.254', '0.0.0.0', '10.10.0.1']
    const answers = others.map((address) => register('a', `http://${address}:10000`, 1))
    await waiting(others.length)
    await clock.advance(5000)
    for (const answer of await Promise.all(answers)) {
      expect(answer).toMatch(
        /PERMISSION_DENIED: endpoint ".*": \S+ is not the address of a Pod on this node; register/,
      )
      expect(answer).toContain(
        'register from a Pod of this node, or name the address in AKRI_HANDLER_ADDRESSES of ' +
          'the agent (chart: agent.handlerAccess.addresses)',
      )
    }
    expect(uids('a')).toHaveLength(2)
  })

  it('is accepted as soon as the API server knows the address of its Pod', async () => {
    const answer = register('a', 'http://10.0.0.8:10000', 1)
    await waiting(1)
    holders.set('10.0.0.8', 'pod-2')
    changed.tell()
    expect(await answer).toBe('taken')
    expect(pauses()).toEqual([])
  })

  it('does not get the requests of another Pod that had its address before', async () => {
    await register('a', 'http://10.0.0.7:1', 1)
    holders.set('10.0.0.7', 'pod-2')
    const gone = /is not asked: 10.0.0.7 no longer belongs to the Pod that registered/
    await expect(firstListOf('a')).rejects.toThrow(gone)
    holders.delete('10.0.0.7')
    await expect(firstListOf('a')).rejects.toThrow(gone)
  })

  it('waits for its Pod in a bounded number, with room for local handlers', async () => {
    const answers = range(1, 80).map((port) => register('a', `http://10.0.0.8:${port}`, 1))
    await waiting(64)
    const file = await socket(path.join(directory, 'b.sock'))
    expect(await register('b', file)).toBe('taken')
    await clock.advance(5000)
    for (const answer of await Promise.all(answers)) expect(answer).toMatch(/PERMISSION_DENIED/)
    expect(uids('a')).toEqual([])
  })

  it('waits no longer than the agent runs', async () => {
    const answer = register('a', 'http://10.0.0.8:1', 1)
    await waiting(1)
    await server.close()
    expect(await answer).not.toBe('taken')
    expect(registry.size).toBe(0)
    expect(pauses()).toEqual([])
  })
})

describe('a flood of connections', () => {
  const flood = async (count: number): Promise<net.Socket[]> => {
    const sockets: net.Socket[] = []
    for (let number = 0; number < count; number++) {
      const connection = net.connect(server.socket)
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

  it('leaves the connection of a registered handler, and lets others register', async () => {
    const handler = await serve(toldHandler, { directory, log: silentLogger, environment: {} })
    let sockets: net.Socket[] = []
    try {
      await eventually(() => expect(uids('told')).toHaveLength(1))
      const [registered] = registry.endpoints('told')
      sockets = await flood(2000)
      await eventually(() => expect(open(sockets).length).toBeLessThanOrEqual(512))
      const late = await socket(path.join(directory, 'late.sock'))
      await eventually(async () => expect(await register('late', late)).toBe('taken'))
      // A handler whose connection had ended would have registered again.
      expect(registry.endpoints('told')).toEqual([registered])
    } finally {
      for (const connection of sockets) connection.destroy()
      await handler.close()
    }
  })

  it('ends: a connection that registers nothing is closed after ten seconds', async () => {
    await server.close()
    const clock = new ManualClock()
    server = await serveRegistration({
      directory,
      registry,
      names,
      addresses,
      log: silentLogger,
      clock,
    })
    expect(await register('a', await socket(path.join(directory, 'a.sock')))).toBe('taken')
    const sockets = await flood(20)
    for (let second = 0; second < 10; second++) {
      for (const connection of sockets) connection.write(Buffer.alloc(1))
      await clock.advance(1000)
    }
    await eventually(() => expect(open(sockets)).toEqual([]))
  })

  it('that all register the endpoint of another connection gives way', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    const [first, second] = [connect(), connect()]
    await register('a', file, 0, false, first)
    await register('a', file, 0, false, second)
    const states = () =>
      [first, second].map((client) => client.getChannel().getConnectivityState(false))
    const { READY, IDLE } = connectivityState
    expect(states()).toEqual([READY, READY])
    const sockets = await flood(600)
    try {
      await eventually(() => expect(states()).toEqual([READY, IDLE]))
      const late = await socket(path.join(directory, 'late.sock'))
      await eventually(async () =>
        expect(await register('late', late, 0, false, connect())).toBe('taken'),
      )
      expect(states()).toEqual([READY, IDLE])
    } finally {
      for (const connection of sockets) connection.destroy()
    }
  })

  it('leaves the second connection of an endpoint when the first one has ended', async () => {
    const file = await socket(path.join(directory, 'a.sock'))
    const [first, second] = [connect(), connect()]
    await register('a', file, 0, false, first)
    await register('a', file, 0, false, second)
    first.close()
    const sockets = await flood(600)
    try {
      const late = await socket(path.join(directory, 'late.sock'))
      await eventually(async () =>
        expect(await register('late', late, 0, false, connect())).toBe('taken'),
      )
      expect(second.getChannel().getConnectivityState(false)).toBe(connectivityState.READY)
    } finally {
      for (const connection of sockets) connection.destroy()
    }
  })
})

describe('a flood of registrations', () => {
  it('over one connection is refused after 32, and then one in a second is accepted', async () => {
    await server.close()
    const clock = new ManualClock()
    const warn = vi.fn()
    const log = { ...silentLogger, warn }
    server = await serveRegistration({ directory, registry, names, addresses, log, clock })
    const file = await socket(path.join(directory, 'a.sock'))
    const [hostile, other] = [connect(), connect()]
    const flood = async (count: number) => {
      const answers = range(1, count).map(() => register('a', file, 0, false, hostile))
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
    expect(await register('a', file, 0, false, other)).toBe('taken')
  })
  let configurations: ObjectStore<Configuration>
  let discovery: Discovery
  let serving: Awaited<ReturnType<typeof serve>> | undefined

  beforeEach(() => {
    configurations = new ObjectStore()
    const cluster = {
      resolveProperties: async () => new DiscoveryProperties(),
      onPropertiesChanged() {},
    }
    discovery = new Discovery({
      cluster,
      configurations,
      registry,
      access: new HandlerAccess({ paths: new KernelDeviceNodes() }),
      clock: systemClock,
      log: silentLogger,
      rankDevices: () => ({ rankOf: () => 0, isServed: () => false }),
    })
    discovery.start()
  })

  afterEach(async () => {
    await discovery.close()
    await serving?.close()
    serving = undefined
  })

  const serveTold = async () => {
    serving = await serve(toldHandler, { directory, log: silentLogger, environment: {} })
  }

  const found = () => [...discovery.deviceSet(keyOf(configurationWith())).devices.keys()]
  const junk = async (count: number) => {
    const answers = range(1, count).map((number) =>
      register(`junk${number}`, 'http://10.0.0.7:1', 1),
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
    expect(uids('told')).toHaveLength(1)
    expect(registry.size).toBe(256)
  })

  it('A5 under a name without a Configuration yet does not lock out its handler', async () => {
    // As a handler in a Pod whose address changes each time.
    await registerMany('told', 1, 40)
    await serveTold()
    await eventually(() =>
      expect(uids('told').some((uid) => uid.startsWith(`told@${directory}`))).toBe(true),
    )
    configurations.put(configurationWith())
    await eventually(() => expect(found()).toEqual(['1']))
    expect(uids('told')).toHaveLength(32)
  })

  it('A5 under a used name do not lock out its handler once the others do not answer', async () => {
    configurations.put(configurationWith())
    for (const number of range(1, 32)) await register('told', `http://127.0.0.${number}:1`, 1)
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
    expect(uids('told')).toHaveLength(32)
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
        { directory, log: silentLogger, environment: {} },
      )
    const device = () => discovery.deviceSet(keyOf(configurationWith())).devices.get('1')
    serving = await handlerWith(true)
    await eventually(() => expect(device()).toMatchObject({ shared: true, healthy: true }))
    const file = path.join(directory, 'told.sock')
    for (let round = 0; round < 20; round++) expect(await register('told', file)).toBe('taken')
    expect(device()?.shared).toBe(true)
    expect(asked).toBe(1)
    await serving.close()
    serving = await handlerWith(false)
    await register('told', file, 0, true)
    await eventually(() => expect(device()).toMatchObject({ shared: false, healthy: true }))
    expect(asked).toBe(2)
  })

  it('A5 ends the connection of a dropped endpoint, so that its handler returns', async () => {
    await server.close()
    const clock = new ManualClock()
    const log = silentLogger
    server = await serveRegistration({ directory, registry, names, addresses, log, clock })
    await serveTold()
    await eventually(() => expect(uids('told')).toHaveLength(1))
    // A hostile process has registered the endpoint too, and keeps its connection.
    await register('told', path.join(directory, 'told.sock'))
    const [endpoint] = registry.endpoints('told')
    if (endpoint !== undefined) registry.drop(endpoint)
    expect(uids('told')).toEqual([])
    await clock.advance(10_000)
    await eventually(() => expect(uids('told')).toHaveLength(1))
  })

  it('A5 ends with the return of a living handler that had given way', async () => {
    await server.close()
    const clock = new ManualClock()
    server = await serveRegistration({
      directory,
      registry,
      names,
      addresses,
      log: silentLogger,
      clock,
    })
    await serveTold()
    await eventually(() => expect(uids('told')).toHaveLength(1))
    // Of the same user.
    const file = await socket(path.join(directory, 'junk.sock'))
    for (const number of range(1, 300)) await register(`junk${number}`, file)
    expect(uids('told')).toEqual([])
    await clock.advance(9999)
    expect(uids('told')).toEqual([])
    await clock.advance(1)
    await eventually(() => expect(uids('told')).toHaveLength(1))
    expect(registry.size).toBe(256)
  })
})
