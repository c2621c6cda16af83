import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube/objects'
import { Latest, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { type Device, DiscoveryProperties } from '@akrijs/sdk/handler'
import type { DeviceNodes } from '../access/handler-access.js'
import { HandlerAccess } from '../access/handler-access.js'
import type { Cluster } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { RANK } from '../discovery/device-set.js'
import { Discovery } from '../discovery/discovery.js'
import {
  type BoundedList,
  type DiscoverRequest,
  DiscoveryFailedError,
  type HandlerEndpoint,
} from '../handlers/handler-endpoint.js'
import { HandlerRegistry } from '../handlers/handler-registry.js'
import { noopObserver } from '../report/observer.js'
import { checked, configurationWith } from './objects.js'

// For tests of the discovery: Configurations in namespaces, and endpoints whose lists a test gives.

export const configuration = (namespace: string, details = '', uid = `${namespace}-1`) =>
  configurationWith({ details }, { namespace, uid })

export const key = keyOf(configuration('default'))

/** An endpoint of a handler that lists and fails when a test says so. */
export class ManualEndpoint implements HandlerEndpoint {
  readonly uid: string
  readonly name: string
  readonly shared = true
  readonly requests: DiscoverRequest[] = []
  /** The number of open streams. */
  open = 0
  /** Whether the endpoint cannot be reached. */
  away = false
  /** Whether a process is there, and does not answer. */
  hangs = false
  #lists = new Latest<BoundedList>()

  constructor(uid: string, name = 'told') {
    this.uid = uid
    this.name = name
  }

  /** Lists devices, each by its id or whole. */
  list(...devices: (string | Device)[]): void {
    const all = devices.map((each) => (typeof each === 'string' ? { id: each } : each))
    this.giveList({ devices: all, leftOut: 0 })
  }

  giveList(list: Omit<BoundedList, 'devices'> & { readonly devices: readonly Device[] }): void {
    this.#lists.push({ ...list, devices: list.devices.map(checked) })
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

  async hasLeft() {
    return this.away && !this.hangs && this.open === 0
  }
}

/** The discovery of a node, with a cluster and a kernel that a test controls. */
export class DiscoveryHarness {
  readonly clock = new ManualClock()
  readonly configurations = new ObjectStore<Configuration>()
  registry = new HandlerRegistry()
  /** The handlers that have failed. */
  readonly failures: string[] = []
  /** The number of lists that were read. */
  listsRead = 0
  /** The devices that this node serves. */
  servedIds = new Set<string>()
  resolveProperties: Cluster['resolveProperties'] = async () => new DiscoveryProperties()
  /** The device nodes that the kernel names, and how often it was asked. */
  kernel: { present: Set<string>; complete: boolean; asked: number; answer?: Promise<void> } = {
    present: new Set(),
    complete: true,
    asked: 0,
  }
  /** Reports a change of the Secrets of a Configuration. */
  propertiesChanged: (configuration: typeof key) => void = () => {}
  discovery = this.make()

  /** A discovery that has not started. */
  make(bounds = { perConfiguration: 4, perNode: 10, slots: 120 }): Discovery {
    const { clock, configurations, registry } = this
    const deviceNodes: DeviceNodes = {
      find: async () => {
        this.kernel.asked++
        await this.kernel.answer
        return { ...this.kernel, present: new Set(this.kernel.present) }
      },
    }
    const rules = { mounts: [], devices: ['told=/dev/**'], environment: [] }
    const cluster = {
      configurations,
      resolveProperties: (one: Configuration) => this.resolveProperties(one),
      onPropertiesChanged: (listener: (which: typeof key) => void) => {
        this.propertiesChanged = listener
      },
    }
    return new Discovery({
      cluster,
      configurations,
      registry,
      access: new HandlerAccess({ paths: deviceNodes, rules }),
      clock,
      log: silentLogger,
      observer: {
        ...noopObserver,
        handlerFailed: (handler) => this.failures.push(handler),
        handlerAnswered: () => {
          this.listsRead++
        },
      },
      bounds,
      rankDevices: () => (id) => (this.servedIds.has(id) ? RANK.served : RANK.new),
      unhealthyAfterMs: 30_000,
      removeAfterMs: 300_000,
      random: () => 0,
    })
  }

  /** Starts with the Configuration of {@link key} and one endpoint of its handler. */
  async begin(details = ''): Promise<ManualEndpoint> {
    const endpoint = new ManualEndpoint('told@a')
    this.registry.register(endpoint)
    this.discovery.start()
    await this.edit(details)
    return endpoint
  }

  async edit(details: string): Promise<void> {
    this.configurations.put(configuration('default', details))
    await this.clock.advance(0)
  }

  /** Registers an endpoint, also again. */
  async register(endpoint: ManualEndpoint | string): Promise<ManualEndpoint> {
    const registered = typeof endpoint === 'string' ? new ManualEndpoint(endpoint) : endpoint
    this.registry.register(registered)
    await this.clock.advance(0)
    return registered
  }

  async list(endpoint: ManualEndpoint, ...devices: (string | Device)[]): Promise<void> {
    endpoint.list(...devices)
    await this.clock.advance(0)
  }

  async fail(endpoint: ManualEndpoint, failure: DiscoveryFailedError['failure'] = 'failed') {
    endpoint.fail(failure)
    await this.clock.advance(0)
  }

  /** Another agent starts with the checkpoint; no handler has registered. */
  async restart(): Promise<void> {
    const snapshot = this.discovery.snapshot()
    await this.discovery.close()
    this.registry = new HandlerRegistry()
    this.discovery = this.make()
    await this.discovery.restore(snapshot)
    this.discovery.start()
  }

  /** The state of the session of the only endpoint. */
  get state() {
    return this.discovery.status(key)?.endpoints[0]?.state
  }

  found(configuration = key): string[] {
    return [...this.discovery.deviceSet(configuration).devices.keys()]
  }

  unhealthy(): string[] {
    return [...this.discovery.deviceSet(key).devices.values()]
      .filter(({ healthy }) => !healthy)
      .map(({ device }) => device.id)
  }
}
