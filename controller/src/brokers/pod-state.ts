import type { Pod } from '../kubernetes-objects.js'

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
