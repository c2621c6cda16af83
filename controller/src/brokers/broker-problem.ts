import type { Instance } from '@akrijs/api'
import { ApiError, ApiUnreachableError, type NodeName, type ObjectKey } from '@akrijs/kube'
import { kindOf, messageOf, objectMessage } from '@akrijs/runtime'

// Why a broker does not work: in the words of the API server, the scheduler or the kubelet.

/** The reasons that the condition `BrokersReady` can have: the first that applies is shown. */
export const PROBLEM_REASONS = [
  'InternalError',
  'BrokerRefused',
  'QuotaExceeded',
  'BrokerFailed',
  'ImagePullFailed',
  'ContainerNotCreated',
  'CrashLoop',
  'JobFailed',
  'PodFailed',
  'NoUsableNode',
  'Unschedulable',
] as const

/** The reason of a roll-out that goes on: it is no problem. */
export const ROLLING_OUT = 'RollingOut'

export interface BrokerProblem {
  readonly reason: (typeof PROBLEM_REASONS)[number]
  readonly message: string
}

/** Reasons of a kubelet for a container that waits. Others pass by themselves. */
const WAITING: Readonly<Record<string, BrokerProblem['reason']>> = {
  ErrImageNeverPull: 'ImagePullFailed',
  ErrImagePull: 'ImagePullFailed',
  ImageInspectError: 'ImagePullFailed',
  ImagePullBackOff: 'ImagePullFailed',
  InvalidImageName: 'ImagePullFailed',
  RegistryUnavailable: 'ImagePullFailed',
  SignatureValidationFailed: 'ImagePullFailed',
  CreateContainerConfigError: 'ContainerNotCreated',
  CreateContainerError: 'ContainerNotCreated',
  RunContainerError: 'ContainerNotCreated',
  CrashLoopBackOff: 'CrashLoop',
}

interface PodStatus {
  readonly phase: string
  readonly reason: string
  readonly message: string
  readonly conditions?:
    | readonly { readonly type: string; readonly reason: string; readonly message: string }[]
    | undefined
  /** The containers that wait. */
  readonly waiting: readonly { readonly reason: string; readonly message: string }[]
}

/** The problem that the status of a Pod shows. */
export function podProblem(
  name: string,
  { phase, reason, message, conditions = [], waiting }: PodStatus,
): BrokerProblem | undefined {
  const problem = (is: BrokerProblem['reason'], ...texts: readonly string[]) => ({
    reason: is,
    message: objectMessage([`Pod ${name}`, ...texts.filter((text) => text !== '')].join(': ')),
  })
  if (phase === 'Failed') return problem('PodFailed', reason, message)
  for (const container of waiting) {
    const found = Object.hasOwn(WAITING, container.reason) ? WAITING[container.reason] : undefined
    if (found !== undefined) return problem(found, container.reason, container.message)
  }
  const unscheduled = conditions.find(
    (condition) => condition.type === 'PodScheduled' && condition.reason === 'Unschedulable',
  )
  return unscheduled && problem('Unschedulable', unscheduled.message)
}

/**
 * The problem that a failed write of a broker shows; undefined for a failure that says nothing of
 * the broker, and passes by itself.
 */
export function writeProblem(error: unknown): BrokerProblem | undefined {
  if (ApiUnreachableError.is(error)) return undefined
  if (ApiError.is(error)) return isRefusal(error) ? refusal(error.answer) : undefined
  const reason = kindOf(error) === 'bug' ? 'InternalError' : 'BrokerFailed'
  return { reason, message: objectMessage(messageOf(error)) }
}

/** The problem of an Instance none of whose nodes can run a broker, with that of the first node. */
export function noUsableNode(
  { metadata }: Instance,
  { node, obstacle }: { readonly node: NodeName; readonly obstacle: string | undefined },
  nodes: number,
): BrokerProblem {
  const others = nodes === 1 ? '' : `; no other of its ${nodes} nodes either`
  const message = `Instance ${metadata.name}: no broker on ${node}, because ${obstacle}${others}`
  return { reason: 'NoUsableNode', message: objectMessage(message) }
}

/**
 * Whether the API server judges the broker. It may be busy, cannot reach its store, or does not
 * know the token of the controller for a while. The answer of a webhook is a refusal in any case.
 */
export function isRefusal({ status, answer }: ApiError): boolean {
  const isTransient = [401, 409, 429].includes(status) || status >= 500
  return !isTransient || /(failed calling|admission) webhook/.test(answer)
}

/** The API server's refusal of a broker. Only the sentence tells a quota from other admission. */
export function refusal(sentence: string): BrokerProblem {
  const reason = sentence.includes('exceeded quota: ') ? 'QuotaExceeded' : 'BrokerRefused'
  return { reason, message: objectMessage(sentence) }
}

type OwnerKind = 'Instance' | 'Configuration'

/** The failures of the last attempts to bring the brokers of an owner to its spec. */
export class BrokerFailures {
  readonly #problems = new Map<string, BrokerProblem>()

  of(kind: OwnerKind, owner: ObjectKey): BrokerProblem | undefined {
    return this.#problems.get(`${kind} ${owner}`)
  }

  /** Does the work, and keeps its failure until an attempt succeeds. */
  async watch(kind: OwnerKind, owner: ObjectKey, work: () => Promise<void>): Promise<void> {
    const id = `${kind} ${owner}`
    try {
      await work()
      this.#problems.delete(id)
    } catch (error) {
      const problem = writeProblem(error)
      // Without a judgement of the API server the last one stays.
      if (problem !== undefined) this.#problems.set(id, problem)
      throw error
    }
  }
}
