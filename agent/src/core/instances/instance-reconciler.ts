import type { Configuration, Instance, InstanceName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { ReconcileResult } from '@akrijs/kube/queue'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Cluster, ObjectCache } from '../../ports/cluster.js'
import type { DeviceSet } from '../discovery/device-set.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { cdiName } from './instance-name.js'
import {
  DEVICE_ID_ANNOTATION,
  type DigestCollision,
  type PlannedInstance,
  planInstances,
} from './instance-plan.js'
import type { InstancePlugins } from './served-instance.js'

/** How many Instances of one Configuration are brought about at the same time. */
const CONCURRENCY = 16
/** How long each node of an Instance leaves a new capacity to the one before it, in milliseconds. */
const STAND_IN_MS = 5000

export interface InstanceReconcilerOptions {
  readonly cluster: Cluster
  /** Those that are in force. */
  readonly configurations: ObjectCache<Configuration>
  readonly plugins: InstancePlugins
  /** What containers have of an Instance that is made anew. */
  readonly ledger: Pick<AllocationLedger, 'claimsIn'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
  deviceSet(configuration: ObjectKey): DeviceSet
}

/** Makes the Instances and the device plugins of this node follow what is discovered. */
export class InstanceReconciler {
  readonly #options: InstanceReconcilerOptions
  /** The plugins that run, by Configuration. */
  readonly #served = new Map<ObjectKey, Set<InstanceName>>()
  readonly #collisions = new Map<ObjectKey, readonly DigestCollision[]>()
  /** Since when an Instance has not had the capacity that it is to have. */
  readonly #behind = new Map<InstanceName, { readonly capacity: number; readonly since: number }>()

  constructor(options: InstanceReconcilerOptions) {
    this.#options = options
  }

  /** Devices of this Configuration that got no Instance, because another one has the same digest. */
  collisions(configuration: ObjectKey): readonly DigestCollision[] {
    return this.#collisions.get(configuration) ?? []
  }

  async reconcile(key: ObjectKey): Promise<ReconcileResult> {
    const { cluster, configurations, plugins, deviceSet, node } = this.#options
    const configuration = configurations.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined) {
      // Its Instances go with it: they are owned by it.
      await plugins.withdrawConfiguration(key)
      await this.#withdrawAllBut(key, new Set())
      this.#collisions.delete(key)
      return {}
    }
    // With or without devices: a Pod may ask for the resource before there is one.
    await plugins.serveConfiguration({ key, name: configuration.metadata.name })
    const plan = planInstances({
      configuration,
      node,
      devices: deviceSet(key),
      instances: cluster.instances.list(),
    })
    this.#reportCollisions(configuration, plan.collisions)
    await this.#withdrawAllBut(key, new Set(plan.served.map(({ name }) => name)))
    await inParallel(plan.leave, (instance) => this.#leave(instance))
    const waits: number[] = []
    await inParallel(plan.served, async (planned) => {
      const wait = await this.#bringAbout(configuration, planned)
      if (wait !== undefined) waits.push(wait)
    })
    return waits.length === 0 ? {} : { requeueAfterMs: Math.min(...waits) }
  }

