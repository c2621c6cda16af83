import type { Allocations } from './kubelet.js'

/** The size limit of a list, in bytes, as in the kubelet's own clients. */
export const MAX_LIST_BYTES = 16 * 1024 * 1024

/** Reports which containers of this node have which device ids. */
export interface AllocationSource {
  /** @throws KubeletUnavailableError (transient) */
  list(signal: AbortSignal): Promise<Allocations>
}
