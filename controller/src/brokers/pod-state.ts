import type { Pod } from '../kubernetes-objects.js'

/**
 * The reasons of a kubelet that does not admit a Pod: a device plugin, or the node, has no room.
 */
const REFUSED = /^(UnexpectedAdmissionError|OutOf.*)$/

export function isEnded({ phase }: Pod): boolean {
  return phase === 'Succeeded' || phase === 'Failed'
}

/** Whether the kubelet did not admit the Pod. */
export function isRefused({ phase, reason }: Pod): boolean {
  return phase === 'Failed' && REFUSED.test(reason)
}
