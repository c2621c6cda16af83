import { clusterContract } from '../../agent/src/cluster/cluster.contract.js'
import { kubernetesClusterUnderTest } from '../../agent/src/testing/kubernetes-under-test.js'
import { clientOfCluster } from './support/client.js'
import { describeOnCluster } from './support/cluster.js'

describeOnCluster('the cluster of an API server', () => {
  clusterContract('Kubernetes', async () => {
    const client = await clientOfCluster()
    const adapter = await kubernetesClusterUnderTest(client)
    return {
      ...adapter,
      async dispose() {
        await adapter.dispose()
        client.close()
      },
    }
  })
})
