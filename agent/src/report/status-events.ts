import type { NodeStatus } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Cluster } from '../cluster/cluster.js'

/** Records an Event for each new problem of a Configuration on this node, and for its end. */
export class StatusEvents {
  readonly #cluster: Pick<Cluster, 'recordEvent'>
  /** Reason and message of the last Event, by Configuration and condition. */
  readonly #last = new Map<string, string>()

  constructor(cluster: Pick<Cluster, 'recordEvent'>) {
    this.#cluster = cluster
  }

  follow(key: ObjectKey, { conditions }: NodeStatus): void {
    // A problem of the handler shows in several conditions, by other reasons, and needs one Event.
    const recorded = new Set<string>()
    for (const { type, status, reason, message } of conditions) {
      const place = `${type} ${key}`
      const before = this.#last.get(place)
      const problem = `${reason} ${message}`
      const event = { regarding: { kind: 'Configuration', key }, reason, message } as const
      if (status === 'False') {
        if (before === problem) continue
        this.#last.set(place, problem)
        if (recorded.has(reason) || recorded.has(message)) continue
        recorded.add(reason).add(message)
        this.#cluster.recordEvent({ ...event, type: 'Warning' })
      } else if (status === 'True' && before !== undefined) {
        this.#last.delete(place)
        this.#cluster.recordEvent({ ...event, type: 'Normal' })
      }
    }
  }

  forget(key: ObjectKey): void {
    for (const place of [...this.#last.keys()])
      if (place.endsWith(` ${key}`)) this.#last.delete(place)
  }
}
