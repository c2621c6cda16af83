import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
import { aborted, Latest, silentLogger } from '@akrijs/runtime'
import { type Device, type DeviceReport, DiscoveryProperties } from '@akrijs/runtime/handler'
import { ManualClock } from '@akrijs/runtime/testing'
import { ObjectStore } from '@akrijs/standalone'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { eventually } from '../../../../test/support/eventually.js'
import { MissingPropertyError, PropertyForbiddenError, PropertyRefusedError } from '../../errors.js'
import type { Cluster } from '../../ports/cluster.js'
import type { DeviceNodes } from '../../ports/device-nodes.js'
import {
  type BoundedList,
  type DiscoverRequest,
  DiscoveryFailedError,
  type HandlerEndpoint,
} from '../../ports/handler-endpoint.js'
import { noopObserver } from '../../ports/observer.js'
import { configurationWith } from '../../testing/objects.js'
import { readDeviceRule } from '../access/access-rules.js'
import { HandlerAccess } from '../access/handler-access.js'
import { ConfigurationDiscovery } from './configuration-discovery.js'
import { Discovery } from './discovery.js'
import { HandlerRegistry } from './handler-registry.js'

/** A handler that says what it is told to say. */
class ToldEndpoint implements HandlerEndpoint {
  readonly uid: string
  readonly name: string
  readonly shared = true
  readonly requests: DiscoverRequest[] = []
  open = 0
  /** Nobody listens there any more. */
  away = false
  #lists = new Latest<BoundedList>()

  constructor(uid: string, name = 'told') {
    this.uid = uid
    this.name = name
  }

  give(...ids: string[]): void {
    this.list(...ids.map((id) => ({ id })))
  }

  list(...devices: Device[]): void {
    this.#lists.push({ devices, leftOut: 0 })
  }

  giveList(list: BoundedList): void {
    this.#lists.push(list)
  }

  fail(failure: DiscoveryFailedError['failure'], message = 'on purpose'): void {
    this.#lists.end(new DiscoveryFailedError(failure, message))
  }

  async *discover(request: DiscoverRequest, signal: AbortSignal) {
    if (this.away) throw new DiscoveryFailedError('unreachable', 'on purpose')
    this.requests.push(request)
    this.open++
    const lists = new Latest<BoundedList>()
    this.#lists = lists
    signal.addEventListener('abort', () => lists.end(), { once: true })
    try {
      yield* lists
    } finally {
      this.open--
    }
  }
}

/** A handler that gives the same list to each Configuration. */
class ManyLists implements HandlerEndpoint {
  readonly shared = true
  readonly name = 'flood'
  readonly uid: string
  readonly #ids: readonly string[]

  constructor(uid: string, ids: readonly string[]) {
    this.uid = uid
    this.#ids = ids
  }

