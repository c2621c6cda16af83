import type { Configuration, Instance, InstanceName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Cluster } from '../../ports/cluster.js'
import type { AcceptedConfigurations } from '../accepted-configurations.js'
import { DEVICE_BOUNDS, type DeviceBounds } from '../discovery/device-bounds.js'
import type { DeviceSet } from '../discovery/device-set.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { FairBudget } from './fair-budget.js'
import { FairRound } from './fair-round.js'
import { cdiName } from './instance-name.js'
import {
  type DigestCollision,
  deviceIdAnnotation,
  type InstancePlan,
  isOwnedBy,
  type PlannedInstance,
  planInstances,
  type TakenName,
} from './instance-plan.js'
import { type InstanceWork, instanceWork, needsWrite } from './instance-work.js'
import type { NameRefusal, ResourceNames } from './resource-names.js'
import type { InstancePlugins } from './served-instance.js'

/** How many Instances of one Configuration are reconciled at the same time. */
const CONCURRENCY = 16
/**
 * How long each node of an Instance waits for the node before it to write a new capacity, in
 * milliseconds.
 */
const FIRST_NODE_MS = 5000
/**
 * Writes of Instances and starts of plugins, shared by all Configurations. The burst is twice the
 * most that devices need at once, for each device of the node: one to appear, one to go. Half of
 * it stays for other Configurations.
 */
const CHANGES = { burstPerDevice: 4, refillMs: 50 }
/** How long a Configuration waits after it has used up its changes, in milliseconds. */
const CHANGES_PAUSE_MS = 1000

interface InstanceReconcilerOptions {
  readonly cluster: Cluster
  /** The Configurations that the agent serves. */
  readonly configurations: Pick<AcceptedConfigurations, 'get' | 'takenNames'>
  readonly plugins: InstancePlugins
  /** The claims of running containers in a recreated Instance. */
  readonly ledger: Pick<AllocationLedger, 'claimsIn'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  deviceSet(configuration: ObjectKey): DeviceSet
  /** @default every name is admitted: there is no Node object */
  readonly names?: Pick<ResourceNames, 'admit'> | undefined
  /** @default DEVICE_BOUNDS */
  readonly bounds?: Pick<DeviceBounds, 'perNode'> | undefined
}

/** What a plan was made for, so that a pass can see that the devices have changed. */
interface CurrentPlan {
  readonly devices: DeviceSet
  readonly plan: InstancePlan
}

/** Keeps the Instances and the device plugins of this node in step with discovered devices. */
export class InstanceReconciler {
  readonly #options: InstanceReconcilerOptions
  /** The Instances with a running plugin, by Configuration. */
  readonly #served = new Map<ObjectKey, Set<InstanceName>>()
  readonly #collisions = new Map<ObjectKey, readonly DigestCollision[]>()
  /** The Configurations with a running plugin. */
  readonly #offered = new Set<ObjectKey>()
  readonly #refusals = new Map<ObjectKey, readonly NameRefusal[]>()
  readonly #taken = new Map<ObjectKey, readonly TakenName[]>()
  /** Instances without the capacity of their Configuration, and since when. */
  readonly #behind = new Map<InstanceName, { readonly capacity: number; readonly since: number }>()
  /** The Instances of each Configuration that wait for a write or for their plugin. */
  readonly #rounds = new Map<ObjectKey, FairRound<InstanceName>>()
  readonly #changes: FairBudget<ObjectKey>

  constructor(options: InstanceReconcilerOptions) {
    this.#options = options
    const { clock, bounds = DEVICE_BOUNDS } = options
    const { burstPerDevice, refillMs } = CHANGES
    this.#changes = new FairBudget({ clock, burst: burstPerDevice * bounds.perNode, refillMs })
  }

  /**
   * Devices of this Configuration that have no Instance, because another device has the same
   * digest.
   */
  collisions(configuration: ObjectKey): readonly DigestCollision[] {
    return this.#collisions.get(configuration) ?? []
  }

