import { CONFIGURATIONS } from '@akrijs/api'
import { type ApiClient, type NodeName, type ObjectKey, objectKey, Resource } from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { KubernetesCluster } from '../cluster/kubernetes-cluster.js'
import type { ClusterUnderTest } from '../ports/tested-cluster.contract.js'

/**
 * The Kubernetes adapter for the contract of a cluster. Its `dispose` deletes the Configurations,
 * not the client.
 */
export function kubernetesClusterUnderTest(client: ApiClient): ClusterUnderTest {
  const api = new Resource(client, CONFIGURATIONS)
  const applied = new Set<ObjectKey>()
  const open = () => {
    const node = 'node-a' as NodeName
    const cluster = new KubernetesCluster({ client, clock: systemClock, log: silentLogger, node })
    cluster.start()
    return cluster
  }
  let cluster = open()
  return {
    cluster,
    async applyConfiguration({ name, namespace, spec }) {
      const key = objectKey(namespace, name)
      applied.add(key)
      const object = {
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name, namespace },
        spec,
      }
      await api.apply(key, object, 'contract')
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
      for (const key of applied) await api.delete(key)
    },
  }
}
