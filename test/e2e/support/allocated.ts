import { PodResources } from '../../../agent/src/node/kubelet/pod-resources.js'

/** What a container has been given by a kubelet. */
export interface Allocated {
  readonly resource: string
  /** `NAMESPACE/NAME` */
  readonly pod: string
  readonly ids: readonly string[]
}

/** What the kubelet behind a socket of `podresources` has given of our resources. */
export async function listAllocated(socket: string): Promise<Allocated[]> {
  const all = await new PodResources(socket).list(AbortSignal.timeout(5000))
  return [...all]
    .filter(([resource]) => resource.startsWith('akri.sh/'))
    .flatMap(([resource, containers]) =>
      containers.map(({ pod, ids }) => ({ resource, pod, ids: [...ids] })),
    )
}
