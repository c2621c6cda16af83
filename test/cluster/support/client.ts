import { ApiClient, type ApiClientOptions, type ClusterAccess } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { systemClock } from '@akrijs/runtime'

// Access to the cluster for tests, also outside vitest.

const { KUBECONFIG, AKRI_TEST_CLUSTER } = process.env

/**
 * Settings that are missing for tests that write to a cluster. The KUBECONFIG of a developer may
 * name a cluster in use.
 */
export const missingSettings: readonly string[] = [
  ...(KUBECONFIG ? [] : ['set KUBECONFIG']),
  ...(AKRI_TEST_CLUSTER === '1' ? [] : ['set AKRI_TEST_CLUSTER=1 to allow tests to write to it']),
]

export function accessOfCluster(): Promise<ClusterAccess> {
  return clusterAccess({ kubeconfig: process.env.KUBECONFIG })
}

/** A new client, which the caller closes. */
export async function clientOfCluster(
  access?: ClusterAccess,
  options: Pick<
    Partial<ApiClientOptions>,
    'onAnswer' | 'onWarning' | 'timeoutMs' | 'maxBytes'
  > = {},
): Promise<ApiClient> {
  return new ApiClient({
    access: access ?? (await accessOfCluster()),
    clock: systemClock,
    userAgent: 'akri-tests',
    onWarning: () => undefined,
    ...options,
  })
}

/** The minor version of the API server, such as 36. */
export async function minorVersion(client: ApiClient): Promise<number> {
  const { minor } = (await client.request({ method: 'GET', path: '/version' })) as { minor: string }
  return Number.parseInt(minor, 10)
}

/** Whether the API server of the cluster has at least this minor version. */
export async function isClusterSince(minor: number): Promise<boolean> {
  const client = await clientOfCluster()
  try {
    return (await minorVersion(client)) >= minor
  } finally {
    client.close()
  }
}
