import type { Allocations } from '../../ports/kubelet.js'

/** Who knows which containers of this node have which ids. */
export interface AllocationSource {
  /** @throws KubeletUnavailableError (transient) */
  list(signal: AbortSignal): Promise<Allocations>
}
