import type { InstanceName, NodeStatus } from '@akrijs/api'
import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import type { Cluster } from '../cluster/cluster.js'
import type { ProblemsByInstance, ServedDevice } from './device-problems.js'

/** The last Events of a Configuration. */
interface Recorded {
  /** Reason and message by condition. */
  readonly conditions: Map<string, string>
  /** Problems of devices by Instance. */
  devices: ProblemsByInstance
}

/** Records an Event for each new problem of a Configuration or a device, and for its end. */
export class ProblemEvents {
  readonly #cluster: Pick<Cluster, 'recordEvent'>
  readonly #node: NodeName
  readonly #recorded = new Map<ObjectKey, Recorded>()

  constructor(cluster: Pick<Cluster, 'recordEvent'>, node: NodeName) {
    this.#cluster = cluster
    this.#node = node
  }

  followStatus(key: ObjectKey, { conditions }: NodeStatus): void {
    const before = this.#recordedOf(key).conditions
    // A problem of the handler shows in several conditions, by other reasons, and needs one Event.
    const recorded = new Set<string>()
    const regarding = { kind: 'Configuration', key } as const
    for (const { type, status, reason, message } of conditions) {
      const problem = `${reason} ${message}`
      if (status === 'False') {
        if (before.get(type) === problem) continue
        before.set(type, problem)
        if (recorded.has(reason) || recorded.has(message)) continue
        recorded.add(reason).add(message)
        this.#cluster.recordEvent({ regarding, reason, message, type: 'Warning' })
      } else if (status === 'True' && before.delete(type))
        this.#cluster.recordEvent({ regarding, reason, message, type: 'Normal' })
    }
  }

  followDevices(
    configuration: ObjectKey,
    problems: ProblemsByInstance,
    served: Iterable<ServedDevice>,
  ): void {
    const recorded = this.#recordedOf(configuration)
    const before = recorded.devices
    if (problems.size + before.size === 0) return
    const now = new Map<InstanceName, string>()
    for (const { key, name, existing } of served) {
      const [was, is] = [before.get(name), problems.get(name)]
      const regarding = { kind: 'Instance', key } as const
      if (is === undefined) {
        const over = { type: 'Normal', reason: 'DeviceProblemOver' } as const
        if (was !== undefined) this.#cluster.recordEvent({ regarding, ...over, message: was })
        continue
      }
      // All nodes that see the device have its problem: the first of them reports it.
      if (existing?.spec.nodes[0] !== this.#node) continue
      now.set(name, is)
      const begun = { type: 'Warning', reason: 'DeviceProblem' } as const
      if (was !== is) this.#cluster.recordEvent({ regarding, ...begun, message: is })
    }
    recorded.devices = now
  }

  forget(configuration: ObjectKey): void {
    this.#recorded.delete(configuration)
  }

  #recordedOf(configuration: ObjectKey): Recorded {
    const before = this.#recorded.get(configuration)
    const recorded = before ?? { conditions: new Map(), devices: new Map() }
    this.#recorded.set(configuration, recorded)
    return recorded
  }
}