  async *discover(_: DiscoverRequest, signal: AbortSignal) {
    yield { devices: this.#ids.map((id) => ({ id })), leftOut: 0 }
    await aborted(signal)
  }
}

const configuration = (namespace: string, details = '', uid = `${namespace}-1`) =>
  configurationWith({ details }, { namespace, uid })

const key = keyOf(configuration('default'))

let clock: ManualClock
let configurations: ObjectStore<Configuration>
let registry: HandlerRegistry
let discovery: Discovery
/** The handlers that have failed. */
let failures: string[]
let listsRead: number
/** The devices that this node serves. */
let servedIds: Set<string>
let resolveProperties: Cluster['resolveProperties']
/** The device nodes that the kernel names, and how often it was asked. */
let kernel: { present: Set<string>; complete: boolean; asked: number; answer?: Promise<void> }
let propertiesChanged: (which: typeof key) => void

const deviceNodes: DeviceNodes = {
  find: async () => {
    kernel.asked++
    await kernel.answer
    return { ...kernel, present: new Set(kernel.present) }
  },
}

const rules = {
  mounts: [],
  devices: [readDeviceRule('told=/dev/**') ?? expect.fail()],
  environment: [],
}

function make(bounds = { perConfiguration: 4, perNode: 6, slots: 60 }): Discovery {
  const cluster = {
    configurations,
    resolveProperties: (one: Configuration) => resolveProperties(one),
    onPropertiesChanged: (listener: (which: typeof key) => void) => {
      propertiesChanged = listener
    },
  }
  return new Discovery(
    {
      cluster,
      configurations: cluster.configurations,
      registry,
      access: new HandlerAccess({ paths: deviceNodes, rules }),
      clock,
      log: silentLogger,
      observer: {
        ...noopObserver,
        handlerFailed: (handler) => failures.push(handler),
        handlerAnswered: () => {
          listsRead++
        },
      },
      bounds,
      rankDevices: () => ({
        rankOf: (id, _shared, units) => (servedIds.has(id) ? (units > 1 ? 1 : 0) : 2),
        isServed: (id) => servedIds.has(id),
      }),
      unhealthyAfterMs: 30_000,
      removeAfterMs: 300_000,
    },
    { random: () => 0 },
  )
}

beforeEach(() => {
  clock = new ManualClock()
  configurations = new ObjectStore()
  registry = new HandlerRegistry()
  failures = []
  listsRead = 0
  servedIds = new Set()
  kernel = { present: new Set(), complete: true, asked: 0 }
  resolveProperties = async () => new DiscoveryProperties()
  discovery = make()
})

afterEach(async () => {
  await discovery.close()
})

const found = (which = key) => [...discovery.deviceSet(which).devices.keys()]
const refusals = () =>
  [...discovery.deviceSet(key).devices.values()].flatMap(({ refusal }) => refusal ?? [])
const unhealthy = () =>
  [...discovery.deviceSet(key).devices.values()]
    .filter(({ healthy }) => !healthy)
    .map(({ device }) => device.id)

describe('the reports of a handler', () => {
  const leftOut = (count: number): DeviceReport => ({
    reason: 'HTTP status 401',
    count,
    ids: [],
    listed: false,
  })
  const shown = () => discovery.status(key)?.endpoints[0]?.reports?.[0]?.count
  let endpoint: ToldEndpoint
  let changes: number
  const give = async (count: number, ...ids: string[]) => {
    const devices = ids.map((id) => ({ id }))
    endpoint.giveList({ devices, leftOut: 0, reports: count === 0 ? [] : [leftOut(count)] })
    await clock.advance(0)
  }

  beforeEach(async () => {
    configurations.put(configuration('default'))
    endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    changes = 0
    let before: number | undefined
    discovery.onChange(() => {
      if (shown() !== before) changes++
      before = shown()
    }, new AbortController().signal)
  })

  it('are shown with the first list, and with each list of other devices', async () => {
    await give(3, 'a')
    expect(shown()).toBe(3)
    await give(2, 'a', 'b')
    expect(shown()).toBe(2)
  })

  it('are shown within 10 s if only they change, and at most once in 10 s', async () => {
    await give(1)
    for (let second = 0; second < 60; second++) {
      await give(second % 7)
      await clock.advance(1000)
    }
    expect(changes).toBeGreaterThan(3)
    expect(changes).toBeLessThanOrEqual(7)
    await give(9)
    await clock.advance(10_000)
    expect(shown()).toBe(9)
  })

  it('are not shown if the devices are left out for less than 10 s', async () => {
    await give(0, 'a')
    const before = changes
    await give(1, 'a')
    await clock.advance(9000)
    await give(0, 'a', 'b')
    await clock.advance(60_000)
    expect([shown(), changes]).toEqual([undefined, before])
  })

  it('are those of the present details', async () => {
    await give(3)
    configurations.put(configuration('default', 'other'))
    await clock.advance(0)
    expect(shown()).toBeUndefined()
    await give(4)
    expect(shown()).toBe(4)
  })
})

describe('discovery', () => {
  it('A1 asks a handler at once when it registers, after any wait', async () => {
    configurations.put(configuration('default'))
    discovery.start()
    await clock.advance(100_000)
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    expect(found()).toEqual(['1'])
    expect(discovery.deviceSet(key).complete).toBe(true)
  })

  it('A2 keeps the devices of a handler that comes back, and takes its next list', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1', '2')
    await clock.advance(0)
    endpoint.fail('failed')
    await clock.advance(1000)
    expect(found()).toEqual(['1', '2'])
    endpoint.give('2')
    await clock.advance(0)
    expect(found()).toEqual(['2'])
  })

  it('A3 marks devices of a lost handler, removes them later, and reports both', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    registry.drop(endpoint)
    // As a machine without a battery does, once it has heard the time.
    clock.set(365 * 86_400_000)
    const told = vi.fn()
    discovery.onChange(told, new AbortController().signal)
    await clock.advance(29_999)
    expect(unhealthy()).toEqual([])
    await clock.advance(1)
    expect(unhealthy()).toEqual(['1'])
    expect(told).toHaveBeenCalled()
    await clock.advance(270_000)
    expect(found()).toEqual([])
    expect(discovery.deviceSet(key).complete).toBe(true)
  })

  it('A2 A3 has an incomplete device set until a handler comes, or for a time', async () => {
    configurations.put(configuration('default'))
    discovery.start()
    await clock.advance(200_000)
    expect(discovery.deviceSet(key).complete).toBe(false)
    // Whoever edits the Configuration does not put it off.
    configurations.put(configuration('default', 'edited'))
    const told = vi.fn()
    discovery.onChange(told, new AbortController().signal)
    await clock.advance(99_999)
    expect(discovery.deviceSet(key).complete).toBe(false)
    await clock.advance(1)
    expect(discovery.deviceSet(key)).toMatchObject({ complete: true, devices: new Map() })
    expect(told).toHaveBeenCalledWith(key)
  })

  it('A3 removes an unlisted device at once, although another endpoint is lost', async () => {
    configurations.put(configuration('default'))
    const living = new ToldEndpoint('told@a')
    const lost = new ToldEndpoint('told@b')
    for (const endpoint of [living, lost]) registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    living.give('1', '2')
    lost.give('2', '3')
    await clock.advance(0)
    lost.fail('unreachable')
    await clock.advance(1000)
    living.give()
    await clock.advance(0)
    // The last list of the lost endpoint is kept, also devices that other endpoints had listed.
    expect(discovery.deviceSet(key).complete).toBe(true)
    expect(found().sort()).toEqual(['2', '3'])
  })

