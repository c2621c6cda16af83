import { GROUP } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube/objects'
import type { Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { AgentObserver } from '../report/observer.js'
import type { UnresolvedId } from './allocated-slots.js'
import type { ClaimConflict, LostClaim } from './restore-plan.js'

interface ClaimReporterOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'recordEvent'>
  readonly node: NodeName
  readonly log: Logger
  readonly observer: AgentObserver
}

/** Reports each claim conflict of running containers once, until the conflict is resolved. */
export class ClaimReporter {
  readonly #options: ClaimReporterOptions
  #reported: ReadonlySet<string> = new Set()

  constructor(options: ClaimReporterOptions) {
    this.#options = options
  }

  /** Takes all conflicts of the present. A conflict that is not among them is resolved. */
  report(unresolved: readonly UnresolvedId[], conflicts: readonly ClaimConflict[]): void {
    const configurations = new Map(
      this.#options.cluster.configurations
        .list()
        .map((configuration) => [`${GROUP}/${configuration.metadata.name}`, keyOf(configuration)]),
    )
    const reports = new Map<string, () => void>()
    for (const each of unresolved) {
      const key = configurations.get(each.resourceName)
      // Without its Configuration, nothing offers the slot to another container.
      if (key !== undefined)
        reports.set(`${each.resourceName} ${each.id}`, () => this.#reportUnresolved(each, key))
    }
    for (const each of conflicts) {
      const { allocation, takenBy } = each
      reports.set(`${allocation.slot} ${allocation.id} ${takenBy}`, () => this.#reportTaken(each))
    }
    for (const [topic, report] of reports) if (!this.#reported.has(topic)) report()
    this.#reported = new Set(reports.keys())
  }

  reportOverCapacity({ allocation, key, usage }: LostClaim, held: number, capacity: number): void {
    const { cluster, node, log } = this.#options
    const { slot } = allocation
    log.warn({ slot, usage, held, capacity }, 'slot restored over the capacity')
    cluster.recordEvent({
      regarding: { kind: 'Instance', key },
      type: 'Warning',
      reason: 'BeyondCapacity',
      message:
        `a container of ${node} has slot ${slot}, and with it ${held} slots are held; the ` +
        `capacity is ${capacity}`,
    })
  }

  #reportUnresolved({ resourceName, id }: UnresolvedId, configuration: ObjectKey): void {
    const { cluster, node, log, observer } = this.#options
    observer.restored('unknown')
    log.error({ resource: resourceName, id }, 'slot of a running container is unknown')
    cluster.recordEvent({
      regarding: { kind: 'Configuration', key: configuration },
      type: 'Warning',
      reason: 'UnknownSlot',
      message:
        `a container of ${node} has ${id} of ${resourceName}, and no record tells its slot: ` +
        'another container may get the same slot',
    })
  }

  #reportTaken({ allocation: { slot }, key, usage, takenBy }: ClaimConflict): void {
    const { cluster, node, log, observer } = this.#options
    observer.restored('taken')
    log.error({ slot, usage, by: takenBy }, 'slot of a running container was claimed again')
    cluster.recordEvent({
      regarding: { kind: 'Instance', key },
      type: 'Warning',
      reason: 'SlotUsedTwice',
      message:
        `a container of ${node} has slot ${slot}, which ${takenBy} has claimed too: more ` +
        'containers than the capacity use the device until one of them ends',
    })
  }
}