  /** Resources of this Configuration that are not offered, because their names are new. */
  refusals(configuration: ObjectKey): readonly NameRefusal[] {
    return this.#refusals.get(configuration) ?? []
  }

  /**
   * Devices of this Configuration that have no Instance, because an older Configuration has its
   * name.
   */
  taken(configuration: ObjectKey): readonly TakenName[] {
    return this.#taken.get(configuration) ?? []
  }

  async reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const { configurations, plugins, deviceSet, node } = this.#options
    const configuration = configurations.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined) {
      await plugins.withdrawConfiguration(key)
      await this.#withdrawAllBut(key, new Set())
      this.#collisions.delete(key)
      this.#refusals.delete(key)
      this.#offered.delete(key)
      this.#taken.delete(key)
      this.#rounds.delete(key)
      await this.#leaveRefused(key)
      return {}
    }
    const refusals: NameRefusal[] = []
    this.#refusals.set(key, refusals)
    const waits: number[] = []
    const { name } = configuration.metadata
    // With or without devices: a Pod may request the resource before the first device appears.
    if (
      this.#offered.has(key) ||
      (this.#admit(configuration, name, false, refusals) && this.#takeChange(key, waits))
    ) {
      this.#offered.add(key)
      await plugins.serveConfiguration({ key, name })
    }
    const before = this.#plan(configuration)
    const failures = await this.#updatePlugins(configuration, before.plan)

    // The list may have changed meanwhile. A list that always changes must not stop all writes.
    const { devices, plan } = deviceSet(key) === before.devices ? before : this.#plan(configuration)
    // Hundreds of writes take seconds. No Instance is created for a Configuration or a device that
    // is gone meanwhile.
    const isCurrent = () =>
      deviceSet(key) === devices && isUnchanged(configurations.get(key), configuration)
    const round = this.#rounds.get(key) ?? new FairRound<InstanceName>()
    this.#rounds.set(key, round)
    const work = round.follow(instanceWork(plan, node, this.#servedBy(key)))
    let mayChange = true
    const workOn = async (item: InstanceWork) => {
      const { name } = item
      if ('serve' in item && !this.#servedBy(key).has(name)) {
        const isKnown = item.serve.existing?.spec.nodes.includes(node) === true
        if (!this.#admit(configuration, name, isKnown, refusals)) return round.had(name)
      } else if ('serve' in item) {
        const wait = this.#waitForFirstNode(item.serve)
        if (wait > 0) {
          waits.push(wait)
          return round.had(name)
        }
      }
      mayChange = this.#takeChange(key, waits)
      if (!mayChange) return
      round.had(name)
      if ('leave' in item) return this.#leave(item.leave)
      const wait = await this.#reconcileInstance(configuration, item.serve)
      if (wait > 0) waits.push(wait)
    }
    failures.push(...(await inParallel(work, workOn, () => mayChange && isCurrent())))
    throwFirst(failures)
    if (!isCurrent()) return { requeueAfterMs: 0 }
    waits.push(...refusals.map(({ retryInMs }) => retryInMs))
    return waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) }
  }

  /**
   * Makes the running plugins follow the devices. This is the first part of a pass, without a write
   * to the cluster: a device that is unhealthy or gone is not offered, however many writes wait.
   * @returns the failures
   */
  async #updatePlugins(configuration: Configuration, plan: InstancePlan): Promise<unknown[]> {
    const key = keyOf(configuration)
    this.#reportCollisions(configuration, plan.collisions)
    this.#taken.set(key, plan.taken)
    await this.#withdrawAllBut(key, new Set(plan.served.map(({ name }) => name)))
    for (const { name, existing, capacity } of plan.served)
      if (existing?.spec.capacity === capacity) this.#behind.delete(name)
    const running = plan.served.filter(({ name }) => this.#served.get(key)?.has(name) === true)
    return inParallel(running, (planned) => this.#options.plugins.serve(planned))
  }

  #plan(configuration: Configuration): CurrentPlan {
    const { cluster, configurations, deviceSet, node } = this.#options
    const devices = deviceSet(keyOf(configuration))
    const plan = planInstances({
      configuration,
      takenNames: configurations.takenNames(configuration),
      node,
      devices,
      instances: cluster.instances.list(),
    })
    return { devices, plan }
  }

  #admit(
    { metadata }: Configuration,
    name: string,
    isKnown: boolean,
    refusals: NameRefusal[],
  ): boolean {
    const key = keyOf({ metadata })
    const offered = (this.#served.get(key)?.size ?? 0) + (this.#offered.has(key) ? 1 : 0)
    const configuration = metadata.name
    const refusal = this.#options.names?.admit({ name, configuration, offered, isKnown })
    if (refusal !== undefined) refusals.push(refusal)
    return refusal === undefined
  }

  /** Takes a change from the share of a Configuration. */
  #takeChange(key: ObjectKey, waits: number[]): boolean {
    const isTaken = this.#changes.take(key) === 0
    if (!isTaken) waits.push(CHANGES_PAUSE_MS)
    return isTaken
  }

  /**
   * Makes the plugin and the Instance follow the plan.
   * @returns the time until the next reconcile, in milliseconds; 0 if an event comes first
   */
  async #reconcileInstance(
    configuration: Configuration,
    planned: PlannedInstance,
  ): Promise<number> {
    const { cluster, plugins, ledger, node, log } = this.#options
    const { namespace, name } = configuration.metadata
    this.#servedBy(keyOf(configuration)).add(planned.name)
    // The plugin comes first: the resource of a visible Instance can be requested.
    await plugins.serve(planned)

    if (planned.existing === undefined) {
      const outcome = await cluster.createInstance({
        name: planned.name,
        namespace,
        annotations: deviceIdAnnotation(planned.device.id),
        owner: configuration,
        spec: {
          configurationName: name,
          cdiName: cdiName(name, planned.digest),
          capacity: planned.capacity,
          brokerProperties: planned.properties,
          shared: planned.shared,
          nodes: [node],
          deviceUsage: ledger.claimsIn(planned.name),
        },
      })
      // Otherwise another node was first, or an Instance of that name is being deleted. Its change
      // starts a reconcile.
      if (outcome === 'created')
        log.info({ instance: planned.name, device: planned.device.id }, 'instance created')
      return 0
    }

    if (!needsWrite(planned, node)) return 0
    const place = planned.existing.spec.nodes.indexOf(node)
    if (place < 0) {
      const claims = ledger.claimsIn(planned.name)
      if ((await cluster.joinInstance(planned.key, node, claims)) === 'joined')
        log.info({ instance: planned.name }, 'instance joined')
    } else if (place === 0) {
      // Only the first node writes: two nodes that see a device differently would overwrite each
      // other for ever.
      await cluster.updateInstance(planned.key, {
        capacity: planned.capacity,
        brokerProperties: planned.properties,
      })
      log.info({ instance: planned.name }, 'instance updated')
    } else {
      const wait = this.#waitForFirstNode(planned)
      if (wait > 0) return wait
      await this.#updateForFirstNode(configuration, planned)
    }
    return 0
  }

  /**
   * How long the nodes before this node have to write a new capacity, in milliseconds; 0 after that
   * time, and where this node writes first.
   */
  #waitForFirstNode({ name, capacity, existing }: PlannedInstance): number {
    const { node, clock } = this.#options
    const place = existing?.spec.nodes.indexOf(node) ?? 0
    if (place <= 0) return 0
    const before = this.#behind.get(name)
    const since = before?.capacity === capacity ? before.since : clock.monotonicMs()
    this.#behind.set(name, { capacity, since })
    return Math.max(0, since + place * FIRST_NODE_MS - clock.monotonicMs())
  }

  /**
   * Writes the capacity in place of the first node, whose agent may be down: the capacity is the
   * same on all nodes.
   */
  async #updateForFirstNode(
    configuration: Configuration,
    { name, key, capacity }: PlannedInstance,
  ): Promise<void> {
    const { cluster, log } = this.#options
    // The cache of this node may be behind an edit.
    const now = await cluster.readConfiguration(keyOf(configuration))
    if (now?.metadata.uid !== configuration.metadata.uid || now.spec.capacity !== capacity) return
    await cluster.updateInstance(key, { capacity })
    log.info({ instance: name, capacity }, 'instance updated for its first node')
  }

  /**
   * Leaves the Instances of a Configuration that is not accepted: it may have been served before
   * the rules of names changed. The garbage collector deletes those of a deleted Configuration.
   */
  async #leaveRefused(key: ObjectKey): Promise<void> {
    const { cluster, node } = this.#options
    const refused = cluster.configurations.get(key)
    if (refused === undefined || refused.metadata.deletionTimestamp !== undefined) return
    const joined = cluster.instances
      .list()
      .filter((instance) => isOwnedBy(instance, refused) && instance.spec.nodes.includes(node))
    throwFirst(
      await inParallel(
        joined,
        (instance) => this.#leave(instance),
        () => isUnchanged(cluster.configurations.get(key), refused),
      ),
    )
  }

  async #leave(instance: Instance): Promise<void> {
    const outcome = await this.#options.cluster.leaveInstance(keyOf(instance), this.#options.node)
    this.#options.log.info({ instance: instance.metadata.name, outcome }, 'instance left')
  }

  async #withdrawAllBut(configuration: ObjectKey, kept: ReadonlySet<InstanceName>): Promise<void> {
    const served = this.#served.get(configuration)
    if (served === undefined) return
    const withdrawn = [...served].filter((name) => !kept.has(name))
    throwFirst(
      await inParallel(withdrawn, async (name) => {
        await this.#options.plugins.withdraw(name)
        served.delete(name)
        this.#behind.delete(name)
      }),
    )
    if (served.size === 0) this.#served.delete(configuration)
  }

  #servedBy(configuration: ObjectKey): Set<InstanceName> {
    const served = this.#served.get(configuration) ?? new Set()
    this.#served.set(configuration, served)
    return served
  }

  #reportCollisions(configuration: Configuration, collisions: readonly DigestCollision[]): void {
    const key = keyOf(configuration)
    const reported = new Set(this.collisions(key).map(({ refused }) => refused))
    for (const { digest, kept, refused } of collisions) {
      if (reported.has(refused)) continue
      this.#options.cluster.recordEvent({
        regarding: { kind: 'Configuration', key },
        type: 'Warning',
        reason: 'DigestCollision',
        message:
          `devices ${JSON.stringify(kept)} and ${JSON.stringify(refused)} have the same ` +
          `digest ${digest}; the second gets no Instance`,
      })
    }
    this.#collisions.set(key, collisions)
  }
}

function isUnchanged(now: Configuration | undefined, before: Configuration): boolean {
  return (
    now !== undefined &&
    now.metadata.uid === before.metadata.uid &&
    now.metadata.generation === before.metadata.generation &&
    now.metadata.deletionTimestamp === undefined
  )
}

/**
 * Works on all items, a few at a time, until `goesOn` returns false. A failure does not stop the
 * others.
 * @returns the failures
 */
async function inParallel<T>(
  items: readonly T[],
  work: (item: T) => Promise<void>,
  goesOn: () => boolean = () => true,
): Promise<unknown[]> {
  const queue = items.values()
  const failures: unknown[] = []
  const worker = async () => {
    for (const item of queue) {
      if (!goesOn()) return
      await work(item).catch((error: unknown) => failures.push(error))
    }
  }
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, worker))
  return failures
}

function throwFirst(failures: readonly unknown[]): void {
  if (failures.length > 0) throw failures[0]
}
