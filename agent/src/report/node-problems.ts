import type { NodeName, ObjectKey } from '@akrijs/kube/objects'
import { type Clock, codeOf, errorText } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { NodeProblem } from './observer.js'

interface NodeProblemsOptions {
  readonly node: NodeName
  readonly clock: Pick<Clock, 'monotonicMs'>
  /** The Pod of the agent. @default there are no Events */
  readonly pod: ObjectKey | undefined
  /** The uid of that Pod: without it `kubectl describe` does not show the Event. */
  uidOf(pod: ObjectKey): string | undefined
  recordEvent: Cluster['recordEvent']
}

/** The least time between two Events of one kind, in milliseconds. */
const PAUSE_MS = 10 * 60_000

const TITLES: Readonly<Record<NodeProblem, string>> = {
  DiskFull: 'a disk of the node is full',
  StateNotWritten: 'the state of the agent was not written',
  RegistrationFailed: 'the kubelet has not registered a device plugin',
  ApiRequestFailed: 'the API server did not do what the agent asked for',
}

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
    const { node, clock, pod, uidOf, recordEvent } = this.#options
    if (pod === undefined || this.#isApiAway) return
    const now = clock.monotonicMs()
    for (const [problem, { count, text, notBefore }] of this.#failures) {
      if (count === 0 || now < notBefore) continue
      this.#failures.set(problem, { count: 0, text: '', notBefore: now + PAUSE_MS })
      const times = count === 1 ? '' : ` (${count} times)`
      recordEvent({
        regarding: { apiVersion: 'v1', kind: 'Pod', key: pod, uid: uidOf(pod) },
        type: 'Warning',
        reason: problem,
        message: `node ${node}: ${TITLES[problem]}${times}: ${text}`,
      })
    }
  }
}

/** The longest chain of causes that is read: an error can be its own cause. */
const MAX_CAUSES = 8

/** The problem that an error shows: a full disk explains a failure better than its place. */
export function problemOf(error: unknown, otherwise: NodeProblem): NodeProblem {
  let link: unknown = error
  for (let depth = 0; link instanceof Error && depth < MAX_CAUSES; depth++) {
    const code = codeOf(link)
    if (code === 'ENOSPC' || code === 'EDQUOT') return 'DiskFull'
    link = link.cause
  }
  return otherwise
}
