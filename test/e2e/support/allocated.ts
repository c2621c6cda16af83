import { podResources } from '../../../agent/src/kubelet/allocation-sources.js'

/** The allocations of a container. */
export interface Allocated {
  readonly resource: string
  /** `NAMESPACE/NAME` */
  readonly pod: string
  readonly ids: readonly string[]
}

/** Our allocations in the answer of a kubelet's `podresources` socket. */
export async function listAllocated(socket: string): Promise<Allocated[]> {
  const all = await podResources(socket)(AbortSignal.timeout(5000))
  return [...all]
    .filter(([resource]) => resource.startsWith('akri.sh/'))
    .flatMap(([resource, containers]) =>
      containers.map(({ pod, ids }) => ({ resource, pod, ids: [...ids] })),
    )
}
