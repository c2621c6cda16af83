import type { Allocations } from '../../ports/kubelet.js'

/** Reports which containers of this node have which device ids. */
export interface AllocationSource {
  /** @throws KubeletUnavailableError (transient) */
  list(signal: AbortSignal): Promise<Allocations>
}