  it('A3 removes the devices of a lost handler in time, registered or not', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance(299_999)
    expect(found()).toEqual(['1'])
    // It is given up when it is next asked for.
    await clock.advance(31_000)
    expect(registry.size).toBe(0)
    expect(discovery.deviceSet(key)).toMatchObject({ complete: true, devices: new Map() })
  })

  it('keeps an endpoint that serves one Configuration and not another', async () => {
    for (const namespace of ['default', 'other']) configurations.put(configuration(namespace))
    const endpoint = new ToldEndpoint('told@a')
    const discover = endpoint.discover.bind(endpoint)
    vi.spyOn(endpoint, 'discover').mockImplementation((request, signal) => {
      // A handler can answer UNAVAILABLE, as a connection does that is not there.
      endpoint.away = request.configuration.startsWith('other')
      return discover(request, signal)
    })
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(700_000)
    expect([found(), unhealthy(), registry.size]).toEqual([['1'], [], 1])
    expect(endpoint.requests).toHaveLength(1)
  })

  it('A5 opens one stream for each Configuration, however often a handler registers', async () => {
    configurations.put(configuration('default'))
    configurations.put(configuration('other'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    for (let round = 0; round < 100; round++) {
      registry.register(endpoint)
      await clock.advance(100)
    }
    expect(endpoint.open).toBe(2)
    expect(endpoint.requests).toHaveLength(2)
    expect(registry.size).toBe(1)
  })

  it('A5 makes no work when a handler with open streams registers again', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    const changed = vi.fn()
    discovery.onChange(changed, new AbortController().signal)
    registry.register(endpoint)
    await clock.advance(0)
    expect(changed).not.toHaveBeenCalled()
  })

  it('A5 asks a handler that registered again when its stream has ended', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance(20_000)
    endpoint.away = false
    registry.register(endpoint)
    await clock.advance(0)
    expect(endpoint.open).toBe(1)
    // The agent sees the end of the process before only after the next one has registered.
    registry.register(endpoint)
    await clock.advance(0)
    endpoint.fail('failed')
    await clock.advance(0)
    expect(endpoint.open).toBe(1)
    expect(endpoint.requests).toHaveLength(3)
    expect(found()).toEqual(['1'])
  })

  it('A5 asks a handler that refuses the details again when it registers again', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.fail('invalid-details')
    await clock.advance(0)
    registry.register(endpoint)
    await clock.advance(0)
    expect(endpoint.requests).toHaveLength(2)
  })

  it('A5 asks a dead endpoint that registers on ten times, then once in a second', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    endpoint.away = true
    discovery.start()
    await clock.advance(0)
    const asked = vi.spyOn(endpoint, 'discover')
    const register = async (seconds: number) => {
      asked.mockClear()
      for (let round = 0; round < seconds * 10; round++) {
        registry.register(endpoint)
        await clock.advance(100)
      }
      return asked.mock.calls.length
    }
    expect(await register(10)).toBeLessThanOrEqual(20)
    expect(await register(10)).toBeLessThanOrEqual(11)
    // The flood does not delay the handler itself for longer.
    endpoint.away = false
    registry.register(endpoint)
    await clock.advance(1000)
    expect(endpoint.open).toBe(1)
  })

  it('A5 knows which endpoints it cannot reach, and which give lists', async () => {
    const unasked = new ToldEndpoint('told@a')
    registry.register(unasked)
    discovery.start()
    const uses = () => registry.all.map((endpoint) => registry.useOf(endpoint))
    await clock.advance(0)
    expect(uses()).toEqual(['unused'])
    configurations.put(configuration('default'))
    const later = new ToldEndpoint('told@b')
    registry.register(later)
    await clock.advance(0)
    expect(uses()).toEqual(['silent', 'silent'])
    for (const endpoint of [unasked, later]) endpoint.give('1')
    await clock.advance(0)
    expect(uses()).toEqual(['listing', 'listing'])
    // It is there and breaks: that is for its search to mend.
    unasked.fail('failed')
    later.away = true
    later.fail('failed')
    await clock.advance(1000)
    expect(uses()).toEqual(['listing', 'unused'])
    later.away = false
    await clock.advance(30_000)
    later.give('1')
    await clock.advance(0)
    expect(uses()).toEqual(['listing', 'listing'])
    // The best use counts.
    configurations.put(configuration('other'))
    expect(uses()).toEqual(['listing', 'listing'])
    configurations.remove(key)
    expect(uses()).toEqual(['silent', 'silent'])
    configurations.remove(keyOf(configuration('other')))
    expect(uses()).toEqual(['unused', 'unused'])
  })

  it('A6 asks with the new details after an edit, and keeps the old list until then', async () => {
    configurations.put(configuration('default', 'old'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    configurations.put(configuration('default', 'new'))
    await clock.advance(0)
    expect(endpoint.requests.map(({ details }) => details)).toEqual(['old', 'new'])
    expect(found()).toEqual(['1'])
    endpoint.give('2')
    await clock.advance(0)
    expect(found()).toEqual(['2'])
  })

  it('R57 keeps stream and devices after any other edit of the Configuration', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    const edited = configuration('default')
    const brokers = [
      { brokerPodSpec: { containers: [] } },
      { brokerJobSpec: { template: {} } },
      undefined,
    ]
    for (const brokerSpec of brokers) {
      configurations.put({
        ...edited,
        spec: { ...edited.spec, ...(brokerSpec && { brokerSpec }), capacity: 7 },
      })
      await clock.advance(0)
      expect(found()).toEqual(['1'])
      expect(discovery.deviceSet(key).complete).toBe(true)
    }
    expect(endpoint.requests).toHaveLength(1)
    expect(endpoint.open).toBe(1)
  })

  it('A7 asks again when a Secret changes, and when a missing Secret is created', async () => {
    resolveProperties = async () => {
      throw new MissingPropertyError('there is no Secret default/lab')
    }
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    expect(discovery.status(key)?.endpoints[0]?.state).toMatchObject({
      phase: 'failed',
      reason: 'MissingProperty',
      message: expect.stringContaining('default/lab'),
    })
    resolveProperties = async () => DiscoveryProperties.fromTexts({ token: 'first' })
    await clock.advance(1000)
    expect(endpoint.requests.map(({ properties }) => properties.text('token'))).toEqual(['first'])
    resolveProperties = async () => DiscoveryProperties.fromTexts({ token: 'second' })
    propertiesChanged(key)
    await clock.advance(0)
    expect(endpoint.requests.map(({ properties }) => properties.text('token'))).toEqual([
      'first',
      'second',
    ])
  })

  it('ends a stream whose value is refused, and loses its devices later', async () => {
    resolveProperties = async () => DiscoveryProperties.fromTexts({ token: 's3cret' })
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    expect(endpoint.open).toBe(1)
    resolveProperties = () => Promise.reject(new PropertyRefusedError('no consent'))
    propertiesChanged(key)
    await clock.advance(0)
    expect(endpoint.open).toBe(0)
    expect(discovery.status(key)?.endpoints[0]?.state).toMatchObject({ reason: 'PropertyRefused' })
    await clock.advance(301_000)
    expect(found()).toEqual([])
    expect(endpoint.requests).toHaveLength(1)
  })

  it.each([
    [
      new MissingPropertyError('there is no Secret default/lab'),
      'MissingProperty',
      'there is no Secret default/lab',
    ],
    [new PropertyForbiddenError('no Role'), 'PropertyForbidden', 'no Role'],
    [
      new PropertyRefusedError('Secret factory/lab is in another namespace'),
      'PropertyRefused',
      'Secret factory/lab is in another namespace',
    ],
    [new Error('the connection broke'), 'UnreadableProperty', 'the connection broke'],
  ])(
    'A7 A23 says nothing about a handler that is not asked, because of "%s"',
    async (error, reason, message) => {
      resolveProperties = () => Promise.reject(error)
      configurations.put(configuration('default'))
      const endpoint = new ToldEndpoint('told@a')
      registry.register(endpoint)
      discovery.start()
      await clock.advance(0)
      expect(discovery.status(key)?.endpoints[0]?.state).toEqual({
        phase: 'failed',
        reason,
        message,
      })
      expect(failures).toEqual([])
      resolveProperties = async () => new DiscoveryProperties()
      await clock.advance(1000)
      endpoint.fail('failed')
      await clock.advance(0)
      expect(failures).toEqual(['told'])
    },
  )

  it('A8 keeps Configurations of one name in two namespaces apart', async () => {
    configurations.put(configuration('default', 'a'))
    configurations.put(configuration('other', 'b'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    expect([found(), found(keyOf(configuration('other')))]).toEqual([[], ['1']])
  })

  it('does not ask again with details that the handler refused, until an edit', async () => {
    configurations.put(configuration('default', 'wrong'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.fail('invalid-details', 'descriptions is missing')
    await clock.advance(1_000_000)
    expect(endpoint.requests).toHaveLength(1)
    expect(discovery.status(key)?.endpoints[0]?.state).toEqual({
      phase: 'refused',
      message: 'descriptions is missing',
    })
    configurations.put(configuration('default', 'right'))
    await clock.advance(0)
    expect(endpoint.requests.map(({ details }) => details)).toEqual(['wrong', 'right'])
  })

  it('backs off from a handler that breaks after each list, until a stream lasts', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    const listAndBreak = async () => {
      endpoint.give('1')
      await clock.advance(0)
      endpoint.fail('failed')
      await clock.advance(0)
    }
    const waits: number[] = []
    for (let round = 0; round < 9; round++) {
      const asked = endpoint.requests.length
      await listAndBreak()
      const since = clock.monotonicMs()
      while (endpoint.requests.length === asked) await clock.advance(100)
      waits.push(clock.monotonicMs() - since)
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])

    endpoint.give('1')
    await clock.advance(30_000)
    const asked = endpoint.requests.length
    endpoint.fail('failed')
    await clock.advance(500)
    expect(endpoint.requests).toHaveLength(asked + 1)
  })

  it('R104 has the devices of the checkpoint, and removes those that are not listed', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1', '2')
    await clock.advance(0)
    const snapshot = JSON.parse(JSON.stringify(discovery.snapshot()))
    await discovery.close()

    registry = new HandlerRegistry()
    discovery = make()
    await discovery.restore(snapshot)
    discovery.start()
    expect(found()).toEqual(['1', '2'])
    expect(discovery.deviceSet(key).complete).toBe(false)
    const again = new ToldEndpoint('told@a')
    registry.register(again)
    await clock.advance(0)
    again.give('2')
    await clock.advance(0)
    expect(found()).toEqual(['2'])
  })

  it('forgets the devices of a Configuration that was deleted while no agent ran', async () => {
    const snapshot = {
      [key]: { uid: 'gone', lists: [{ endpoint: 'told@a', shared: true, devices: [{ id: '1' }] }] },
    }
    await discovery.restore(snapshot)
    expect(discovery.snapshot()).toMatchObject(snapshot)
    discovery.start()
    expect(discovery.snapshot()).toEqual({})
  })

  it('A5 describes a device as its first endpoint does, also after a restart', async () => {
    const urls = () =>
      [...discovery.deviceSet(key).devices.values()].map(({ device }) => device.properties?.URL)
    configurations.put(configuration('default'))
    const first = new ToldEndpoint('told@z')
    registry.register(first)
    discovery.start()
    await clock.advance(0)
    first.list({ id: '1', properties: { URL: 'first' } })
    await clock.advance(0)
    const second = new ToldEndpoint('told@a')
    registry.register(second)
    await clock.advance(0)
    const hostile = { id: '1', properties: { URL: 'second' } }
    second.list(hostile)
    await clock.advance(0)
    expect(urls()).toEqual(['first'])
    // The first endpoint does not see the device for a moment.
    first.list()
    await clock.advance(0)
    first.list({ id: '1', properties: { URL: 'first' } })
    await clock.advance(0)
    expect(urls()).toEqual(['first'])
    // The first endpoint is replaced by its next process.
    first.fail('failed')
    await clock.advance(0)
    registry.drop(first)
    await clock.advance(60_000)
    expect(urls()).toEqual(['first'])
    expect(unhealthy()).toEqual([])
    registry.register(first)
    await clock.advance(0)
    first.list({ id: '1', properties: { URL: 'moved' } })
    await clock.advance(0)
    expect(urls()).toEqual(['moved'])

    const snapshot = JSON.parse(JSON.stringify(discovery.snapshot()))
    await discovery.close()
    registry = new HandlerRegistry()
    discovery = make()
    await discovery.restore(snapshot)
    discovery.start()
    const again = new ToldEndpoint('told@a')
    registry.register(again)
    await clock.advance(0)
    again.list(hostile)
    await clock.advance(0)
    expect(urls()).toEqual(['moved'])
  })

  it('checks the devices of each list and of the checkpoint by the rules', async () => {
    const state = () =>
      [...discovery.deviceSet(key).devices.values()].map(({ device, healthy, refusal }) => ({
        properties: device.properties,
        healthy,
        refused: refusal !== undefined,
      }))
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.list({ id: '1', properties: { URL: 'u', LD_PRELOAD: '/x.so' } })
    await clock.advance(0)
    const expected = [{ properties: { URL: 'u' }, healthy: false, refused: true }]
    expect(state()).toEqual(expected)
    const snapshot = JSON.parse(JSON.stringify(discovery.snapshot()))
    expect(JSON.stringify(snapshot)).toContain('LD_PRELOAD')
    await discovery.close()
    discovery = make()
    await discovery.restore(snapshot)
    discovery.start()
    expect(state()).toEqual(expected)
  })

  it('starts without devices for a Configuration that was deleted and created again', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    configurations.put(configuration('default', '', 'another'))
    expect(found()).toEqual([])
  })

  it('leaves no stream, timer or session behind', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
    await discovery.close()
    expect(endpoint.open).toBe(0)
    expect(clock.sleeping).toEqual([])
  })
})

