import { CONFIGURATIONS, type ConfigurationManifest } from '@akrijs/api'
import { type ApiClient, type NodeName, objectKey, Resource } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { KubernetesCluster } from '../../agent/src/cluster/kubernetes-cluster.js'
import { clusterContract } from '../../agent/src/ports/cluster.contract.js'
import type { ClusterUnderTest } from '../../agent/src/ports/tested-cluster.contract.js'
import { clientOfCluster } from './support/client.js'
import { describeOnCluster } from './support/cluster.js'

describeOnCluster('the cluster of an API server', () => {
  clusterContract('Kubernetes', async (): Promise<ClusterUnderTest> => {
    const client: ApiClient = await clientOfCluster()
    const api = new Resource(client, CONFIGURATIONS)
    const applied = new Set<string>()
    const open = () => {
      const cluster = new KubernetesCluster({
        client,
        clock: systemClock,
        log: silentLogger,
        node: 'node-a' as NodeName,
      })
      cluster.start()
      return cluster
    }
    let cluster = open()
    return {
      cluster,
      async applyConfiguration({ name, namespace, spec }: ConfigurationManifest) {
        applied.add(objectKey(namespace, name))
        const object = {
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name, namespace },
          spec,
        }
        await api.apply(objectKey(namespace, name), object, 'contract')
      },
      async removeConfiguration({ name, namespace }) {
        await api.delete(objectKey(namespace, name), undefined, { propagationPolicy: 'Background' })
      },
      async restart() {
        await cluster.close()
        cluster = open()
        return cluster
      },
      async dispose() {
        await cluster.close()
        for (const key of applied) await api.delete(key as ReturnType<typeof objectKey>)
        client.close()
      },
    }
  })
})
