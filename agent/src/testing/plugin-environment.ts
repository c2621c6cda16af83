import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import type { NodeName } from '@akrijs/kube/objects'
import { type Clock, silentLogger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { noopObserver } from '../report/observer.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { SlotBook } from '../slots/slot-book.js'
import { SlotClaims } from '../slots/slot-claims.js'
import { MemoryCluster } from './memory-cluster.js'

/** The environment of device plugins, for tests: a cluster, and a kubelet behind its sockets. */
export class PluginEnvironment {
  readonly directory: string
  readonly cluster: MemoryCluster
  readonly kubelet: SimulatedKubelet
  readonly sockets: KubeletSockets
  readonly #node: NodeName
  readonly #clock: Clock
  #book: SlotBook
  #claims: SlotClaims

  private constructor(
    directory: string,
    cluster: MemoryCluster,
    kubelet: SimulatedKubelet,
    node: NodeName,
    clock: Clock,
  ) {
    const { pluginDirectory, podResourcesSocket } = kubelet
    this.directory = directory
    this.cluster = cluster
    this.kubelet = kubelet
    this.#node = node
    this.#clock = clock
    this.sockets = new KubeletSockets({
      pluginDirectory,
      podResourcesSocket,
      clock,
      log: silentLogger,
    })
    this.#book = this.#open()
    this.#claims = this.claimsOn(cluster)
  }

  get book(): SlotBook {
    return this.#book
  }

  get claims(): SlotClaims {
    return this.#claims
  }

  /** The claims of an agent that gets other answers of the cluster. */
  claimsOn(cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>): SlotClaims {
    return new SlotClaims({
      cluster,
      clock: this.#clock,
      observer: noopObserver,
      book: this.#book,
    })
  }

  get ledger(): AllocationLedger {
    return this.#book.allocations
  }

  /** The book of the next agent, from the checkpoint. */
  restart(): void {
    const allocations = this.ledger.list()
    this.#book.close()
    this.#book = this.#open()
    this.#claims = this.claimsOn(this.cluster)
    for (const each of allocations) this.ledger.record(each)
  }

  #open(): SlotBook {
    const kubelet = { pods: this.kubelet.nodePods }
    return new SlotBook({ cluster: this.cluster, node: this.#node, kubelet, clock: this.#clock })
  }

  /** @param clock of the agent */
  static async open(node: NodeName, clock: Clock): Promise<PluginEnvironment> {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-'))
    const cluster = new MemoryCluster()
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
    this.book.close()
    await this.sockets.close()
    await this.kubelet.close()
    await rm(this.directory, { recursive: true, force: true })
  }
}
