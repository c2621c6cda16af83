import type { Configuration, InstanceName } from '@akrijs/api'
import { hasLongDigest, instanceNameParts } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { isTurnOver, nextTurn, printable } from '@akrijs/runtime'
import type { DeviceSet, DiscoveredDevice } from '../discovery/device-set.js'
import { DeviceBuckets } from './device-buckets.js'
import type { DigestCollision, NameMemory } from './device-names.js'
import { deviceIdOf, ExistingInstances, isOwnedBy } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import { instanceName } from './instance-name.js'
import {
  type BucketPlan,
  type LeftInstance,
  type PlannedInstance,
  type PlanState,
  planBucket,
  planLeave,
  type TakenName,
} from './instance-plan.js'

interface InstancePlannerOptions {
  readonly node: NodeName
  readonly instances: InstanceIndex
  readonly memory: NameMemory
}

type PlannerInput = Pick<PlanState, 'configuration' | 'takenNames'> & {
  readonly devices: DeviceSet
}

/** An Instance that is being deleted while its device is there. */
export interface HeldInstance {
  readonly name: InstanceName
  readonly finalizers: readonly string[]
}

/** What the last plan was made for. */
interface LastInput {
  readonly configuration: Configuration
  readonly taken: string
  readonly devices: DeviceSet | undefined
  readonly complete: boolean
  readonly longInUse: string
}

/**
 * The plan of the Instances of one Configuration, kept up to date: a change of a device or of an
 * Instance plans its bucket alone. `planInstances` says what the plan is.
 */
export class InstancePlanner {
  readonly #options: InstancePlannerOptions
  readonly #devices: DeviceBuckets
  #existing = new ExistingInstances()
  #last: LastInput | undefined
  /** Names of Instances that have changed since the last plan. */
  readonly #changed = new Set<InstanceName>()
  /** The buckets to plan. */
  readonly #dirty = new Set<string>()
  /** The present Instances that this node may have to leave, or to keep now. */
  readonly #unchecked = new Set<InstanceName>()
  readonly #served = new Map<InstanceName, PlannedInstance>()
  readonly #left = new Map<InstanceName, LeftInstance>()
  /** The plans of the buckets with devices. */
  readonly #plans = new Map<string, BucketPlan>()
  /** The buckets that wish for a long name. */
  readonly #longNames = new Map<InstanceName, string>()
  readonly #collisions = new Map<string, readonly DigestCollision[]>()
  readonly #taken = new Map<string, readonly TakenName[]>()
  /** Names whose plan may have changed since the last complete plan. */
  readonly #replanned = new Set<InstanceName>()
  /** The served names with an Instance. */
  readonly #present = new Set<InstanceName>()
  /** The present Instances that are being deleted. */
  readonly #held = new Map<InstanceName, HeldInstance>()
  #bucketsPlanned = 0

  constructor(options: InstancePlannerOptions) {
    this.#options = options
    this.#devices = new DeviceBuckets(options.node)
  }

  /** How many buckets were planned so far. */
  get bucketsPlanned(): number {
    return this.#bucketsPlanned
  }

  /** The Instances to serve. */
  get served(): ReadonlyMap<InstanceName, PlannedInstance> {
    return this.#served
  }

  /** The Instances to leave. */
  get left(): ReadonlyMap<InstanceName, LeftInstance> {
    return this.#left
  }

  /**
   * How many devices have an Instance at present. A shared Instance counts before it names this
   * node: then nodes that wait to join all at once do not report twice.
   */
  get present(): number {
    return this.#present.size
  }

