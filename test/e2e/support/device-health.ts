import { clientOfCluster } from '../../cluster/support/client.js'
import { missing, NODE_1 } from './nodes.js'

/** The reason why the kubelet shows no health of devices; undefined if it does. */
export async function missingForHealth(): Promise<string | undefined> {
  const lacks = missing()
  if (lacks !== undefined) return lacks
  const client = await clientOfCluster()
  try {
    const request = { method: 'GET' as const, path: `/api/v1/nodes/${NODE_1}/proxy/metrics` }
    for await (const line of client.lines(request, AbortSignal.timeout(60_000)))
      if (/^kubernetes_feature_enabled\{name="ResourceHealthStatus",.*\} 1$/.test(line))
        return undefined
    return 'needs a kubelet with the feature ResourceHealthStatus'
  } finally {
    client.close()
  }
}
