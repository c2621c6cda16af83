import {
  type Configuration,
  type ConfigurationName,
  GROUP,
  hasLongDigest,
  type InstanceName,
  instanceNameParts,
} from '@akrijs/api'
import { keyOf, keyParts, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import { isTurnOver, Listeners, nextTurn, TokenBucket } from '@akrijs/runtime'
import type { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import { type DeviceSet, isListed } from '../discovery/device-set.js'
import { DEVICE_BOUNDS, type DeviceBounds, INSTANCE_CHANGES } from '../limits.js'
import { type AllocationLedger, instanceOf } from '../slots/allocation-ledger.js'
import type { LostDevice } from '../slots/lost-devices.js'
import type { SlotBook } from '../slots/slot-book.js'
import { digestOf } from './device-buckets.js'
import type { DigestCollision } from './device-names.js'
import { deviceIdOf, isOwnedBy } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import { instanceName } from './instance-name.js'
import type { PlannedInstance, TakenName } from './instance-plan.js'
import { type HeldInstance, InstancePlanner } from './instance-planner.js'
import { type InstanceWork, inOrder, workOf } from './instance-work.js'
import { InstanceWrites, type InstanceWritesOptions } from './instance-writes.js'
import { inParallel, throwFirst, together } from './parallel-work.js'
import type { NameRefusal, ResourceNames } from './resource-names.js'
import { RunningInstances } from './running-instances.js'
import type { InstancePlugins, Serving } from './served-instance.js'
import { WriteSpread } from './write-spread.js'

/** How long a Configuration waits after it has used up its changes, in milliseconds. */
const CHANGES_PAUSE_MS = 1000
/** The least time between two passes, for each Instance that waits, in milliseconds. */
const PAUSE_MS_PER_WORK = 0.01

interface InstanceReconcilerOptions extends InstanceWritesOptions {
  readonly instances: InstanceIndex
  /** The Configurations that the agent serves. */
  readonly configurations: Pick<AcceptedConfigurations, 'get' | 'takenNames'>
  readonly plugins: InstancePlugins
  readonly book: Pick<SlotBook, 'lose'>
  readonly ledger: InstanceWritesOptions['ledger'] & Pick<AllocationLedger, 'list'>
  readonly signal: AbortSignal
  deviceSet(configuration: ObjectKey): DeviceSet
  /** Called when a device is gone that this node served. @default nothing */
  readonly deviceLost?: (device: LostDevice) => void
  /** @default every name is admitted: there is no Node object */
  readonly names?: Pick<ResourceNames, 'admit'> | undefined
  /** @default DEVICE_BOUNDS */
  readonly bounds?: Pick<DeviceBounds, 'perNode'> | undefined
}

/** What this node does for one Configuration. */
interface ServedState {
  /** Of the Configuration: another one can have its name later, whose devices are not known yet. */
  readonly uid: string
  readonly planner: InstancePlanner
  readonly running: RunningInstances
  /** The Instances whose plugins have to follow the plan. */
  readonly toFollow: Set<InstanceName>
  /**
   * The Instances that wait for a write or for their plugin. What had its turn goes to the end, so
   * that a list which always changes keeps no other work waiting.
   */
  readonly work: Map<InstanceName, InstanceWork>
  readonly changes: TokenBucket
  /** The devices of the last plan. */
  devices: DeviceSet | undefined
  /** Whether the plugin of the Configuration runs. */
  isOffered: boolean
  /** Whether devices that went while the agent was away have been looked for. */
  isLossKnown: boolean
  /** Of the last pass. */
  refusals: NameRefusal[]
  reported: ReadonlySet<string>
}

/**
 * Keeps the Instances and the device plugins of this node in step with discovered devices. A pass
 * costs what has changed since the last pass.
 */
export class InstanceReconciler {
  readonly #options: InstanceReconcilerOptions
  readonly #states = new Map<ObjectKey, ServedState>()
  readonly #writes: InstanceWrites
  readonly #changed = new Listeners<[configuration: ObjectKey]>()
  readonly #spread: WriteSpread

  constructor(options: InstanceReconcilerOptions, { random = Math.random } = {}) {
    this.#options = options
    const { cluster, instances, signal } = options
    this.#spread = new WriteSpread({ ...options, random, knownNodes: () => cluster.knownNodes })
    this.#writes = new InstanceWrites(options)
    instances.onChange((configuration, { instance, isOfUse }) => {
      const name = keyParts(instance).name as InstanceName
      const planner = this.#states.get(configuration)?.planner
      planner?.instanceChanged(name)
      if (!isOfUse || planner?.ignoresUse(name) !== true) this.#changed.tell(configuration)
    }, signal)
  }

  /** Calls back after a change of an Instance that may change the plan of its Configuration. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#changed.add(listener, signal)
  }

  /**
   * Devices of this Configuration that have no Instance, because other devices have their digests.
   */
  collisions(configuration: ObjectKey): readonly DigestCollision[] {
    return this.#states.get(configuration)?.planner.collisions ?? []
  }

  /** Resources of this Configuration that are not offered, because their names are new. */
  refusals(configuration: ObjectKey): readonly NameRefusal[] {
    return this.#states.get(configuration)?.refusals ?? []
  }

  /**
   * Devices of this Configuration that have no Instance, because an older Configuration has its
   * name.
   */
  taken(configuration: ObjectKey): readonly TakenName[] {
    return this.#states.get(configuration)?.planner.taken ?? []
  }

  held(configuration: ObjectKey): readonly HeldInstance[] {
    return this.#states.get(configuration)?.planner.held ?? []
  }

  /** Whether the devices have changed since the last pass. */
  isBehind(configuration: ObjectKey): boolean {
    const devices = this.#options.deviceSet(configuration)
    const before = this.#states.get(configuration)?.devices
    return devices !== before && devices.devices.size + (before?.devices.size ?? 0) > 0
  }

  /** How many devices of this Configuration have an Instance. */
  present(configuration: ObjectKey): number {
    return this.#states.get(configuration)?.planner.present ?? 0
  }

  /** The Instances of this Configuration that this node serves. */
  served(configuration: ObjectKey): Iterable<PlannedInstance> {
    return this.#states.get(configuration)?.planner.served.values() ?? []
  }

  async reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const { configurations, deviceSet, signal } = this.#options
    const configuration = configurations.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined) {
      await this.#stopServing(key)
      return this.#leaveRefused(key)
    }
    const before = this.#states.get(key)
    if (before !== undefined && before.uid !== configuration.metadata.uid)
      await this.#stopServing(key)
    const state = this.#stateOf(key, configuration)
    const waits: number[] = []
    state.refusals = []
    const offer = await this.#offerConfiguration(configuration, state, waits)
    const failures: unknown[] = []
    const offered = offer?.registered.catch((error: unknown) => failures.push(error))
    let devices = deviceSet(key)
    // Without its Configuration no device is listed, and none of them is gone.
    const isFollowed = () => isUnchanged(configurations.get(key), configuration)
    if (isFollowed()) await this.#plan(configuration, state, devices)
    failures.push(...(await this.#followPlan(state)))

    // The list may have changed meanwhile. A list that always changes must not stop all writes.
    if (deviceSet(key) !== devices && isFollowed()) {
      devices = deviceSet(key)
      await this.#plan(configuration, state, devices)
    }
    // Hundreds of writes take seconds. No Instance is created for a Configuration or a device that
    // is gone meanwhile, and an agent that ends writes no more.
    const isCurrent = () => !signal.aborted && deviceSet(key) === devices && isFollowed()
    let mayChange = true
    const workOn = async (item: InstanceWork) => {
      if (!this.#isReady(configuration, state, item, waits)) return
      mayChange = takeChange(state, waits)
      if (!mayChange) return
      state.work.delete(item.name)
      state.work.set(item.name, item)
      const wait = await this.#change(configuration, state, item)
      if (wait > 0) waits.push(wait)
    }
    const work = [...state.work.values()]
    this.#spread.follow(key, work)
    failures.push(...(await inParallel(work, workOn, () => mayChange && isCurrent())))
    // The kubelet needs as long to register a plugin as an API server to create an Instance.
    await offered
    throwFirst(failures)
    if (!isCurrent()) return { requeueAfterMs: 0 }
    for (const { retryInMs } of state.refusals) waits.push(retryInMs)
    if (waits.length === 0) return {}
    // A pass looks at all work that waits.
    const soonest = waits.reduce((least, wait) => Math.min(least, wait))
    return { requeueAfterMs: Math.max(soonest, state.work.size * PAUSE_MS_PER_WORK) }
  }

  async #offerConfiguration(
    configuration: Configuration,
    state: ServedState,
    waits: number[],
  ): Promise<Serving | undefined> {
    const { plugins } = this.#options
    const { name } = configuration.metadata
    const key = keyOf(configuration)
    if (configuration.spec.offer === 'instance') {
      if (state.isOffered) await plugins.withdrawConfiguration(key)
      state.isOffered = false
      return undefined
    }
    // With or without devices: a Pod may request the resource before the first device appears.
    const isAdmitted =
      state.isOffered ||
      (this.#admit(configuration, state, name, false) && takeChange(state, waits))
    if (!isAdmitted) return undefined
    state.isOffered = true
    return plugins.serveConfiguration({ key, name })
  }

  async #plan(configuration: Configuration, state: ServedState, devices: DeviceSet): Promise<void> {
    const { planner } = state
    state.devices = devices
    const takenNames = this.#options.configurations.takenNames(configuration)
    const names = await planner.follow({ configuration, takenNames, devices })
    const items: InstanceWork[] = []
    for (const name of names) {
      state.toFollow.add(name)
      const planned = planner.served.get(name)
      if (planned?.existing?.spec.capacity === planned?.capacity) this.#writes.forget(name)
      const item = this.#workOf(state, name)
      if (item === undefined) state.work.delete(name)
      else items.push(item)
      if (isTurnOver()) await nextTurn()
    }
    for (const item of inOrder(items, this.#options.node)) state.work.set(item.name, item)
    this.#reportCollisions(configuration, state)
    if (!devices.complete || state.isLossKnown) return
    this.#loseMissing(configuration, state, devices)
    state.isLossKnown = true
  }

  /**
   * Devices that went while the agent was away were served by no plugin of this agent. Later, a
   * plugin is withdrawn with its device.
   */
  #loseMissing({ metadata }: Configuration, { planner }: ServedState, devices: DeviceSet): void {
    const { book, deviceLost, instances, ledger, node } = this.#options
    const missing = new Set<InstanceName>()
    for (const { slot, resourceName } of ledger.list()) {
      const name = instanceOf(slot)
      const isOfConfiguration = instanceNameParts(name)?.configuration === metadata.name
      const resources = [`${GROUP}/${metadata.name}`, `${GROUP}/${name}`]
      if (isOfConfiguration && resources.includes(resourceName) && !planner.served.has(name))
        missing.add(name)
    }
    for (const name of listedNames(metadata.name, devices, node, missing)) missing.delete(name)
    for (const name of missing) {
      const instance = instances.get(objectKey(metadata.namespace, name))
      // Another Instance may have the device, while containers hold slots of this Instance.
      const isHere = instance?.spec.nodes.includes(node) === true
      if (isHere && planner.left.get(name)?.device !== 'gone') continue
      deviceLost?.({ id: deviceIdOf(instance), instance: name })
      book.lose(metadata.name, name)
    }
  }

  /**
   * Makes the running plugins follow the devices. This is the first part of a pass, without a write
   * to the cluster: a device that is unhealthy or gone is not offered, however many writes wait.
   * @returns the failures
   */
  async #followPlan(state: ServedState): Promise<unknown[]> {
    const { plugins } = this.#options
    const { planner, running, toFollow } = state
    const names = [...toFollow]
    const withdrawn = names.filter((name) => !planner.served.has(name))
    throwFirst(await inParallel(withdrawn, (name) => this.#withdraw(state, name)))
    return inParallel([...toFollow], async (name) => {
      const planned = planner.served.get(name)
      const before = running.get(name)
      if (planned !== undefined && before !== undefined) {
        // A new resource needs its name admitted first.
        const hasResource = planned.hasResource && before.hasResource
        running.set(name, { id: planned.device.id, hasResource })
        const { registered } = await plugins.serve(planned, { hasResource })
        await registered
      }
      toFollow.delete(name)
    })
  }

  async #withdraw(state: ServedState, name: InstanceName): Promise<void> {
    const running = state.running.get(name)
    if (running !== undefined) {
      const isGone = state.devices !== undefined && !isListed(state.devices, running.id)
      if (isGone) this.#options.deviceLost?.({ id: running.id, instance: name })
      await this.#options.plugins.withdraw(name, { isGone })
      state.running.delete(name)
      this.#updateWork(state, name)
    }
    this.#writes.forget(name)
    state.toFollow.delete(name)
  }

  /** Whether the work waits neither for the name of a resource nor for other nodes. */
  #isReady(
    configuration: Configuration,
    state: ServedState,
    item: InstanceWork,
    waits: number[],
  ): boolean {
    const othersFirst = this.#spread.remaining(keyOf(configuration), item)
    if (othersFirst > 0) waits.push(othersFirst)
    if ('leave' in item || othersFirst > 0) return othersFirst === 0
    const { name, serve } = item
    const running = state.running.get(name)
    if (serve.hasResource && running?.hasResource !== true) {
      const { node } = this.#options
      const isKnown = running === undefined && serve.existing?.spec.nodes.includes(node) === true
      return this.#admit(configuration, state, name, isKnown)
    }
    const wait = running === undefined ? 0 : this.#writes.waitForFirstNode(serve)
    if (wait > 0) waits.push(wait)
    return wait === 0
  }

  /**
   * Makes the plugin and the Instance follow the plan.
   * @returns the time until the next reconcile, in milliseconds; 0 if an event comes first
   */
  async #change(
    configuration: Configuration,
    state: ServedState,
    item: InstanceWork,
  ): Promise<number> {
    if ('leave' in item) return this.#writes.leave(item.leave)
    const { name, serve } = item
    const { hasResource } = serve
    state.running.set(name, { id: serve.device.id, hasResource })
    const followLater = (error: unknown) => {
      state.toFollow.add(name)
      throw error
    }
    // The plugin comes first: the resource of a visible Instance can be requested. The kubelet
    // registers the plugin during the write.
    const serving = await this.#options.plugins.serve(serve, { hasResource }).catch(followLater)
    const written = this.#writes.write(configuration, serve)
    const [wait] = await together(written, serving.registered.catch(followLater))
    this.#updateWork(state, name)
    return wait
  }

  #updateWork(state: ServedState, name: InstanceName): void {
    const item = this.#workOf(state, name)
    if (item === undefined) state.work.delete(name)
    else state.work.set(name, item)
  }

  #workOf({ running, planner }: ServedState, name: InstanceName): InstanceWork | undefined {
    const { served, left } = planner
    return workOf(name, { served, left, running, node: this.#options.node })
  }

  #admit(
    configuration: Configuration,
    state: ServedState,
    name: string,
    isKnown: boolean,
  ): boolean {
    const offered = state.running.resources + (state.isOffered ? 1 : 0)
    const refusal = this.#options.names?.admit({
      name,
      configuration: configuration.metadata.name,
      offered,
      isKnown,
    })
    if (refusal !== undefined) state.refusals.push(refusal)
    return refusal === undefined
  }

  async #stopServing(key: ObjectKey): Promise<void> {
    const { plugins } = this.#options
    await plugins.withdrawConfiguration(key)
    const state = this.#states.get(key)
    if (state === undefined) return
    state.isOffered = false
    throwFirst(await inParallel(state.running.names, (name) => this.#withdraw(state, name)))
    this.#states.delete(key)
    this.#spread.follow(key, [])
  }

  /**
   * Leaves the Instances of a Configuration that is not accepted: it may have been served before
   * the rules of names changed. The garbage collector deletes those of a deleted Configuration.
   */
  async #leaveRefused(key: ObjectKey): Promise<ReconcileResult> {
    const { cluster, instances, node, signal } = this.#options
    const refused = cluster.configurations.get(key)
    if (refused === undefined || refused.metadata.deletionTimestamp !== undefined) return {}
    const joined = [...instances.of(key)].filter(
      (instance) => isOwnedBy(instance, refused) && instance.spec.nodes.includes(node),
    )
    let wait = 0
    throwFirst(
      await inParallel(
        joined,
        async (instance) => {
          wait = Math.max(wait, await this.#writes.leave({ instance, device: 'gone' }))
        },
        () => !signal.aborted && isUnchanged(cluster.configurations.get(key), refused),
      ),
    )
    return wait === 0 ? {} : { requeueAfterMs: wait }
  }

  #stateOf(key: ObjectKey, { metadata }: Configuration): ServedState {
    const before = this.#states.get(key)
    if (before !== undefined) return before
    const { bounds = DEVICE_BOUNDS, clock, instances, ledger, node } = this.#options
    const { perDevice, refillMs } = INSTANCE_CHANGES
    const running = new RunningInstances()
    const memory = {
      deviceOf: (name: InstanceName) => running.get(name)?.id,
      longInUse: ledger.longInstances,
    }
    const state: ServedState = {
      uid: metadata.uid,
      planner: new InstancePlanner({ node, instances, memory }),
      running,
      toFollow: new Set(),
      work: new Map(),
      changes: new TokenBucket({ clock, burst: perDevice * bounds.perNode, refillMs }),
      devices: undefined,
      isOffered: false,
      isLossKnown: false,
      refusals: [],
      reported: new Set(),
    }
    this.#states.set(key, state)
    return state
  }

  #reportCollisions(configuration: Configuration, state: ServedState): void {
    const { collisions } = state.planner
    for (const { digest, kept, refused } of collisions) {
      if (state.reported.has(refused)) continue
      this.#options.cluster.recordEvent({
        regarding: { kind: 'Configuration', key: keyOf(configuration) },
        type: 'Warning',
        reason: 'DigestCollision',
        message:
          `devices ${JSON.stringify(kept)} and ${JSON.stringify(refused)} have the same ` +
          `digest ${digest}; the second gets no Instance`,
      })
    }
    state.reported = new Set(collisions.map(({ refused }) => refused))
  }
}

/**
 * The names of these Instances whose devices a bound leaves out: their Instances may be deleted, so
 * only the digests of the devices tell.
 */
function listedNames(
  configuration: ConfigurationName,
  { devices, leftOut }: DeviceSet,
  node: NodeName,
  names: ReadonlySet<InstanceName>,
): InstanceName[] {
  if (names.size === 0) return []
  const lengths = [...new Set([...names].map((name) => (hasLongDigest(name) ? 'long' : 'short')))]
  return [...(leftOut?.listed ?? [])].flatMap(([id, found]) =>
    devices.has(id)
      ? []
      : lengths.map((length) => instanceName(configuration, digestOf(found, node, length))),
  )
}

/** Takes a change of an Instance or a plugin. @returns whether there was one */
function takeChange({ changes }: ServedState, waits: number[]): boolean {
  const isTaken = changes.take() === 0
  if (!isTaken) waits.push(CHANGES_PAUSE_MS)
  return isTaken
}

function isUnchanged(now: Configuration | undefined, before: Configuration): boolean {
  return (
    now !== undefined &&
    now.metadata.uid === before.metadata.uid &&
    now.metadata.generation === before.metadata.generation &&
    now.metadata.deletionTimestamp === undefined
  )
}
