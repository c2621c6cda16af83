import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { type Clock, chainOf, codeOf, errorText } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { NodePods } from '../kubelet/kubelet.js'
import { NODE_PROBLEMS, type NodeProblem } from './observer.js'

interface NodeProblemsOptions {
  readonly node: NodeName
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** The Pod of the agent. @default there are no Events */
  readonly pod: ObjectKey | undefined
  /** Without the uid of the Pod, `kubectl describe` does not show the Event. */
  readonly pods: Pick<NodePods, 'uidOf'>
  readonly cluster: Pick<Cluster, 'recordEvent'>
}

/** The least time between two Events of one kind, in milliseconds. */
const PAUSE_MS = 10 * 60_000

/**
 * Records problems of the node, and not of a device, as Events of the agent's Pod. The first
 * failure of a kind gives an Event at once. Later failures are counted, and the next failure after
 * some minutes gives an Event for all of them.
 */
export class NodeProblems {
  readonly #options: NodeProblemsOptions
  /** The failures of each kind since its last Event, and when the next Event may come. */
  readonly #failures = new Map<NodeProblem, { count: number; text: string; notBefore: number }>()
  /** The API server does not answer: an Event would be lost. */
  #isApiAway = false

  constructor(options: NodeProblemsOptions) {
    this.#options = options
  }

  add(problem: NodeProblem, error: unknown): void {
    const { count = 0, notBefore = 0 } = this.#failures.get(problem) ?? {}
    this.#failures.set(problem, { count: count + 1, text: errorText(error), notBefore })
    this.#record()
  }

  /** The API server did not answer, or is busy. Events wait for {@link apiAnswers}. */
  apiFails(): void {
    this.#isApiAway = true
  }

  apiAnswers(): void {
    if (!this.#isApiAway) return
    this.#isApiAway = false
    this.#record()
  }

  #record(): void {
    const { node, clock, pod, pods, cluster } = this.#options
    if (pod === undefined || this.#isApiAway) return
    const now = clock.monotonicMs()
    for (const [problem, { count, text, notBefore }] of this.#failures) {
      if (count === 0 || now < notBefore) continue
      this.#failures.set(problem, { count: 0, text: '', notBefore: now + PAUSE_MS })
      const times = count === 1 ? '' : ` (${count} times)`
      cluster.recordEvent({
        regarding: { apiVersion: 'v1', kind: 'Pod', key: pod, uid: pods.uidOf(pod) },
        type: 'Warning',
        reason: problem,
        message: `node ${node}: ${NODE_PROBLEMS[problem]}${times}: ${text}`,
      })
    }
  }
}

/** The problem that an error shows: a full disk explains a failure better than its place. */
export function problemOf(error: unknown, otherwise: NodeProblem): NodeProblem {
  const codes = chainOf(error).map(codeOf)
  return codes.includes('ENOSPC') || codes.includes('EDQUOT') ? 'DiskFull' : otherwise
}
