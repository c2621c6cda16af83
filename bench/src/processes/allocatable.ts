import type { SimulatedKubelet } from '@akrijs/kube/kubelet'

/** The allocatable quantity of each resource. */
export function allocatableOf(kubelet: SimulatedKubelet): Record<string, number> {
  return Object.fromEntries(
    kubelet.resources.map((resource) => [resource, kubelet.resource(resource).allocatable]),
  )
}
