import type { Configuration, InstanceName } from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube/objects'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { deviceIdAnnotation } from './existing-instances.js'
import { cdiName } from './instance-name.js'
import type { InstancePlan, LeftInstance, PlannedInstance } from './instance-plan.js'
import { needsWrite } from './instance-work.js'

/**
 * How long each node of an Instance waits for the node before it to write a new capacity, in
 * milliseconds.
 */
const FIRST_NODE_MS = 5000
/** When a node looks again that has asked to join or to leave an Instance, in milliseconds. */
const ASKED_MS = 5000

export interface InstanceWritesOptions {
  readonly cluster: Cluster
  /** The claims of running containers in a recreated Instance. */
  readonly ledger: Pick<AllocationLedger, 'claimsIn' | 'longInstances'>
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
}

/** Creates, joins, updates and leaves Instances of one Configuration, as the plan says. */
export class InstanceWrites {
  readonly #options: InstanceWritesOptions
  /** Instances without the capacity of their Configuration, and since when. */
  readonly #behind = new Map<InstanceName, { readonly capacity: number; readonly since: number }>()

  constructor(options: InstanceWritesOptions) {
    this.#options = options
  }

  /**
   * Makes the Instance follow the plan.
   * @returns the time until the next reconcile, in milliseconds; 0 if an event comes first
   */
  async write(configuration: Configuration, planned: PlannedInstance): Promise<number> {
    const { cluster, ledger, node, log } = this.#options
    if (planned.existing === undefined) {
      await this.#create(configuration, planned)
      return 0
    }
    const place = planned.existing.spec.nodes.indexOf(node)
    if (place >= 0) cluster.stayInInstance(planned.key)
    if (!needsWrite(planned, node)) return 0
    if (place < 0) {
      const claims = ledger.claimsIn(planned.name)
      const outcome = await cluster.joinInstance(planned.key, node, claims)
      if (outcome === 'joined') log.info({ instance: planned.name }, 'instance joined')
      if (outcome === 'asked') return ASKED_MS
    } else if (place === 0) {
      // Only the first node writes: two nodes that see a device differently would overwrite each
      // other for ever.
      const outcome = await cluster.updateInstance(planned.key, {
        capacity: planned.capacity,
        brokerProperties: planned.properties,
      })
      if (outcome === 'updated') log.info({ instance: planned.name }, 'instance updated')
    } else {
      const wait = this.waitForFirstNode(planned)
      if (wait > 0) return wait
      await this.#updateForFirstNode(configuration, planned)
    }
    return 0
  }

  /**
   * How long the nodes before this node have to write a new capacity, in milliseconds; 0 after that
   * time, and where this node writes first.
   */
  waitForFirstNode({ name, capacity, existing }: PlannedInstance): number {
    const { node, clock } = this.#options
    const place = existing?.spec.nodes.indexOf(node) ?? 0
    if (place <= 0) return 0
    const before = this.#behind.get(name)
    const since = before?.capacity === capacity ? before.since : clock.monotonicMs()
    this.#behind.set(name, { capacity, since })
    return Math.max(0, since + place * FIRST_NODE_MS - clock.monotonicMs())
  }

  /** Forgets the Instances that have their capacity, or are not served. */
  follow({ served }: Pick<InstancePlan, 'served'>): void {
    for (const name of this.#behind.keys()) {
      const planned = served.get(name)
      if (planned?.existing?.spec.capacity === planned?.capacity) this.#behind.delete(name)
    }
  }

  /** @returns when to look again, in milliseconds; 0 if an event comes first */
  async leave({ instance, device }: LeftInstance): Promise<number> {
    const { cluster, ledger, node, log } = this.#options
    const { name } = instance.metadata
    // A container may have started since the plan. The change of the Instance makes another plan.
    if (device === 'renamed' && Object.keys(ledger.claimsIn(name)).length > 0) return 0
    const outcome = await cluster.leaveInstance(keyOf(instance), node)
    if (outcome === 'asked') return ASKED_MS
    log.info({ instance: name, outcome }, 'instance left')
    return 0
  }

  async #create(configuration: Configuration, planned: PlannedInstance): Promise<void> {
    const { cluster, ledger, node, log } = this.#options
    const { namespace, name } = configuration.metadata
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
    if ((await cluster.updateInstance(key, { capacity })) === 'updated')
      log.info({ instance: name, capacity }, 'instance updated for its first node')
  }
}
