import type { Configuration, ConfigurationName, InstanceName } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import { TokenBucket } from '@akrijs/runtime'
import type { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import { type DeviceSet, isListed } from '../discovery/device-set.js'
import { DEVICE_BOUNDS, type DeviceBounds, INSTANCE_CHANGES } from '../limits.js'
import type { SlotBook } from '../slots/slot-book.js'
import type { NameMemory } from './device-names.js'
import type { InstanceIndex } from './instance-index.js'
import { DeviceDigests } from './instance-name.js'
import {
  type InstancePlan,
  type PlannedInstance,
  planInstances,
  updatePlan,
} from './instance-plan.js'
import { type InstanceWork, waitMs, writeTo } from './instance-work.js'
import { type InstanceWritesOptions, leaveInstance, writeInstance } from './instance-writes.js'
import { type InstancesView, instancesView, NO_PLAN } from './instances-view.js'
import { lostWhileAway } from './lost-while-away.js'
import { inParallel, throwFirst } from './parallel-work.js'
import type { NameRefusal, ResourceNames } from './resource-names.js'
import type { InstancePlugins } from './served-instance.js'

/** How long a Configuration waits after it has used up its changes, in milliseconds. */
const CHANGES_PAUSE_MS = 1000
/** The least time between two passes, for each Instance that waits, in milliseconds. */
const PAUSE_MS_PER_WORK = 0.01

export interface ConfigurationInstancesOptions extends InstanceWritesOptions {
  readonly instances: InstanceIndex
  /** The Configurations that the agent serves. */
  readonly configurations: Pick<AcceptedConfigurations, 'get' | 'takenNames'>
  readonly plugins: InstancePlugins
  readonly book: Pick<SlotBook, 'lose'>
  readonly signal: AbortSignal
  deviceSet(configuration: ObjectKey): DeviceSet
  /** @default every name is admitted: there is no Node object */
  readonly names?: Pick<ResourceNames, 'admit'> | undefined
  /** @default DEVICE_BOUNDS */
  readonly bounds?: Pick<DeviceBounds, 'perNode'> | undefined
  /** Of [0, 1). @default Math.random */
  random?(): number
}

/** An Instance with a plugin of this node. */
interface RunningInstance {
  /** The id of its device. */
  readonly id: string
  /** Whether it has a resource of its own. */
  readonly hasResource: boolean
  /** Of the plan that its plugin follows; undefined if it may not follow yet. */
  hash: string | undefined
}

interface TimedWork {
  readonly what: InstanceWork
  /** Other nodes come first until then, by `monotonicMs`. */
  readonly at: number
}

/** The Instances of one Configuration on this node, and their device plugins. */
export class ConfigurationInstances {
  /** Another Configuration can have the name later, whose devices are not known yet. */
  readonly uid: string
  readonly #key: ObjectKey
  readonly #options: ConfigurationInstancesOptions
  readonly #digests: DeviceDigests
  readonly #memory: NameMemory
  readonly #changes: TokenBucket
  #plan = NO_PLAN
  /** The devices of the plan. */
  #devices: DeviceSet | undefined
  /** The Instances that have changed since the plan began. */
  #changed = new Set<InstanceName>()
  readonly #running = new Map<InstanceName, RunningInstance>()
  /** How many of these have a resource of their own. */
  #resources = 0
  /**
   * The Instances that wait for a write or for their plugin. What had its turn goes to the end, so
   * that a list which always changes keeps no other work waiting.
   */
  readonly #work = new Map<InstanceName, TimedWork>()
  /** Whether the plugin of the Configuration runs. */
  #isOffered = false
  /** Whether devices that went while the agent was away have been looked for. */
  #isLossKnown = false
  /** The collisions that have an Event. */
  #reported: ReadonlySet<string> = new Set()
  /** Of the last pass. */
  #refusals: NameRefusal[] = []
  /** Until the next pass, in milliseconds. */
  #soonest = Infinity

  constructor({ metadata }: Configuration, options: ConfigurationInstancesOptions) {
    const { bounds = DEVICE_BOUNDS, clock, ledger, node } = options
    const { perDevice, refillMs } = INSTANCE_CHANGES
    this.uid = metadata.uid
    this.#key = keyOf({ metadata })
    this.#options = options
    this.#digests = new DeviceDigests(metadata.name, node)
    const deviceOf = (name: InstanceName) => this.#running.get(name)?.id
    this.#memory = { deviceOf, longInUse: ledger.longInstances }
    this.#changes = new TokenBucket({ clock, burst: perDevice * bounds.perNode, refillMs })
  }

  get view(): InstancesView {
    return instancesView(this.#plan, this.#refusals)
  }

  /** The devices of the last pass. */
  get devices(): DeviceSet | undefined {
    return this.#devices
  }

  /** Notes a change of an Instance. @returns whether it may change the plan */
  instanceChanged(name: InstanceName, isMinor: boolean): boolean {
    if (isMinor && this.#plan !== NO_PLAN && !this.#plan.claimed.has(name)) return false
    this.#changed.add(name)
    return true
  }

  async reconcile(configuration: Configuration): Promise<ReconcileResult> {
    const { configurations, deviceSet, signal } = this.#options
    this.#refusals = []
    this.#soonest = Infinity
    const failures: unknown[] = []
    const offered = this.#offer(configuration)?.catch((error: unknown) => failures.push(error))
    // Without its Configuration no device is listed, and none of them is gone.
    const isFollowed = () => isUnchanged(configurations.get(this.#key), configuration)
    const isPlanned = () => deviceSet(this.#key) === this.#devices
    if (isFollowed()) await this.#planDevices(configuration)
    failures.push(...(await this.#followPlan()))
    // The list may have changed meanwhile. A list that always changes must not stop all writes.
    if (isFollowed() && !isPlanned()) await this.#planDevices(configuration)

    // Hundreds of writes take seconds. No Instance is created for a Configuration or a device that
    // is gone meanwhile, and an agent that ends writes no more.
    const isCurrent = () => !signal.aborted && isPlanned() && isFollowed()
    let mayChange = true
    const workOn = async ([name, work]: [InstanceName, TimedWork]) => {
      if (!this.#isReady(configuration, name, work)) return
      mayChange = this.#takeChange()
      if (mayChange) await this.#change(configuration, name, work)
    }
    const work = [...this.#work]
    failures.push(...(await inParallel(work, workOn, () => mayChange && isCurrent())))
    // The kubelet needs as long to register a plugin as an API server to create an Instance.
    await offered
    throwFirst(failures)
    if (!isCurrent()) return { requeueAfterMs: 0 }
    if (this.#soonest === Infinity) return {}
    // A pass looks at all work that waits.
    return { requeueAfterMs: Math.max(this.#soonest, this.#work.size * PAUSE_MS_PER_WORK) }
  }

  /** Withdraws all plugins. */
  async stop(): Promise<void> {
    await this.#options.plugins.withdrawConfiguration(this.#key)
    this.#isOffered = false
    throwFirst(await inParallel([...this.#running.keys()], (name) => this.#withdraw(name)))
  }

  /**
   * Serves the resource of the Configuration, with or without devices: a Pod may request it before
   * the first device appears.
   */
  #offer({ metadata: { name }, spec }: Configuration): Promise<void> | undefined {
    const { plugins } = this.#options
    const isOffered = this.#isOffered
    if (spec.offer === 'instance') {
      this.#isOffered = false
      return isOffered ? plugins.withdrawConfiguration(this.#key) : undefined
    }
    if (!isOffered && !(this.#admit(name, name, false) && this.#takeChange())) return undefined
    this.#isOffered = true
    return plugins.serveConfiguration(this.#key)
  }

  async #planDevices(configuration: Configuration): Promise<void> {
    const { configurations, deviceSet, instances, node } = this.#options
    const devices = deviceSet(this.#key)
    const before = this.#plan
    const changed = this.#changed
    const takenNames = configurations.takenNames(configuration)
    this.#changed = new Set()
    const isSame =
      this.#devices === devices &&
      before.of === configuration.metadata.generation &&
      takenNames.size + before.taken.length === 0
    if (isSame && updatePlan(before, changed, { configuration, instances, node })) {
      for (const name of changed) this.#updateWork(name)
      return
    }
    // A plan that fails is made again.
    this.#devices = undefined
    this.#plan = await planInstances({
      ...{ configuration, takenNames, node, devices, instances, before },
      ...{ memory: this.#memory, digests: this.#digests },
    })
    this.#devices = devices
    this.#planWork(before)
    this.#reportCollisions(configuration)
    if (devices.complete && !this.#isLossKnown) this.#lookForLosses(configuration, devices)
  }

  #planWork(before: InstancePlan): void {
    const { left, served } = this.#plan
    for (const name of this.#work.keys()) this.#updateWork(name)
    const names = [...left.keys()]
    // What the plan before had too has no new work.
    for (const [name, planned] of served) if (before.served.get(name) !== planned) names.push(name)
    const others = new Map<InstanceName, InstanceWork>()
    for (const name of names) {
      const what = this.#work.has(name) ? undefined : this.#workOf(name)
      // After a restart, the devices that this node served come before new devices.
      if (what === 'create' || what === 'join') others.set(name, what)
      else if (what !== undefined) this.#updateWork(name, what)
    }
    for (const [name, what] of others) this.#updateWork(name, what)
  }

  #lookForLosses(configuration: Configuration, devices: DeviceSet): void {
    const plan = this.#plan
    const digests = this.#digests
    for (const device of lostWhileAway({ ...this.#options, configuration, plan, digests, devices }))
      this.#options.book.lose(device)
    this.#isLossKnown = true
  }

  /**
   * Makes the running plugins follow the devices. This is the first part of a pass, without a write
   * to the cluster: a device that is unhealthy or gone is not offered, however many writes wait.
   * @returns the failures
   */
  async #followPlan(): Promise<unknown[]> {
    const { served } = this.#plan
    const withdrawn: InstanceName[] = []
    const changed: [PlannedInstance, RunningInstance][] = []
    for (const [name, running] of this.#running) {
      const planned = served.get(name)
      if (planned === undefined) withdrawn.push(name)
      else if (planned.hash !== running.hash) changed.push([planned, running])
    }
    throwFirst(await inParallel(withdrawn, (name) => this.#withdraw(name)))
    // A new resource needs its name admitted first.
    return inParallel(changed, async ([planned, { hasResource }]) =>
      this.#serve(planned, planned.hasResource && hasResource),
    )
  }

  /** Serves an Instance. Until that has succeeded, the next pass does it again. */
  #serve(planned: PlannedInstance, hasResource: boolean): Promise<void> {
    const { name, device, hash } = planned
    const running: RunningInstance = { id: device.id, hasResource, hash: undefined }
    this.#forget(name)
    this.#running.set(name, running)
    if (hasResource) this.#resources++
    return this.#options.plugins.serve(planned, hasResource).then(() => {
      running.hash = hash
    })
  }

  async #withdraw(name: InstanceName): Promise<void> {
    const running = this.#running.get(name)
    if (running === undefined) return
    const isGone = this.#devices !== undefined && !isListed(this.#devices, running.id)
    await this.#options.plugins.withdraw(name, isGone)
    this.#forget(name)
    this.#updateWork(name)
  }

  #forget(name: InstanceName): void {
    if (this.#running.get(name)?.hasResource === true) this.#resources--
    this.#running.delete(name)
  }

  /** Whether the work waits neither for the name of a resource nor for other nodes. */
  #isReady({ metadata }: Configuration, name: InstanceName, { what, at }: TimedWork): boolean {
    const { clock, node } = this.#options
    const planned = this.#plan.served.get(name)
    const lacksPlugin = planned !== undefined && this.#lacksPlugin(planned)
    const wait = at - clock.monotonicMs()
    // The plugin does not wait for the capacity.
    if (wait > 0 && !(lacksPlugin && what.startsWith('capacity'))) {
      this.#waitFor(wait)
      return false
    }
    if (!lacksPlugin || !planned.hasResource) return true
    const isKnown = !this.#running.has(name) && planned.existing?.spec.nodes.includes(node) === true
    return this.#admit(name, metadata.name, isKnown)
  }

  /** Makes the plugin and the Instance follow the plan. */
  async #change(configuration: Configuration, name: InstanceName, work: TimedWork): Promise<void> {
    this.#work.delete(name)
    this.#work.set(name, work)
    const left = this.#plan.left.get(name)
    const planned = this.#plan.served.get(name)
    const { clock, cluster, node } = this.#options
    const wait = work.at - clock.monotonicMs()
    if (left !== undefined) this.#waitFor(await leaveInstance(this.#options, left))
    if (planned === undefined) return
    // The plugin comes first: the resource of a visible Instance can be requested. The kubelet
    // registers the plugin during the write.
    const registered = this.#serve(planned, planned.hasResource)
    // Also while a new capacity waits for other nodes.
    if (planned.existing?.spec.nodes.includes(node)) cluster.stayInInstance(planned.key)
    const written =
      wait > 0 ? wait : writeInstance(this.#options, configuration, planned, work.what)
    // What fails first does not end the pass while the other goes on.
    await Promise.allSettled([written, registered])
    const [again] = await Promise.all([written, registered])
    this.#waitFor(again)
    this.#updateWork(name)
  }

  /** @param what @default what is missing now */
  #updateWork(name: InstanceName, what = this.#workOf(name)): void {
    if (what === undefined) this.#work.delete(name)
    if (what === undefined || this.#work.get(name)?.what === what) return
    const { node, clock, cluster, random = Math.random } = this.#options
    const planned = this.#plan.served.get(name)
    const instance = planned?.existing ?? this.#plan.left.get(name)?.instance
    const others = { node, knownNodes: cluster.knownNodes, random }
    const wait = waitMs(what, instance, planned?.shared === true, others)
    this.#work.set(name, { what, at: clock.monotonicMs() + wait })
  }

  /** @returns undefined if the Instance needs neither a write nor a plugin */
  #workOf(name: InstanceName): InstanceWork | undefined {
    const { served, left } = this.#plan
    const planned = served.get(name)
    if (planned !== undefined)
      return (
        writeTo(planned, this.#options.node) ?? (this.#lacksPlugin(planned) ? 'serve' : undefined)
      )
    // Nothing is left while it is offered.
    return left.has(name) && !this.#running.has(name) ? 'leave' : undefined
  }

  #lacksPlugin({ name, hasResource }: PlannedInstance): boolean {
    const running = this.#running.get(name)
    return running === undefined || (hasResource && !running.hasResource)
  }

  /** Takes a change of an Instance or a plugin. @returns whether there was one */
  #takeChange(): boolean {
    const isTaken = this.#changes.take() === 0
    if (!isTaken) this.#waitFor(CHANGES_PAUSE_MS)
    return isTaken
  }

  #waitFor(ms: number): void {
    this.#soonest = Math.min(this.#soonest, ms)
  }

  #admit(name: string, configuration: ConfigurationName, isKnown: boolean): boolean {
    const offered = this.#resources + (this.#isOffered ? 1 : 0)
    const refusal = this.#options.names?.admit({ name, configuration, offered, isKnown })
    if (refusal === undefined) return true
    this.#refusals.push(refusal)
    this.#waitFor(refusal.retryInMs)
    return false
  }

  #reportCollisions(configuration: Configuration): void {
    const { collisions } = this.#plan
    for (const { digest, kept, refused } of collisions) {
      if (this.#reported.has(refused)) continue
      this.#options.cluster.recordEvent({
        regarding: { kind: 'Configuration', key: keyOf(configuration) },
        type: 'Warning',
        reason: 'DigestCollision',
        message:
          `devices ${JSON.stringify(kept)} and ${JSON.stringify(refused)} have the same ` +
          `digest ${digest}; the second gets no Instance`,
      })
    }
    this.#reported = new Set(collisions.map(({ refused }) => refused))
  }
}

export function isUnchanged(now: Configuration | undefined, before: Configuration): boolean {
  return (
    now !== undefined &&
    now.metadata.uid === before.metadata.uid &&
    now.metadata.generation === before.metadata.generation &&
    now.metadata.deletionTimestamp === undefined
  )
}
