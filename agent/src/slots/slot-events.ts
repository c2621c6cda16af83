import { GROUP } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectEvent, type ObjectKey } from '@akrijs/kube/objects'
import type { Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { NodePods } from '../kubelet/kubelet.js'
import type { AgentObserver } from '../report/observer.js'
import type { UnresolvedId } from './allocation-ledger.js'
import type { LostClaim } from './claim-plan.js'
import type { LostDevice, SlotBook } from './slot-book.js'

export interface SlotEventsOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'recordEvent'>
  readonly kubelet: { readonly pods: Pick<NodePods, 'uidOf'> | undefined }
  readonly book: Pick<SlotBook, 'allocations' | 'isLost'>
  readonly node: NodeName
  readonly log: Logger
  readonly observer: AgentObserver
}

/** Reports what is wrong with slots of running containers, by Events and in the log. */
export class SlotEvents {
  readonly #options: SlotEventsOptions
  #reported: ReadonlySet<string> = new Set()
  /** Lost devices, each with the Pods that have their Event. */
  readonly #lost = new Map<LostDevice, Set<ObjectKey>>()

  constructor(options: SlotEventsOptions) {
    this.#options = options
  }

  /** Reports each of the present conflicts once, until it is not among them. */
  reportConflicts(unresolved: readonly UnresolvedId[], lost: readonly LostClaim[]): void {
    const { node, cluster, log, observer } = this.#options
    const topics = new Set<string>()
    const isNew = (topic: string) => {
      topics.add(topic)
      return !this.#reported.has(topic)
    }
    const configurations = cluster.configurations.list()
    for (const { resourceName, id } of unresolved) {
      const configuration = configurations.find(
        ({ metadata }) => resourceName === `${GROUP}/${metadata.name}`,
      )
      // Without its Configuration, nothing offers the slot to another container.
      if (configuration === undefined || !isNew(`${resourceName} ${id}`)) continue
      observer.restored('unknown')
      log.error({ resource: resourceName, id }, 'slot of a running container is unknown')
      this.#warn(
        { kind: 'Configuration', key: keyOf(configuration) },
        'UnknownSlot',
        `a container of ${node} has ${id} of ${resourceName}, and no record tells its slot: ` +
          'another container may get the same slot',
      )
    }
    for (const { slot, id, key, usage, takenBy } of lost) {
      if (takenBy === '' || !isNew(`${slot} ${id} ${takenBy}`)) continue
      observer.restored('taken')
      log.error({ slot, usage, by: takenBy }, 'slot of a running container was claimed again')
      this.#warn(
        { kind: 'Instance', key },
        'SlotUsedTwice',
        `a container of ${node} has slot ${slot}, which ${takenBy} has claimed too: more ` +
          'containers than the capacity use the device until one of them ends',
      )
    }
    this.#reported = topics
  }

  reportOverCapacity({ slot, key, usage }: LostClaim, held: number, capacity: number): void {
    const { node, log } = this.#options
    log.warn({ slot, usage, held, capacity }, 'slot restored over the capacity')
    this.#warn(
      { kind: 'Instance', key },
      'BeyondCapacity',
      `a container of ${node} has slot ${slot}, and with it ${held} slots are held; the ` +
        `capacity is ${capacity}`,
    )
  }

  lose(device: LostDevice): void {
    this.#lost.set(device, new Set())
  }

  /**
   * Each Pod with a lost device gets an Event. To be called when the ledger has the Pods that the
   * kubelet lists: it lists a Pod whose init containers run only when the other containers start.
   */
  reportLost(): void {
    const { kubelet, book, log, node } = this.#options
    for (const [device, podsWithEvent] of this.#lost) {
      const { id, instance } = device
      if (!book.isLost(instance)) {
        this.#lost.delete(device)
        continue
      }
      const what = id === undefined ? 'the device' : `device ${JSON.stringify(id)}`
      const before = podsWithEvent.size
      for (const { users: pods, resourceName } of book.allocations.inUse(instance))
        for (const key of pods ?? []) {
          if (podsWithEvent.has(key)) continue
          podsWithEvent.add(key)
          this.#warn(
            { apiVersion: 'v1', kind: 'Pod', key, uid: kubelet.pods?.uidOf(key) },
            'DeviceLost',
            `${node} no longer finds ${what} of Instance ${instance}, which ` +
              `the Pod has by ${resourceName}`,
          )
        }
      // Users are Pods, or the brokers of a machine without a cluster.
      const users = podsWithEvent.size - before
      if (users > 0) log.warn({ id, instance, users }, 'device in use lost')
    }
  }

  #warn(regarding: ObjectEvent['regarding'], reason: string, message: string): void {
    this.#options.cluster.recordEvent({ regarding, type: 'Warning', reason, message })
  }
}