  /** The Instances whose deletion keeps a device from being offered. */
  get held(): HeldInstance[] {
    return [...this.#held.values()]
  }

  get collisions(): DigestCollision[] {
    return [...this.#collisions.values()].flat()
  }

  get taken(): TakenName[] {
    return [...this.#taken.values()].flat()
  }

  /**
   * Whether claims of the Instance do not matter to the plan: it is served, and no other Instance
   * has its device.
   */
  ignoresUse(name: InstanceName): boolean {
    const planned = this.#served.get(name)
    return (
      planned !== undefined &&
      !hasLongDigest(name) &&
      this.#existing.longNames(printable(planned.device.id)).size === 0
    )
  }

  /** To be called after each change of an Instance of the Configuration. */
  instanceChanged(name: InstanceName): void {
    this.#changed.add(name)
    this.#updatePresent(name)
  }

  /**
   * Plans what has changed since the last call; also what a call before failed to plan.
   * @returns the names of the Instances whose plan may have changed
   */
  async follow(input: PlannerInput): Promise<ReadonlySet<InstanceName>> {
    const { configuration, devices } = input
    const { node, memory } = this.#options
    const { complete } = devices
    const last = this.#last
    const taken = [...input.takenNames].map(([name, { metadata }]) => [name, metadata])
    const now: LastInput = {
      configuration,
      taken: JSON.stringify(taken),
      devices,
      complete,
      longInUse: [...memory.longInUse].sort().join(),
    }
    const isSame =
      last !== undefined &&
      isSameSpec(last.configuration, configuration) &&
      last.taken === now.taken &&
      last.longInUse === now.longInUse
    if (last?.configuration.metadata.uid !== configuration.metadata.uid) this.#reload(configuration)
    if (!isSame) for (const digest of this.#devices.digests()) this.#dirty.add(digest)
    if (!isSame || last.complete !== complete)
      for (const name of this.#existing.names()) this.#unchecked.add(name)
    // Until all devices are compared, the next call compares them again.
    this.#last = { ...now, devices: undefined }
    await this.#applyInstances(configuration)
    if (last?.devices !== devices) await this.#applyDevices(devices)
    this.#last = now
    const state = { ...input, node, complete, memory, devices: this.#devices }
    await this.#plan({ ...state, existing: this.#existing })
    const replanned = new Set(this.#replanned)
    this.#replanned.clear()
    return replanned
  }

  #reload(configuration: Configuration): void {
    const { instances } = this.#options
    for (const name of this.#existing.names()) this.#changed.add(name)
    for (const { metadata } of instances.of(keyOfConfiguration(configuration)))
      this.#changed.add(metadata.name)
  }

  async #applyInstances(configuration: Configuration): Promise<void> {
    const { metadata } = configuration
    for (const name of this.#changed) {
      const found = this.#options.instances.get(objectKey(metadata.namespace, name))
      const instance = found !== undefined && isOwnedBy(found, configuration) ? found : undefined
      const ids = [this.#existing.get(name), instance].map(deviceIdOf)
      this.#existing.set(name, instance)
      this.#unchecked.add(name)
      const parts = instanceNameParts(name)
      if (parts?.configuration === metadata.name) {
        this.#dirty.add(parts.digest)
        for (const id of ids)
          for (const found of id === undefined ? [] : this.#devices.withText(id))
            this.#dirty.add(this.#devices.digestOf(found))
      }
      const wishing = this.#longNames.get(name)
      if (wishing !== undefined) this.#dirty.add(wishing)
      this.#changed.delete(name)
      // The Instance may change again meanwhile.
      if (isTurnOver()) await nextTurn()
    }
  }

  async #applyDevices({ devices }: DeviceSet): Promise<void> {
    const change = async (id: string, found: DiscoveredDevice | undefined) => {
      for (const digest of this.#devices.set(id, found)) this.#dirty.add(digest)
      for (const name of this.#existing.longNames(printable(id))) this.#unchecked.add(name)
      if (isTurnOver()) await nextTurn()
    }
    for (const [id, found] of devices)
      if (!isSameDevice(this.#devices.get(id), found)) await change(id, found)
    if (this.#devices.size === devices.size) return
    for (const id of [...this.#devices.ids()]) if (!devices.has(id)) await change(id, undefined)
  }

  async #plan(state: PlanState): Promise<void> {
    for (const digest of this.#inOrder(this.#dirty)) {
      this.#planBucket(digest, state)
      this.#dirty.delete(digest)
      if (isTurnOver()) await nextTurn()
    }
    for (const name of this.#unchecked) {
      const instance = this.#existing.get(name)
      const left = instance && planLeave(instance, this.#served, state)
      if (left !== undefined) this.#left.set(name, left)
      else this.#left.delete(name)
      this.#replanned.add(name)
      this.#unchecked.delete(name)
      if (isTurnOver()) await nextTurn()
    }
  }

  #planBucket(digest: string, state: PlanState): void {
    const { metadata } = state.configuration
    const found = this.#devices.of(digest)
    const before = this.#plans.get(digest)
    const plan = planBucket(digest, state)
    this.#bucketsPlanned++
    const names = new Set([instanceName(metadata.name, digest)])
    for (const { name } of before?.served ?? []) {
      this.#served.delete(name)
      names.add(name)
    }
    for (const planned of plan.served) {
      this.#served.set(planned.name, planned)
      names.add(planned.name)
    }
    for (const name of before?.longNames ?? []) this.#longNames.delete(name)
    for (const name of plan.longNames) this.#longNames.set(name, digest)
    if (found.length > 0) this.#plans.set(digest, plan)
    else this.#plans.delete(digest)
    setOrDelete(this.#collisions, digest, plan.collisions)
    setOrDelete(this.#taken, digest, plan.taken)
    // A device with another name leaves its Instances with the names before.
    for (const { device } of found)
      for (const name of this.#existing.longNames(printable(device.id))) names.add(name)
    for (const name of names) {
      this.#unchecked.add(name)
      this.#updatePresent(name)
    }
  }

  #updatePresent(name: InstanceName): void {
    const planned = this.#served.get(name)
    const configuration = this.#last?.configuration
    const instance = planned && this.#options.instances.get(planned.key)
    const isPresent =
      planned !== undefined &&
      configuration !== undefined &&
      instance !== undefined &&
      isOwnedBy(instance, configuration) &&
      (instance.spec.shared || instance.spec.nodes.includes(this.#options.node))
    if (isPresent) this.#present.add(name)
    else this.#present.delete(name)
    const { deletionTimestamp, finalizers = [] } = instance?.metadata ?? {}
    if (isPresent && deletionTimestamp !== undefined) this.#held.set(name, { name, finalizers })
    else this.#held.delete(name)
  }

  /** By the first device of each bucket: a pass works in the order of ids. */
  #inOrder(digests: ReadonlySet<string>): string[] {
    const firstId = (digest: string) => this.#devices.of(digest)[0]?.device.id ?? ''
    return [...digests]
      .map((digest) => [firstId(digest), digest] as const)
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, digest]) => digest)
  }
}

function keyOfConfiguration({ metadata }: Configuration) {
  return objectKey(metadata.namespace, metadata.name)
}

function isSameSpec({ metadata: a }: Configuration, { metadata: b }: Configuration): boolean {
  return a.uid === b.uid && a.generation === b.generation
}

function isSameDevice(before: DiscoveredDevice | undefined, found: DiscoveredDevice): boolean {
  if (before === found) return true
  return (
    before?.device === found.device &&
    before.shared === found.shared &&
    before.healthy === found.healthy
  )
}

function setOrDelete<T>(map: Map<string, readonly T[]>, key: string, items: readonly T[]): void {
  if (items.length > 0) map.set(key, items)
  else map.delete(key)
}
