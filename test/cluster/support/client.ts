import { ApiClient, type ApiClientOptions, type ClusterAccess } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { systemClock } from '@akrijs/runtime'

// The way to the cluster for tests, also for what is not run by vitest.

export function accessOfCluster(): Promise<ClusterAccess> {
  return clusterAccess({ kubeconfig: process.env.KUBECONFIG })
}

/** A client of its own for each caller, who closes it. */
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
