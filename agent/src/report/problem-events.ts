import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Cluster } from '../cluster/cluster.js'
import type { ProblemsByInstance, ServedDevice } from './device-problems.js'

/**
 * Records an Event of the Instance for each new problem of its device, such as a refused
 * credential, and for its end.
 */
export class ProblemEvents {
  readonly #cluster: Pick<Cluster, 'recordEvent'>
  readonly #node: NodeName
  /** The recorded problems by Instance, for each Configuration with a problem. */
  readonly #recorded = new Map<ObjectKey, ProblemsByInstance>()

  constructor(cluster: Pick<Cluster, 'recordEvent'>, node: NodeName) {
    this.#cluster = cluster
    this.#node = node
  }

  /** @param served only asked if there is or was a problem */
  follow(
    configuration: ObjectKey,
    problems: ProblemsByInstance,
    served: () => Iterable<ServedDevice>,
  ): void {
    const before = this.#recorded.get(configuration)
    if (problems.size === 0 && before === undefined) return
    const now = new Map<ObjectKey, string>()
    for (const { key, existing } of served()) {
      const [was, is] = [before?.get(key), problems.get(key)]
      if (is === undefined) {
        if (was !== undefined) this.#record(key, 'Normal', 'DeviceProblemOver', was)
        continue
      }
      // All nodes that see the device have its problem: the first of them reports it.
      if (existing?.spec.nodes[0] !== this.#node) continue
      now.set(key, is)
      if (was !== is) this.#record(key, 'Warning', 'DeviceProblem', is)
    }
    if (now.size > 0) this.#recorded.set(configuration, now)
    else this.#recorded.delete(configuration)
  }

  forget(configuration: ObjectKey): void {
    this.#recorded.delete(configuration)
  }

  #record(key: ObjectKey, type: 'Normal' | 'Warning', reason: string, message: string): void {
    this.#cluster.recordEvent({ regarding: { kind: 'Instance', key }, type, reason, message })
  }
}
