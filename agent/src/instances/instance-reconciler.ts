import type { Configuration, InstanceName } from '@akrijs/api'
import { keyOf, keyParts, type ObjectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import { Listeners, TokenBucket } from '@akrijs/runtime'
import type { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import { type DeviceSet, isListed } from '../discovery/device-set.js'
import { DEVICE_BOUNDS, type DeviceBounds, INSTANCE_CHANGES } from '../limits.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import type { SlotBook } from '../slots/slot-book.js'
import { DeviceDigests } from './device-digests.js'
import type { DigestCollision, NameMemory } from './device-names.js'
import { isOwnedBy } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import {
  type InstancePlan,
  type PlannedInstance,
  planInstances,
  type TakenName,
  updatePlan,
} from './instance-plan.js'
import { type InstanceWork, inOrder, workOf } from './instance-work.js'
import { InstanceWrites, type InstanceWritesOptions } from './instance-writes.js'
import { lostWhileAway } from './lost-while-away.js'
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
  /** @default every name is admitted: there is no Node object */
  readonly names?: Pick<ResourceNames, 'admit'> | undefined
  /** @default DEVICE_BOUNDS */
  readonly bounds?: Pick<DeviceBounds, 'perNode'> | undefined
}

/** An Instance that is being deleted while its device is there. */
export interface HeldInstance {
  readonly name: InstanceName
  readonly finalizers: readonly string[]
}

/** What the status of a Configuration says of its Instances on this node. */
export interface InstancesView {
  /** Devices without an Instance, because other devices have their digests. */
  readonly collisions: readonly DigestCollision[]
  /** Resources that are not offered, because their names are new. */
  readonly refusals: readonly NameRefusal[]
  /** Devices without an Instance, because an older Configuration has its name. */
  readonly taken: readonly TakenName[]
  /** The Instances whose deletion keeps a device from being offered. */
  readonly held: readonly HeldInstance[]
  /**
   * How many devices have an Instance. A shared Instance counts before it names this node: then
   * nodes that wait to join all at once do not report twice.
   */
  readonly present: number
  /** The Instances that this node serves. */
  readonly served: ReadonlyMap<InstanceName, PlannedInstance>
}

/** What this node does for one Configuration. */
interface ServedState {
  /** Of the Configuration: another one can have its name later, whose devices are not known yet. */
  readonly uid: string
  readonly digests: DeviceDigests
  readonly memory: NameMemory
  plan: InstancePlan
  /** The Instances that have changed since the plan began. */
  changed: Set<InstanceName>
  readonly running: RunningInstances
  /**
   * The Instances that wait for a write or for their plugin. What had its turn goes to the end, so
   * that a list which always changes keeps no other work waiting.
   */
  work: Map<InstanceName, InstanceWork>
  readonly writes: InstanceWrites
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
 * Keeps the Instances and the device plugins of this node in step with discovered devices. Each
 * pass compares all that should be there with all that is there.
 */
export class InstanceReconciler {
  readonly #options: InstanceReconcilerOptions
  readonly #states = new Map<ObjectKey, ServedState>()
  readonly #changed = new Listeners<[configuration: ObjectKey]>()
  readonly #spread: WriteSpread

  constructor(options: InstanceReconcilerOptions, { random = Math.random } = {}) {
    this.#options = options
    const { cluster, instances, signal } = options
    this.#spread = new WriteSpread({ ...options, random, knownNodes: () => cluster.knownNodes })
    instances.onChange((configuration, { instance, isMinor }) => {
      const state = this.#states.get(configuration)
      const { plan = NO_PLAN } = state ?? {}
      const name = keyParts(instance).name as InstanceName
      if (isMinor && plan !== NO_PLAN && !plan.claimed.has(name)) return
      state?.changed.add(name)
      this.#changed.tell(configuration)
    }, signal)
  }

  /** Calls back after a change of an Instance that may change the plan of its Configuration. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#changed.add(listener, signal)
  }

  view(key: ObjectKey): InstancesView {
    const { plan = NO_PLAN, refusals = [] } = this.#states.get(key) ?? {}
    const { collisions, taken, served } = plan
    const held: HeldInstance[] = []
    let present = 0
    for (const { name, presence, existing } of served.values()) {
      if (presence !== 'absent') present++
      if (presence === 'held') held.push({ name, finalizers: existing?.metadata.finalizers ?? [] })
    }
    return { collisions, refusals, taken, held, present, served }
  }

  /** Whether the devices have changed since the last pass. */
  isBehind(configuration: ObjectKey): boolean {
    const devices = this.#options.deviceSet(configuration)
    const before = this.#states.get(configuration)?.devices
    return devices !== before && devices.devices.size + (before?.devices.size ?? 0) > 0
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
    const { configurations, instances, node } = this.#options
    const { plan, changed } = state
    const takenNames = configurations.takenNames(configuration)
    state.changed = new Set()
    const isSame =
      state.devices === devices &&
      plan.of === configuration.metadata.generation &&
      takenNames.size + plan.taken.length === 0
    if (isSame && updatePlan(plan, changed, { configuration, instances, node })) {
      state.writes.follow(plan)
      for (const name of changed) this.#updateWork(state, name)
    } else await this.#planAll(configuration, state, devices)
  }

  async #planAll(configuration: Configuration, state: ServedState, devices: DeviceSet) {
    const { configurations, instances, node } = this.#options
    const { digests, memory } = state
    // A plan that fails is made again.
    state.devices = undefined
    const plan = await planInstances({
      configuration,
      takenNames: configurations.takenNames(configuration),
      node,
      devices,
      instances,
      memory,
      digests,
      before: state.plan,
    })
    const { served } = state.plan
    state.devices = devices
    state.plan = plan
    state.writes.follow(plan)
    const before = state.work
    state.work = new Map()
    for (const name of before.keys()) this.#updateWork(state, name)
    const others: InstanceWork[] = []
    const add = (name: InstanceName) => {
      const item = before.has(name) ? undefined : this.#workOf(state, name)
      if (item !== undefined) others.push(item)
    }
    for (const name of plan.left.keys()) add(name)
    // What the plan before had too has no new work.
    for (const [name, planned] of plan.served) if (served.get(name) !== planned) add(name)
    for (const item of inOrder(others, node)) state.work.set(item.name, item)
    this.#reportCollisions(configuration, state)
    if (!devices.complete || state.isLossKnown) return
    const lost = lostWhileAway({ ...this.#options, configuration, plan, digests, devices })
    for (const device of lost) this.#options.book.lose(device)
    state.isLossKnown = true
  }

  /**
   * Makes the running plugins follow the devices. This is the first part of a pass, without a write
   * to the cluster: a device that is unhealthy or gone is not offered, however many writes wait.
   * @returns the failures
   */
  async #followPlan(state: ServedState): Promise<unknown[]> {
    const { plan, running } = state
    const withdrawn: InstanceName[] = []
    const changed: PlannedInstance[] = []
    for (const [name, { hash }] of running) {
      const planned = plan.served.get(name)
      if (planned === undefined) withdrawn.push(name)
      else if (planned.hash !== hash) changed.push(planned)
    }
    throwFirst(await inParallel(withdrawn, (name) => this.#withdraw(state, name)))
    return inParallel(changed, async (planned) => {
      // A new resource needs its name admitted first.
      const hasResource = planned.hasResource && running.get(planned.name)?.hasResource === true
      const { registered } = await this.#serve(state, planned, hasResource)
      await registered
    })
  }

  /** Serves an Instance. Until that has succeeded, the next pass does it again. */
  async #serve(
    { running }: ServedState,
    planned: PlannedInstance,
    hasResource: boolean,
  ): Promise<Serving> {
    const { name, device, hash } = planned
    running.set(name, { id: device.id, hasResource, hash: undefined })
    const { registered } = await this.#options.plugins.serve(planned, { hasResource })
    return {
      registered: registered.then(() => {
        const now = running.get(name)
        if (now !== undefined) running.set(name, { ...now, hash })
      }),
    }
  }

  async #withdraw(state: ServedState, name: InstanceName): Promise<void> {
    const running = state.running.get(name)
    if (running === undefined) return
    const isGone = state.devices !== undefined && !isListed(state.devices, running.id)
    await this.#options.plugins.withdraw(name, { isGone })
    state.running.delete(name)
    this.#updateWork(state, name)
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
    const wait = running === undefined ? 0 : state.writes.waitForFirstNode(serve)
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
    if ('leave' in item) return state.writes.leave(item.leave)
    const { name, serve } = item
    // The plugin comes first: the resource of a visible Instance can be requested. The kubelet
    // registers the plugin during the write.
    const { registered } = await this.#serve(state, serve, serve.hasResource)
    const [wait] = await together(state.writes.write(configuration, serve), registered)
    this.#updateWork(state, name)
    return wait
  }

  #updateWork(state: ServedState, name: InstanceName): void {
    const item = this.#workOf(state, name)
    if (item === undefined) state.work.delete(name)
    else state.work.set(name, item)
  }

  #workOf({ running, plan }: ServedState, name: InstanceName): InstanceWork | undefined {
    return workOf(name, { ...plan, running, node: this.#options.node })
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
    const writes = new InstanceWrites(this.#options)
    let wait = 0
    throwFirst(
      await inParallel(
        joined,
        async (instance) => {
          wait = Math.max(wait, await writes.leave({ instance, device: 'gone' }))
        },
        () => !signal.aborted && isUnchanged(cluster.configurations.get(key), refused),
      ),
    )
    return wait === 0 ? {} : { requeueAfterMs: wait }
  }

  #stateOf(key: ObjectKey, { metadata }: Configuration): ServedState {
    const before = this.#states.get(key)
    if (before !== undefined) return before
    const { bounds = DEVICE_BOUNDS, clock, ledger, node } = this.#options
    const { perDevice, refillMs } = INSTANCE_CHANGES
    const running = new RunningInstances()
    const state: ServedState = {
      uid: metadata.uid,
      digests: new DeviceDigests(metadata.name, node),
      memory: { deviceOf: (name) => running.get(name)?.id, longInUse: ledger.longInstances },
      plan: NO_PLAN,
      changed: new Set(),
      running,
      work: new Map(),
      writes: new InstanceWrites(this.#options),
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
    const { collisions } = state.plan
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

/** Before the first pass. Any change of an Instance may count. */
const NO_PLAN: InstancePlan = {
  of: 0,
  served: new Map(),
  left: new Map(),
  collisions: [],
  taken: [],
  claimed: new Set(),
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