  /** @returns how long to wait until this is called again, in milliseconds, if nothing happens before */
  async #bringAbout(
    configuration: Configuration,
    planned: PlannedInstance,
  ): Promise<number | undefined> {
    const { cluster, plugins, ledger, node, log } = this.#options
    const { namespace, name } = configuration.metadata
    this.#servedBy(keyOf(configuration)).add(planned.name)
    // The plugin comes first, so that nobody sees an Instance that cannot be asked for yet.
    await plugins.serve(planned)

    if (planned.existing === undefined) {
      const outcome = await cluster.createInstance({
        name: planned.name,
        namespace,
        annotations: { [DEVICE_ID_ANNOTATION]: planned.device.id },
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
      // Another node was first, or an Instance of the same name is on its way out: its change calls us again.
      if (outcome === 'created')
        log.info({ instance: planned.name, device: planned.device.id }, 'instance created')
      return undefined
    }

    if (planned.existing.metadata.deletionTimestamp !== undefined) return undefined
    const place = planned.existing.spec.nodes.indexOf(node)
    if (place > 0) return this.#standIn(configuration, planned, planned.existing, place)
    if (place < 0) {
      const claims = ledger.claimsIn(planned.name)
      if ((await cluster.joinInstance(planned.key, node, claims)) === 'joined')
        log.info({ instance: planned.name }, 'instance joined')
    } else if (differs(planned.existing, planned)) {
      // One writer: the first of the nodes. Two that see a device differently would write in turns for ever.
      await cluster.updateInstance(planned.key, {
        capacity: planned.capacity,
        brokerProperties: planned.properties,
      })
      log.info({ instance: planned.name }, 'instance updated')
    }
    return undefined
  }

  /**
   * The capacity is the same for all nodes: where the first one does not write it, since it has no agent at present, the next one
   * does.
   */
  async #standIn(
    configuration: Configuration,
    { name, key, capacity }: PlannedInstance,
    existing: Instance,
    place: number,
  ): Promise<number | undefined> {
    const { cluster, clock, log } = this.#options
    if (existing.spec.capacity === capacity) {
      this.#behind.delete(name)
      return undefined
    }
    const known = this.#behind.get(name)
    const since = known?.capacity === capacity ? known.since : clock.monotonicMs()
    this.#behind.set(name, { capacity, since })
    const wait = since + place * STAND_IN_MS - clock.monotonicMs()
    if (wait > 0) return wait
    // It may be this node that has not heard of an edit yet.
    const now = await cluster.readConfiguration(keyOf(configuration))
    if (now?.metadata.uid !== configuration.metadata.uid || now.spec.capacity !== capacity)
      return undefined
    await cluster.updateInstance(key, { capacity })
    log.info({ instance: name, capacity }, 'instance updated, since its first node has not done so')
    return undefined
  }

  async #leave(instance: Instance): Promise<void> {
    const outcome = await this.#options.cluster.leaveInstance(keyOf(instance), this.#options.node)
    this.#options.log.info({ instance: instance.metadata.name, outcome }, 'instance left')
  }

  async #withdrawAllBut(
    configuration: ObjectKey,
    wanted: ReadonlySet<InstanceName>,
  ): Promise<void> {
    const served = this.#served.get(configuration)
    if (served === undefined) return
    await inParallel(
      [...served].filter((name) => !wanted.has(name)),
      async (name) => {
        await this.#options.plugins.withdraw(name)
        served.delete(name)
        this.#behind.delete(name)
      },
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
    const known = new Set(this.collisions(key).map(({ refused }) => refused))
    for (const { digest, kept, refused } of collisions) {
      if (known.has(refused)) continue
      this.#options.cluster.recordEvent({
        regarding: { kind: 'Configuration', key },
        type: 'Warning',
        reason: 'DigestCollision',
        message: `devices ${JSON.stringify(kept)} and ${JSON.stringify(refused)} have the same digest ${digest}; the second gets no Instance`,
      })
    }
    this.#collisions.set(key, collisions)
  }
}

function differs(instance: Instance, planned: PlannedInstance): boolean {
  if (instance.spec.capacity !== planned.capacity) return true
  const there = instance.spec.brokerProperties
  const wanted = Object.entries(planned.properties)
  return (
    Object.keys(there).length !== wanted.length ||
    wanted.some(([name, value]) => there[name] !== value)
  )
}

/** All of them, a few at a time; one that fails does not keep the others, and the first failure is thrown at the end. */
async function inParallel<T>(items: readonly T[], work: (item: T) => Promise<void>): Promise<void> {
  const queue = items.values()
  const failures: unknown[] = []
  const worker = async () => {
    for (const item of queue) await work(item).catch((error: unknown) => failures.push(error))
  }
  await Promise.all(Array.from({ length: Math.min(CONCURRENCY, items.length) }, worker))
  if (failures.length > 0) throw failures[0]
}
