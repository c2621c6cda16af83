import { existingSystemContract } from '../../agent/src/cluster/existing-system.contract.js'
import { describeOnCluster, OwnNamespace } from './support/cluster.js'

describeOnCluster('an agent beside the existing system, on an API server', () => {
  existingSystemContract(async () => {
    const home = await OwnNamespace.make()
    return { client: home.client, namespace: home.name, remove: () => home.remove() }
  })
})
