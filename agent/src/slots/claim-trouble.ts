import { GROUP, keyOf, type NodeName } from '@akrijs/kube'
import { type Logger, messageOf } from '@akrijs/sdk'
import type { AgentObserver } from '../observer.js'
import type { Cluster } from '../ports/cluster.js'
import type { GivenSlot } from './given-slots.js'
import type { ClaimObstacle, LostClaim } from './lost-claims.js'

export interface ClaimTroubleOptions {
  readonly cluster: Pick<Cluster, 'configurations' | 'recordEvent'>
  readonly node: NodeName
  readonly log: Logger
  readonly observer: AgentObserver
}

/** An id that a container has, of which nobody knows which slot it stands for. */
export type UnknownId = Pick<GivenSlot, 'resourceName' | 'id'>

/** Says why claims of running containers cannot be written again: each once, for as long as it is so at every look. */
export class ClaimTrouble {
  readonly #options: ClaimTroubleOptions
  #before: ReadonlySet<string> = new Set()
  #now = new Set<string>()

  constructor(options: ClaimTroubleOptions) {
    this.#options = options
  }

  /** A look is over: what has not been said again is no more. */
  endOfLook(): void {
    this.#before = this.#now
    this.#now = new Set()
  }

  unknown({ resourceName, id }: UnknownId): void {
    const { cluster, node, log, observer } = this.#options
    const configuration = cluster.configurations.list().find(({ metadata }) => `${GROUP}/${metadata.name}` === resourceName)
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

  obstacle({ given: { slot, id }, key, usage }: LostClaim, obstacle: ClaimObstacle): void {
    const { cluster, node, log, observer } = this.#options
    const by = obstacle.reason === 'taken' ? obstacle.by : undefined
    if (!this.#isNew(`${slot} ${id} ${by}`)) return
    observer.restored(obstacle.reason)
    log.error({ slot, usage, by }, 'a container has this slot, and it cannot be claimed again')
    const why = by === undefined ? 'the capacity leaves no room to say so' : `it is given to ${by} as well`
    cluster.recordEvent({
      regarding: { kind: 'Instance', key },
      type: 'Warning',
      reason: by === undefined ? 'SlotBeyondCapacity' : 'SlotUsedTwice',
      message: `a container of ${node} has slot ${slot}, and ${why}`,
    })
  }

  failed({ given: { slot, id } }: LostClaim, error: unknown): void {
    if (this.#isNew(`${slot} ${id} failed`))
      this.#options.log.warn({ slot, error: messageOf(error) }, 'slot cannot be claimed again now')
  }

  #isNew(topic: string): boolean {
    const isNew = !this.#before.has(topic) && !this.#now.has(topic)
    this.#now.add(topic)
    return isNew
  }
}
