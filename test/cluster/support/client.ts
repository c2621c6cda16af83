import { ApiClient, type ApiClientOptions, type ClusterAccess } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { systemClock } from '@akrijs/runtime'

// Access to the cluster for tests, also outside vitest.

export function accessOfCluster(): Promise<ClusterAccess> {
  return clusterAccess({ kubeconfig: process.env.KUBECONFIG })
}

/** A new client, which the caller closes. */
export async function clientOfCluster(
  access?: ClusterAccess,
  options: Pick<ApiClientOptions, 'onAnswer' | 'timeoutMs'> = {},
): Promise<ApiClient> {
  return new ApiClient({
    access: access ?? (await accessOfCluster()),
    clock: systemClock,
    userAgent: 'akri-tests',
    ...options,
  })
}
