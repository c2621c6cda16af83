import type { ConfigurationManifest } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { clusterContract } from '../cluster/cluster.contract.js'
import { MemoryCluster } from './memory-cluster.js'

clusterContract('in memory, for tests', async () => {
  const cluster = new MemoryCluster()
  const wanted = new Map<string, ConfigurationManifest>()
  const apply = () => cluster.apply(...wanted.values())
  return {
    cluster,
    reportedStatus: async (key) => cluster.statuses.get(key),
    applyConfiguration(configuration) {
      wanted.set(objectKey(configuration.namespace, configuration.name), configuration)
      return apply()
    },
    removeConfiguration({ namespace, name }) {
      wanted.delete(objectKey(namespace, name))
      return apply()
    },
    dispose: async () => {},
  }
})
