import { GROUP } from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube/objects'
import type { Logger } from '@akrijs/runtime'
import type { Cluster } from '../../ports/cluster.js'
import type { AgentObserver } from '../../ports/observer.js'
import type { SlotAllocation } from './allocation-ledger.js'
import type { LostClaim } from './lost-claims.js'

export interface ClaimReporterOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'recordEvent'>
  readonly node: NodeName
  readonly log: Logger
  readonly observer: AgentObserver
}

/** An id that a container has, of which nobody knows which slot it stands for. */
export type UnresolvedId = Pick<SlotAllocation, 'resourceName' | 'id'>

/** Says what is wrong with claims of running containers: each once, for as long as it is so at every look. */
export class ClaimReporter {
  readonly #options: ClaimReporterOptions
  #before: ReadonlySet<string> = new Set()
  #now = new Set<string>()

  constructor(options: ClaimReporterOptions) {
    this.#options = options
  }

  /** A look is over: what has not been said again is no more. */
  endOfLook(): void {
    this.#before = this.#now
    this.#now = new Set()
  }

  unknown({ resourceName, id }: UnresolvedId): void {
    const { cluster, node, log, observer } = this.#options
    const configuration = cluster.configurations
      .list()
      .find(({ metadata }) => `${GROUP}/${metadata.name}` === resourceName)
    // Without it there is nothing that could be given to another one.
    if (configuration === undefined || !this.#isNew(`${resourceName} ${id}`)) return
    observer.restored('unknown')
    log.error({ resource: resourceName, id }, 'a container has a slot, and nobody knows which')
    cluster.recordEvent({
      regarding: { kind: 'Configuration', key: keyOf(configuration) },
      type: 'Warning',
      reason: 'UnknownSlot',
      message: `a container of ${node} has ${id} of ${resourceName}, and nobody knows which slot that is: it may be given to another one as well`,
    })
  }

  taken({ given: { slot, id }, key, usage }: LostClaim, by: string): void {
    const { cluster, node, log, observer } = this.#options
    if (!this.#isNew(`${slot} ${id} ${by}`)) return
    observer.restored('taken')
    log.error({ slot, usage, by }, 'a container has this slot, and another one has it too')
    cluster.recordEvent({
      regarding: { kind: 'Instance', key },
      type: 'Warning',
      reason: 'SlotUsedTwice',
      message: `a container of ${node} has slot ${slot}, and it is given to ${by} as well: the device is used by more than its capacity until one of them ends`,
    })
  }

  beyond({ given: { slot }, key, usage }: LostClaim, held: number, capacity: number): void {
    const { cluster, node, log } = this.#options
    log.warn(
      { slot, usage, held, capacity },
      'a container has this slot, and with it more are held than the capacity',
    )
    cluster.recordEvent({
      regarding: { kind: 'Instance', key },
      type: 'Warning',
      reason: 'BeyondCapacity',
      message: `a container of ${node} has slot ${slot}, and with it ${held} slots are held; the capacity is ${capacity}`,
    })
  }

  #isNew(topic: string): boolean {
    const isNew = !this.#before.has(topic) && !this.#now.has(topic)
    this.#now.add(topic)
    return isNew
  }
}
