// What an agent needs beside it: an API server and the kubelet of its node.
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { CONFIGURATIONS } from '@akrijs/api'
import { Resource } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { systemClock } from '@akrijs/runtime'
import { SimulatedKubelet } from '../../../kube/src/simulated-kubelet/simulated-kubelet.js'
import { allocatableOf } from './allocatable.js'
import { serveCommands } from './protocol.js'

const server = new FakeApiServer(systemClock)
let kubelet: SimulatedKubelet | undefined

serveCommands({
  async host({ name, directory, configurations }) {
    const url = await server.listen()
    const client = server.connect(url)
    server.put(`/api/v1/nodes/${name}`, { status: { capacity: {}, allocatable: {} } })
    for (const configuration of configurations)
      await new Resource(client, CONFIGURATIONS).create('default', configuration)
    const kubeconfig = path.join(directory, 'kubeconfig')
    await writeFile(kubeconfig, JSON.stringify(kubeconfigFor(url)))
    const kubeletDirectory = path.join(directory, 'k')
    kubelet = await SimulatedKubelet.start({ directory: kubeletDirectory })
    return { kubeconfig, kubeletDirectory }
  },
  allocatable: async () => ({ '': kubelet === undefined ? {} : allocatableOf(kubelet) }),
  objects: async () => {
    const counts: Record<string, number> = {}
    for (const of of server.objects.keys()) {
      const kind = of.split('/').at(-2) ?? ''
      counts[kind] = (counts[kind] ?? 0) + 1
    }
    return counts
  },
})

function kubeconfigFor(url: URL): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'bench',
    contexts: [{ name: 'bench', context: { cluster: 'bench', user: 'bench' } }],
    clusters: [{ name: 'bench', cluster: { server: url.href, 'insecure-skip-tls-verify': true } }],
    users: [{ name: 'bench', user: {} }],
  }
}
