import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import type { NodeName } from '@akrijs/kube/objects'
import { type Clock, silentLogger, systemClock } from '@akrijs/runtime'
import { SimulatedKubelet, StandaloneCluster, StateFile } from '@akrijs/standalone'
import { AllocationLedger } from '../core/slots/allocation-ledger.js'
import { KubeletSockets } from '../node/kubelet/kubelet-sockets.js'

/** The environment of device plugins, for tests: a cluster, and a kubelet behind its sockets. */
export class PluginEnvironment {
  readonly directory: string
  readonly cluster: StandaloneCluster
  readonly kubelet: SimulatedKubelet
  readonly sockets: KubeletSockets
  readonly ledger: AllocationLedger

  private constructor(
    directory: string,
    cluster: StandaloneCluster,
    kubelet: SimulatedKubelet,
    node: NodeName,
    clock: Clock,
  ) {
    const { pluginDirectory, podResourcesSocket, nodePods } = kubelet
    this.directory = directory
    this.cluster = cluster
    this.kubelet = kubelet
    this.sockets = new KubeletSockets({
      pluginDirectory,
      podResourcesSocket,
      clock,
      log: silentLogger,
    })
    this.ledger = new AllocationLedger({ node, pods: nodePods })
  }

  /** @param clock of the sockets */
  static async open(node: NodeName, clock: Clock): Promise<PluginEnvironment> {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
    const file = new StateFile(path.join(directory, 'cluster.json'))
    const cluster = await StandaloneCluster.open({ file, clock: systemClock, log: silentLogger })
    const opened = new PluginEnvironment(
      directory,
      cluster,
      await SimulatedKubelet.start({ directory }),
      node,
      clock,
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