describe('a device node that the kernel does not name', () => {
  const withNode = (id: string): Device => {
    const path = `/dev/${id}`
    return { id, deviceSpecs: [{ hostPath: path, containerPath: path, permissions: 'rw' }] }
  }
  let endpoint: ToldEndpoint

  beforeEach(async () => {
    configurations.put(configuration('default'))
    endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
  })

  it.each([
    ['because it does not answer', false, /before the kernel has named/],
    ['because the node comes later', true, /no device node of this name/],
  ])('%s is offered as soon as it has a name, without a new list', async (_why, complete, text) => {
    kernel.complete = complete
    const another = new ToldEndpoint('told@b')
    registry.register(another)
    await clock.advance(0)
    endpoint.list(withNode('video0'), withNode('video1'))
    another.give('other')
    await clock.advance(0)
    expect(unhealthy()).toEqual(['video0', 'video1'])
    expect(refusals()).toEqual([expect.stringMatching(text), expect.stringMatching(text)])
    const changed = vi.fn()
    discovery.onChange(changed, new AbortController().signal)
    await clock.advance(10_000)
    expect(changed).not.toHaveBeenCalled()
    kernel.present.add('/dev/video0').add('/dev/video1')
    await clock.advance(10_000)
    expect(unhealthy()).toEqual([])
    expect(found()).toEqual(['video0', 'video1', 'other'])
    expect(changed).toHaveBeenCalledWith(key)
    const device = discovery.deviceSet(key).devices.get('video0')?.device
    expect(device).toEqual(withNode('video0'))
    // Nothing is left to ask for.
    expect(clock.sleeping).toEqual([])
  })

  it('is asked for with growing pauses, and with short ones after another list', async () => {
    endpoint.list(withNode('video0'))
    await clock.advance(0)
    const after = async (ms: number) => {
      kernel.asked = 0
      await clock.advance(ms)
      return kernel.asked
    }
    expect(await after(1000)).toBe(1)
    expect(await after(1999)).toBe(0)
    expect(await after(1)).toBe(1)
    expect(await after(3600_000)).toBeLessThan(20)
    expect(await after(3600_000)).toBe(12)
    endpoint.list(withNode('video0'), withNode('video1'))
    expect(await after(0)).toBe(1)
    expect(await after(1000)).toBe(1)
    // Another reason that does not pass by itself.
    endpoint.list({ ...withNode('video0'), properties: { PATH: '/x' } })
    expect(await after(0)).toBe(1)
    expect(await after(3600_000)).toBe(0)
    expect(clock.sleeping).toEqual([])
  })

  it('is offered after a restart of the agent, although its handler is away', async () => {
    kernel.present.add('/dev/video0')
    endpoint.list(withNode('video0'))
    await clock.advance(0)
    const snapshot = JSON.parse(JSON.stringify(discovery.snapshot()))
    await discovery.close()
    kernel = { present: new Set(), complete: false, asked: 0 }
    registry = new HandlerRegistry()
    discovery = make()
    await discovery.restore(snapshot)
    discovery.start()
    expect(unhealthy()).toEqual(['video0'])
    kernel.present.add('/dev/video0')
    await clock.advance(1000)
    expect(unhealthy()).toEqual([])
  })

  it('of a list from before does not replace a newer list', async () => {
    endpoint.list(withNode('video0'))
    await clock.advance(999)
    let answer: () => void = () => expect.fail()
    kernel.answer = new Promise((resolve) => {
      answer = resolve
    })
    await clock.advance(1)
    delete kernel.answer
    endpoint.give('other')
    await clock.advance(0)
    kernel.present.add('/dev/video0')
    answer()
    await clock.advance(300_000)
    expect(found()).toEqual(['other'])
  })

  it('leaves no timer behind', async () => {
    endpoint.list(withNode('video0'))
    await clock.advance(10_000)
    await discovery.close()
    expect(clock.sleeping).toEqual([])
  })
})

