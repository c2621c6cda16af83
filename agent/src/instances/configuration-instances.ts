import { type Configuration, GROUP, type InstanceName, possibleOwner } from '@akrijs/api'
import { keyOf, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import { TokenBucket } from '@akrijs/runtime'
import type { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import { type DeviceSet, isListed } from '../discovery/device-set.js'
import type { Discovery } from '../discovery/discovery.js'
import { DEVICE_BOUNDS, type DeviceBounds, INSTANCE_CHANGES } from '../limits.js'
import type { AgentObserver } from '../report/observer.js'
import { instanceOf } from '../slots/allocation-ledger.js'
import type { SlotBook } from '../slots/slot-book.js'
import { deviceIdOf } from './existing-instances.js'
import type { InstanceIndex } from './instance-index.js'
import { DeviceDigests } from './instance-name.js'
import { type PlannedInstance, planInstances, takeDevices, updatePlan } from './instance-plan.js'
import {
  type InstanceWork,
  type InstanceWorkOptions,
  leaveInstance,
  waitMs,
  writeInstance,
  writeTo,
} from './instance-work.js'
import { type InstancesView, instancesView, NO_PLAN } from './instances-view.js'
import { inParallel, throwFirst } from './parallel-work.js'
import type { NameRefusal, ResourceNames } from './resource-names.js'
import type { InstancePlugins } from './served-instance.js'

/** How long a Configuration waits after it has used up its changes, in milliseconds. */
const CHANGES_PAUSE_MS = 1000
/** The least time between two passes, for each Instance that waits, in milliseconds. */
const PAUSE_MS_PER_WORK = 0.01

export interface InstanceReconcilerOptions extends InstanceWorkOptions {
  readonly instances: InstanceIndex
  /** The Configurations that the agent serves. */
  readonly configurations: Pick<AcceptedConfigurations, 'get' | 'list' | 'onChange' | 'takenNames'>
  readonly discovery: Pick<Discovery, 'deviceSet' | 'onChange'>
  readonly plugins: InstancePlugins
  readonly book: Pick<SlotBook, 'lose' | 'onLoss'>
  readonly observer: Pick<AgentObserver, 'reconciling'>
  readonly signal: AbortSignal
  /** Called after each reconcile. @param failure undefined after a success */
  reconciled(configuration: ObjectKey, failure: unknown): Promise<void>
  /** @default every name is admitted: there is no Node object */
  readonly names?: Pick<ResourceNames, 'admit'> | undefined
  /** @default DEVICE_BOUNDS */
  readonly bounds?: Pick<DeviceBounds, 'perNode'> | undefined
  /** Of [0, 1). @default Math.random */
  random?(): number
}

/** An Instance that the plugins of this node serve. */
interface RunningInstance {
  /** The id of its device. */
  readonly id: string
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
  readonly #key: ObjectKey
  readonly #options: InstanceReconcilerOptions
  readonly #digests: DeviceDigests
  readonly #changes: TokenBucket
  /** As it was in the last pass. */
  #configuration: Configuration
  #plan = NO_PLAN
  /** The devices of the plan; undefined if there is no plan of the present Configuration. */
  #devices: DeviceSet | undefined
  /** Whether the plan lacks a change of an Instance. */
  #isOutdated = false
  /** The Instances whose claims have changed during a plan. */
  readonly #claimed = new Set<InstanceName>()
  readonly #running = new Map<InstanceName, RunningInstance>()
  /** The names of the resources that are offered. */
  readonly #resources = new Set<string>()
  /**
   * The Instances that wait for a write or for their plugin. What had its turn goes to the end, so
   * that a list which always changes keeps no other work waiting.
   */
  readonly #work = new Map<InstanceName, TimedWork>()
  /** Whether devices that went while the agent was away have been looked for. */
  #isLossKnown = false
  /** Of the last pass. */
  #refusals: NameRefusal[] = []
  /** Until the next pass, in milliseconds. */
  #soonest = Infinity

  constructor(configuration: Configuration, options: InstanceReconcilerOptions) {
    const { bounds = DEVICE_BOUNDS, clock, node } = options
    const { perDevice, refillMs } = INSTANCE_CHANGES
    this.#key = keyOf(configuration)
    this.#options = options
    this.#configuration = configuration
    this.#digests = new DeviceDigests(configuration.metadata.name, node)
    this.#changes = new TokenBucket({ clock, burst: perDevice * bounds.perNode, refillMs })
  }

  /** Another Configuration can have the name later, whose devices are not known yet. */
  get uid(): string {
    return this.#configuration.metadata.uid
  }

  get view(): InstancesView {
    return instancesView(this.#plan, this.#refusals)
  }

  /** The devices of the last pass. */
  get devices(): DeviceSet | undefined {
    return this.#devices
  }

  /** Takes a change of an Instance over into the plan. @returns whether it needs a pass */
  instanceChanged(name: InstanceName, isMinor: boolean): boolean {
    const isPlanned = this.#devices !== undefined
    // Nearly no claim can change a plan. Which claims can is known at the end of the plan.
    if (isMinor && !isPlanned) this.#claimed.add(name)
    // A lower capacity may wait for a claim to end.
    const matters = isPlanned && (this.#plan.claimed.has(name) || this.#work.has(name))
    if (isMinor && !matters) return false
    const input = { ...this.#options, configuration: this.#configuration }
    if (isPlanned && updatePlan(this.#plan, name, input)) this.#updateWork(name)
    else this.#isOutdated = true
    return true
  }

  async reconcile(configuration: Configuration): Promise<ReconcileResult> {
    const { clock, configurations, discovery, signal } = this.#options
    this.#configuration = configuration
    this.#refusals = []
    this.#soonest = Infinity
    const failures: unknown[] = []
    const offered = this.#offer()?.catch((error: unknown) => failures.push(error))
    // Without its Configuration no device is listed, and none of them is gone.
    const isFollowed = () => isUnchanged(configurations.get(this.#key), configuration)
    const isPlanned = () => discovery.deviceSet(this.#key) === this.#devices
    if (isFollowed()) await this.#planDevices()
    failures.push(...(await this.#followPlan()))
    // The list may have changed meanwhile. A list that always changes must not stop all writes.
    if (isFollowed() && !isPlanned()) await this.#planDevices()

    // Hundreds of writes take seconds. No Instance is created for a Configuration or a device that
    // is gone meanwhile, and an agent that ends writes no more.
    const isCurrent = () => !signal.aborted && isPlanned() && isFollowed()
    const now = clock.monotonicMs()
    let mayChange = true
    const workOn = async (name: InstanceName) => {
      const work = this.#work.get(name)
      if (work === undefined || work.at > now || !this.#isAdmitted(name)) return
      mayChange = this.#takeChange()
      if (mayChange) await this.#change(name, work)
    }
    const work = [...this.#work.keys()]
    failures.push(...(await inParallel(work, workOn, () => mayChange && isCurrent())))
    // The kubelet needs as long to register a plugin as an API server to create an Instance.
    await offered
    throwFirst(failures)
    if (!isCurrent()) return { requeueAfterMs: 0 }
    for (const { at } of this.#work.values())
      if (at > now) this.#waitFor(Math.max(0, at - clock.monotonicMs()))
    if (this.#soonest === Infinity) return {}
    // A pass reads all work that waits.
    return { requeueAfterMs: Math.max(this.#soonest, this.#work.size * PAUSE_MS_PER_WORK) }
  }

  /** Withdraws all plugins. */
  async stop(): Promise<void> {
    await this.#options.plugins.withdrawConfiguration(this.#key)
    this.#resources.delete(this.#configuration.metadata.name)
    throwFirst(await inParallel([...this.#running], (each) => this.#withdraw(...each)))
  }

  /**
   * Serves the resource of the Configuration, with or without devices: a Pod may request it before
   * the first device appears.
   */
  #offer(): Promise<void> | undefined {
    const { plugins } = this.#options
    const { metadata, spec } = this.#configuration
    const isOffered = this.#resources.has(metadata.name)
    if (spec.offer === 'instance') {
      this.#resources.delete(metadata.name)
      return isOffered ? plugins.withdrawConfiguration(this.#key) : undefined
    }
    if (!isOffered && !(this.#admit(metadata.name, false) && this.#takeChange())) return undefined
    this.#resources.add(metadata.name)
    return plugins.serveConfiguration(this.#key)
  }

  /** A plan that fails is made again. */
  async #planDevices(): Promise<void> {
    const { configurations, discovery, instances, ledger, node } = this.#options
    const configuration = this.#configuration
    const devices = discovery.deviceSet(this.#key)
    const takenNames = configurations.takenNames(configuration)
    const before = this.#plan
    const last = this.#devices
    const longInUse = ledger.longInstances
    const input = { configuration, node, devices, instances, digests: this.#digests, longInUse }
    const isCurrent = !this.#isOutdated && before.of === configuration.metadata.generation
    if (last !== undefined && isCurrent && takenNames.size + before.taken.length === 0) {
      const names = last === devices ? [] : takeDevices(before, last, input)
      if (names !== undefined) {
        this.#devices = devices
        for (const name of names) this.#updateWork(name)
        return
      }
    }
    this.#isOutdated = false
    this.#claimed.clear()
    this.#devices = undefined
    this.#plan = await planInstances({
      ...{ ...input, takenNames, before },
      deviceOf: (name) => this.#running.get(name)?.id,
    })
    this.#devices = devices
    const { left, served } = this.#plan
    for (const name of [...this.#work.keys(), ...left.keys()]) this.#updateWork(name)
    const changed = [...served.values()].filter((each) => before.served.get(each.name) !== each)
    // After a restart, the devices that this node served come before new devices.
    const joined = changed.filter((each) => this.#isJoined(each))
    for (const { name } of [...joined, ...changed]) this.#updateWork(name)
    for (const name of this.#claimed) if (this.instanceChanged(name, true)) this.#waitFor(0)
    if (devices.complete && !this.#isLossKnown) this.#loseDevices(devices)
  }

  /**
   * Devices of running containers that went while the agent was away: no plugin of this agent has
   * served them. Later, a plugin is withdrawn with its device.
   */
  #loseDevices({ leftOut }: DeviceSet): void {
    const { book, instances, ledger, node } = this.#options
    const { name: configuration, namespace } = this.#configuration.metadata
    const { left, served } = this.#plan
    const lost = new Set<InstanceName>()
    for (const { slot, resourceName } of ledger.list()) {
      const name = instanceOf(slot)
      const isOfResource = [configuration, name].some((each) => resourceName === `${GROUP}/${each}`)
      if (possibleOwner(name) === configuration && isOfResource && !served.has(name)) lost.add(name)
    }
    // The Instance of a device that a bound leaves out may be deleted: its digest gives the name.
    for (const [id, { shared }] of lost.size > 0 ? (leftOut?.listed ?? []) : [])
      for (const length of ['short', 'long'] as const)
        lost.delete(this.#digests.of(id, shared, length).name)
    for (const name of lost) {
      const instance = instances.get(objectKey(namespace, name))
      // Another Instance may have the device, while containers hold slots of this Instance.
      const isElsewhere = instance?.spec.nodes.includes(node) && left.get(name)?.device !== 'gone'
      if (!isElsewhere) book.lose({ id: deviceIdOf(instance), instance: name, configuration })
    }
    this.#isLossKnown = true
  }

  /**
   * Makes the running plugins follow the devices. This is the first part of a pass, without a write
   * to the cluster: a device that is unhealthy or gone is not offered, however many writes wait.
   * @returns the failures
   */
  async #followPlan(): Promise<unknown[]> {
    const { served } = this.#plan
    const withdrawn: [InstanceName, RunningInstance][] = []
    const changed: PlannedInstance[] = []
    // Lists of all would be garbage, for each device that comes.
    for (const [name, running] of this.#running) {
      const planned = served.get(name)
      if (planned === undefined) withdrawn.push([name, running])
      else if (planned.hash !== running.hash) changed.push(planned)
    }
    throwFirst(await inParallel(withdrawn, (each) => this.#withdraw(...each)))
    // A new resource needs its name admitted first.
    return inParallel(changed, async (planned) =>
      this.#serve(planned, planned.hasResource && this.#resources.has(planned.name)),
    )
  }

  /** Serves an Instance. Until that has succeeded, the next pass does it again. */
  #serve(planned: PlannedInstance, hasResource: boolean): Promise<void> {
    const { name, device, hash } = planned
    const running: RunningInstance = { id: device.id, hash: undefined }
    this.#running.set(name, running)
    if (hasResource) this.#resources.add(name)
    else this.#resources.delete(name)
    return this.#options.plugins.serve(planned, hasResource).then(() => {
      running.hash = hash
    })
  }

  async #withdraw(name: InstanceName, { id }: RunningInstance): Promise<void> {
    const isGone = this.#devices !== undefined && !isListed(this.#devices, id)
    await this.#options.plugins.withdraw(name, isGone)
    this.#running.delete(name)
    this.#resources.delete(name)
    this.#updateWork(name)
  }

  /** Whether the Instance needs no new resource, or may have its name. */
  #isAdmitted(name: InstanceName): boolean {
    const planned = this.#plan.served.get(name)
    if (planned === undefined || !planned.hasResource || !this.#lacksPlugin(planned)) return true
    return this.#admit(name, !this.#running.has(name) && this.#isJoined(planned))
  }

  /** Makes the plugin and the Instance follow the plan. */
  async #change(name: InstanceName, work: TimedWork): Promise<void> {
    this.#work.delete(name)
    this.#work.set(name, work)
    const left = this.#plan.left.get(name)
    const planned = this.#plan.served.get(name)
    if (left !== undefined) this.#waitFor(await leaveInstance(this.#options, left))
    if (planned === undefined) return
    // The plugin comes first: the resource of a visible Instance can be requested. The kubelet
    // registers the plugin during the write.
    const registered = this.#serve(planned, planned.hasResource)
    if (this.#isJoined(planned)) this.#options.cluster.stayInInstance(planned.key)
    const written = writeInstance(this.#options, this.#configuration, planned, work.what)
    // What fails first does not end the pass while the other goes on.
    await Promise.allSettled([written, registered])
    const [again] = await Promise.all([written, registered])
    this.#waitFor(again)
    this.#updateWork(name)
  }

  /** Notes what is missing now, and since when. */
  #updateWork(name: InstanceName): void {
    const what = this.#workOf(name)
    if (what === undefined) this.#work.delete(name)
    if (what === undefined || this.#work.get(name)?.what === what) return
    const { clock, random = Math.random } = this.#options
    const planned = this.#plan.served.get(name)
    const instance = planned?.existing ?? this.#plan.left.get(name)?.instance
    const wait = waitMs(what, instance, planned?.shared === true, this.#options, random)
    this.#work.set(name, { what, at: clock.monotonicMs() + wait })
  }

  /** @returns undefined if the Instance needs neither a write nor a plugin */
  #workOf(name: InstanceName): InstanceWork | undefined {
    const planned = this.#plan.served.get(name)
    // Nothing is left while it is offered.
    if (planned === undefined)
      return this.#plan.left.has(name) && !this.#running.has(name) ? 'leave' : undefined
    const write = writeTo(planned, this.#options.node)
    // The plugin does not wait for the capacity.
    const isLater = write === undefined || write.startsWith('capacity')
    return isLater && this.#lacksPlugin(planned) ? 'serve' : write
  }

  #lacksPlugin({ name, hasResource }: PlannedInstance): boolean {
    return !this.#running.has(name) || (hasResource && !this.#resources.has(name))
  }

  #isJoined({ existing }: PlannedInstance): boolean {
    return existing?.spec.nodes.includes(this.#options.node) === true
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

  #admit(name: string, isKnown: boolean): boolean {
    const { name: configuration } = this.#configuration.metadata
    const offered = this.#resources.size
    const refusal = this.#options.names?.admit({ name, configuration, offered, isKnown })
    if (refusal === undefined) return true
    this.#refusals.push(refusal)
    this.#waitFor(refusal.retryInMs)
    return false
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
