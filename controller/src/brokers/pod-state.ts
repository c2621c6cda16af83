import { objectMessage } from '@akrijs/runtime'
import type { Pod } from '../kubernetes-objects.js'
import type { BrokerProblem } from './broker-problem.js'

/**
 * The reasons of a kubelet that does not admit a Pod: a device plugin, or the node, has no room.
 */
const REFUSED = /^(UnexpectedAdmissionError|OutOf.*)$/

/**
 * How long a new broker is ready before it counts as working, in milliseconds: a broker that
 * crashes again and again is ready for moments.
 */
const STEADY_MS = 5000

/** When a Pod that is ready counts as working, by `monotonicMs`; undefined if it is not ready. */
export function steadyAt({ ready, readySince }: Pod): number | undefined {
  return ready ? readySince + STEADY_MS : undefined
}

export function works(pod: Pod, now: number): boolean {
  return (steadyAt(pod) ?? Infinity) <= now
}

export function isEnded({ phase }: Pod): boolean {
  return phase === 'Succeeded' || phase === 'Failed'
}

/** Whether the kubelet did not admit the Pod. */
export function isRefused({ phase, reason }: Pod): boolean {
  return phase === 'Failed' && REFUSED.test(reason)
}

/** How long a kubelet may take to start the first container of a Pod, in milliseconds. */
const FIRST_CONTAINER_MS = 30_000

/**
 * When a Pod whose first container has not started is slow, by `monotonicMs`; undefined for any
 * other Pod. No status says that the kubelet still pulls an image.
 */
export function slowAt({ phase, startedAt, hasRun, problem }: Pod): number | undefined {
  const isStarting = phase === 'Pending' && !hasRun && problem === undefined
  return isStarting && startedAt !== undefined ? startedAt + FIRST_CONTAINER_MS : undefined
}

/** The problem of a Pod, also one that only its slow start shows. */
export function problemAt(pod: Pod, now: number): BrokerProblem | undefined {
  if ((slowAt(pod) ?? Infinity) > now) return pod.problem
  const { namespace, name } = pod.metadata
  const message =
    `Pod ${name}: no container has started for 30 s; its image may still be pulled, or a volume ` +
    `is missing: kubectl -n ${namespace} describe pod ${name}`
  return { reason: 'ContainerNotCreated', message: objectMessage(message) }
}
