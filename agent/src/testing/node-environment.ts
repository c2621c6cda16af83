import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { MemoryCluster } from './memory-cluster.js'

/** The environment of an agent, for tests: a cluster, and a kubelet with its Pods and sockets. */
export class NodeEnvironment {
  /** For the sockets of handlers, and for the checkpoint. */
  readonly directory: string
  readonly cluster: MemoryCluster
  readonly kubelet: SimulatedKubelet
  readonly sockets: KubeletSockets

  private constructor(directory: string, cluster: MemoryCluster, kubelet: SimulatedKubelet) {
    const { pluginDirectory, podResourcesSocket, nodePods: pods } = kubelet
    this.directory = directory
    this.cluster = cluster
    this.kubelet = kubelet
    this.sockets = new KubeletSockets({
      pluginDirectory,
      podResourcesSocket,
      pods,
      clock: systemClock,
      log: silentLogger,
    })
  }

  static async open(): Promise<NodeEnvironment> {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
    const opened = new NodeEnvironment(
      directory,
      new MemoryCluster(),
      await SimulatedKubelet.start({ directory: path.join(directory, 'k') }),
    )
    await opened.sockets.open()
    return opened
  }

  async close(): Promise<void> {
    await this.sockets.close()
    await this.kubelet.close()
    await rm(this.directory, { recursive: true, force: true })
  }
}
