import type { NodeStatus } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { Cluster } from '../../ports/cluster.js'

/** Makes an Event of everything that newly goes wrong with a Configuration on this node, and of its end. */
export class StatusEvents {
  readonly #cluster: Pick<Cluster, 'recordEvent'>
  /** By Configuration and condition: what was said last. */
  readonly #said = new Map<string, string>()

  constructor(cluster: Pick<Cluster, 'recordEvent'>) {
    this.#cluster = cluster
  }

  follow(key: ObjectKey, { conditions }: NodeStatus): void {
    // What is wrong with the handler shows in two conditions, and is one thing.
    const told = new Set<string>()
    for (const { type, status, reason, message } of conditions) {
      const place = `${type} ${key}`
      const before = this.#said.get(place)
      if (status === 'False') {
        if (before === `${reason} ${message}`) continue
        this.#said.set(place, `${reason} ${message}`)
        if (told.has(`${reason} ${message}`)) continue
        told.add(`${reason} ${message}`)
        this.#cluster.recordEvent({
          regarding: { kind: 'Configuration', key },
          type: 'Warning',
          reason,
          message,
        })
      } else if (status === 'True' && before !== undefined) {
        this.#said.delete(place)
        this.#cluster.recordEvent({
          regarding: { kind: 'Configuration', key },
          type: 'Normal',
          reason,
          message,
        })
      }
    }
  }

  forget(key: ObjectKey): void {
    for (const place of [...this.#said.keys()])
      if (place.endsWith(` ${key}`)) this.#said.delete(place)
  }
}
