import { CONFIGURATIONS, NODE_REPORTS, parseNodeReport } from '@akrijs/api'
import {
  type ApiClient,
  NODES,
  type NodeName,
  type ObjectKey,
  objectKey,
  Resource,
} from '@akrijs/kube'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { KubernetesCluster } from '../cluster/kubernetes-cluster.js'
import type { ClusterUnderTest } from '../cluster/tested-cluster.contract.js'

/**
 * The Kubernetes adapter for the contract of a cluster. Its `dispose` deletes the Configurations
 * and the Node, not the client.
 */
export async function kubernetesClusterUnderTest(client: ApiClient): Promise<ClusterUnderTest> {
  const nodes = new Resource(client, NODES)
  const node = objectKey('', 'node-a')
  if ((await nodes.get(node)) === undefined)
    await nodes.create('', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'node-a' } })
  const api = new Resource(client, CONFIGURATIONS)
  const reports = new Resource(client, NODE_REPORTS)
  const report = objectKey('', 'node-a')
  const applied = new Set<ObjectKey>()
  const cluster = new KubernetesCluster({
    client,
    clock: systemClock,
    log: silentLogger,
    node: 'node-a' as NodeName,
  })
  cluster.start()
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
    async reportedStatus(configuration) {
      const stored = parseNodeReport(await reports.get(report))?.configurations[configuration]
      if (stored === undefined) return undefined
      const { uid: _uid, ...status } = stored
      return status
    },
    async dispose() {
      await cluster.close()
      for (const key of applied) await api.delete(key)
      await reports.delete(report)
      await nodes.delete(node)
    },
  }
}