it('counts devices that have not changed as a tenth of the others', async () => {
  const devices = Array.from({ length: 30_000 }, (_, index) => ({ id: `${index}` }))
  discovery = make({ perConfiguration: 40_000, perNode: 40_000, slots: 40_000 })
  configurations.put(configuration('default'))
  const endpoint = new ToldEndpoint('told@a')
  registry.register(endpoint)
  discovery.start()
  await clock.advance(0)
  // A burst of 50: the first list counts 31, the others 4.
  for (const count of [1, 2, 3, 4, 5, 6]) {
    endpoint.list(...devices, { id: `other-${count}` })
    await eventually(() => expect(found()).toContain(`other-${count}`))
  }
  endpoint.give('rest')
  await clock.advance(0)
  expect(listsRead).toBe(6)
  await clock.advance(200)
  await eventually(() => expect(found()).toEqual(['rest']))
})

describe('the bounds of devices', () => {
  it('ask a Configuration for its demand only after its own changes', async () => {
    const units = vi.spyOn(ConfigurationDiscovery.prototype, 'units', 'get')
    for (let index = 0; index < 200; index++) configurations.put(configuration(`n${index}`))
    await clock.advance(0)
    expect(units.mock.calls.length).toBeGreaterThan(199)
    expect(units.mock.calls.length).toBeLessThan(200 * 10)
    units.mockRestore()
  })

  const other = keyOf(configuration('other'))
  let endpoint: ToldEndpoint

  beforeEach(async () => {
    configurations.put(configuration('default'))
    endpoint = new ToldEndpoint('told@a')
    registry.register(endpoint)
    discovery.start()
    await clock.advance(0)
  })

  const ids = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${prefix}${index}`)
  const leftOut = (which = key) => discovery.deviceSet(which).leftOut

  it('keep the first ids of a Configuration in any order, and count the others', async () => {
    endpoint.give('e', 'b', 'd', 'f', 'a', 'c')
    await clock.advance(0)
    expect(found()).toEqual(['a', 'b', 'c', 'd'])
    expect(leftOut()).toMatchObject({ devices: 2, bound: 'perConfiguration' })
    endpoint.give('d', 'c')
    await clock.advance(0)
    expect(found()).toEqual(['d', 'c'])
    expect(leftOut()).toBeUndefined()
  })

  it('never displace a device that is served by a flood of new ids', async () => {
    endpoint.give('y', 'z')
    await clock.advance(0)
    servedIds = new Set(['y', 'z'])
    endpoint.give(...ids('a', 100), 'y', 'z')
    await clock.advance(0)
    expect(found()).toEqual(['y', 'z', 'a0', 'a1'])
    expect(leftOut()?.devices).toBe(98)
  })

  it('count a large device as several, and displace no served device by it', async () => {
    const sized = (id: string, kib: number) => ({
      id,
      properties: { TEXT: 'x'.repeat(kib * 1024) },
    })
    endpoint.list(sized('a', 1), sized('b', 7), sized('c', 7))
    await clock.advance(0)
    expect(found()).toEqual(['a', 'b'])
    expect(leftOut()).toMatchObject({ devices: 1, bound: 'perConfiguration' })
    endpoint.list(sized('a', 1), sized('x', 1), sized('y', 1), sized('z', 1))
    await clock.advance(0)
    servedIds = new Set(found())
    expect(servedIds.size).toBe(4)
    endpoint.list(sized('a', 60), sized('x', 1), sized('y', 1), sized('z', 1))
    await clock.advance(0)
    expect(found()).toEqual(['x', 'y', 'z'])
  })

  it('count what the list of an endpoint has left out already', async () => {
    const devices = ids('a', 4).map((id): Device => ({ id }))
    endpoint.giveList({ devices, leftOut: 96 })
    await clock.advance(0)
    expect(leftOut()).toMatchObject({ devices: 96, bound: 'perConfiguration' })
  })

  it('hold for the checkpoint: it has each served device once, of its endpoint', async () => {
    const second = new ToldEndpoint('told@b')
    registry.register(second)
    await clock.advance(0)
    endpoint.give(...ids('c', 4))
    await clock.advance(0)
    servedIds = new Set(found())
    second.give(...ids('a', 100), ...ids('c', 4))
    endpoint.give(...ids('b', 100), ...ids('c', 3))
    await clock.advance(0)
    const lists = discovery.snapshot()[key]?.lists ?? expect.fail('not in the checkpoint')
    expect(lists.map((list) => [list.endpoint, list.devices?.map(({ id }) => id)])).toEqual([
      ['told@a', ids('c', 3)],
      ['told@b', ['c3']],
    ])
  })

  it('are shared by all endpoints of a Configuration', async () => {
    const second = new ToldEndpoint('told@b')
    registry.register(second)
    await clock.advance(0)
    endpoint.give('a', 'c', 'e', 'g')
    second.give('b', 'd', 'f', 'h')
    await clock.advance(0)
    expect(found()).toEqual(['a', 'b', 'c', 'd'])
    expect(leftOut()?.devices).toBe(4)
  })

  describe('of the whole node', () => {
    let second: ToldEndpoint

    /** Both Configurations list devices; each has an endpoint of its own. */
    beforeEach(async () => {
      configurations.put(configurationWith({ handler: 'second' }, { namespace: 'other', uid: 'o' }))
      second = new ToldEndpoint('second@a', 'second')
      registry.register(second)
      await clock.advance(0)
    })

    it('leave each Configuration an equal share of new devices, and all to few', async () => {
      endpoint.give(...ids('a', 4))
      second.give(...ids('b', 4))
      await clock.advance(0)
      expect([found(), found(other)]).toEqual([ids('a', 3), ids('b', 3)])
      expect(leftOut()).toMatchObject({ devices: 1, bound: 'perNode' })
      second.give('b0')
      await clock.advance(0)
      expect([found(), found(other)]).toEqual([ids('a', 4), ['b0']])
      expect([leftOut(), leftOut(other)]).toEqual([undefined, undefined])
    })

    it('keep the served devices, and report each Configuration whose share changes', async () => {
      endpoint.give(...ids('a', 4))
      await clock.advance(0)
      servedIds = new Set(ids('a', 4))
      const told: string[] = []
      discovery.onChange((which) => told.push(which), new AbortController().signal)
      second.give(...ids('b', 4))
      await clock.advance(0)
      expect([found(), found(other)]).toEqual([ids('a', 4), ids('b', 2)])
      servedIds = new Set([...ids('a', 4), ...ids('b', 2)])
      told.length = 0
      configurations.remove(key)
      expect(found(other)).toEqual(ids('b', 4))
      expect(told).toContain(other)
    })
  })

  it('hold for the memory of all lists: what is not served is forgotten and counted', async () => {
    endpoint.give('x', 'y')
    await clock.advance(0)
    servedIds = new Set(['x', 'y'])
    configurations.put(configurationWith({ handler: 'hostile' }, { namespace: 'other', uid: 'o' }))
    const flood = Array.from({ length: 8 }, (_, index) => {
      return new ToldEndpoint(`hostile@${index}`, 'hostile')
    })
    for (const each of flood) registry.register(each)
    await clock.advance(0)
    for (const [index, each] of flood.entries()) each.give(...ids(`${index}-`, 4))
    await clock.advance(0)
    expect([found(), leftOut()]).toEqual([['x', 'y'], undefined])
    expect(found(other)).toEqual(ids('0-', 4))
    expect(leftOut(other)?.devices).toBe(28)

    // Twice the devices that could be served are remembered.
    flood[0]?.give()
    await clock.advance(0)
    expect(found(other)).toEqual(ids('1-', 4))
    flood[1]?.give()
    await clock.advance(0)
    expect(found(other)).toEqual([])
    expect(leftOut(other)?.devices).toBe(24)
    expect(flood.map(({ requests }) => requests.length)).toEqual(flood.map(() => 1))

    await clock.advance(60_000)
    expect(flood.map(({ requests }) => requests.length)).toEqual([1, 1, 2, 2, 2, 2, 2, 2])
    expect(endpoint.requests).toHaveLength(1)
    flood[2]?.give(...ids('2-', 4))
    await clock.advance(0)
    expect(found(other)).toEqual(ids('2-', 4))
    for (const each of flood) each.give()
    await clock.advance(120_000)
    expect(flood.map(({ requests }) => requests.length)).toEqual([1, 1, 2, 2, 2, 2, 2, 2])
    expect(leftOut(other)).toBeUndefined()
  })

  it('leave room for a handler that moves: its served devices stay healthy', async () => {
    endpoint.give('x', 'y', 'z')
    await clock.advance(0)
    servedIds = new Set(['x', 'y', 'z'])
    for (const namespace of ['p', 'q', 'r'])
      configurations.put(configurationWith({ handler: 'flood' }, { namespace, uid: namespace }))
    for (const index of [1, 2, 3, 4]) {
      const flood = new ManyLists(`flood@${index}`, ids(`${index}-`, 4))
      registry.register(flood)
    }
    await clock.advance(0)
    const moved = new ToldEndpoint('told@moved')
    registry.register(moved)
    await clock.advance(0)
    moved.give('x', 'y', 'z')
    await clock.advance(0)
    endpoint.away = true
    endpoint.fail('failed')
    await clock.advance(30_000)
    expect([found(), unhealthy()]).toEqual([['x', 'y', 'z'], []])
    await clock.advance(270_000)
    expect([found(), unhealthy()]).toEqual([['x', 'y', 'z'], []])
  })

  it('count slots too: the capacity decides how many devices fit', async () => {
    const edited = (capacity: number) => {
      const before = configuration('default')
      configurations.put({ ...before, spec: { ...before.spec, capacity } })
    }
    edited(20)
    endpoint.give(...ids('a', 4))
    await clock.advance(0)
    expect(found()).toEqual(ids('a', 3))
    expect(leftOut()).toMatchObject({ devices: 1, bound: 'slots' })
    edited(15)
    await clock.advance(0)
    expect(found()).toEqual(ids('a', 4))
    edited(61)
    await clock.advance(0)
    expect(found()).toEqual([])
    expect(leftOut()).toMatchObject({ devices: 4, bound: 'slots' })
    expect([...(leftOut()?.listed.keys() ?? [])]).toEqual(ids('a', 4))
  })

  it('give the same object until the devices change', async () => {
    endpoint.give(...ids('a', 6))
    await clock.advance(0)
    const before = discovery.deviceSet(key)
    await clock.advance(100_000)
    expect(discovery.deviceSet(key)).toBe(before)
    endpoint.give(...ids('a', 7))
    await clock.advance(0)
    expect(discovery.deviceSet(key)).not.toBe(before)
  })

  it('hold for the lists that are read: a burst, and then one list in 200 ms', async () => {
    const seen: string[] = []
    discovery.onChange(() => seen.push(found().join()), new AbortController().signal)
    for (let index = 0; index < 200; index++) {
      endpoint.give(`id-${index}`)
      await clock.advance(1)
    }
    const read = new Set(seen).size
    expect(read).toBeGreaterThanOrEqual(50)
    expect(read).toBeLessThanOrEqual(52)
    await clock.advance(400)
    // The newest list counts.
    expect(found()).toEqual(['id-199'])
  })

  it('let a list of many devices count as several lists', async () => {
    const seen: string[] = []
    discovery.onChange(() => seen.push(found().join()), new AbortController().signal)
    for (let index = 0; index < 20; index++) {
      endpoint.giveList({ devices: [{ id: `id-${index}` }], leftOut: 100_000 })
      await clock.advance(1)
    }
    expect(new Set(seen)).toEqual(new Set(['id-0']))
  })

  it('let a list of many properties and mounts count as several lists', async () => {
    const mount = { hostPath: '/a', containerPath: '/a', readOnly: true }
    const device = { id: 'a', mounts: Array(55_000).fill(mount) }
    endpoint.list(device)
    await clock.advance(0)
    await eventually(() => expect(listsRead).toBe(1))
    endpoint.give('b')
    // Six more than the burst.
    await clock.advance(1000)
    expect(listsRead).toBe(1)
    await clock.advance(1000)
    await eventually(() => expect(listsRead).toBe(2))
  })
})
