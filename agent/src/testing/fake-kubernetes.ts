import type { ApiClient, NodeName } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { type Clock, silentLogger, systemClock } from '@akrijs/runtime'
import { onTestFinished } from 'vitest'
import { KubernetesCluster } from '../cluster/kubernetes-cluster.js'

type Options = Partial<ConstructorParameters<typeof KubernetesCluster>[0]>

/** A fake API server, and the clusters of agents on it. */
export class FakeKubernetes {
  readonly server: FakeApiServer
  readonly client: ApiClient
  readonly clock: Clock
  /** The messages of the agents' logs: at level info and above. */
  readonly logged: string[] = []
  readonly #opened: KubernetesCluster[] = []

  private constructor(server: FakeApiServer, client: ApiClient, clock: Clock) {
    this.server = server
    this.client = client
    this.clock = clock
  }

  /** Opens it until the test ends. */
  static async open(clock: Clock = systemClock): Promise<FakeKubernetes> {
    const server = new FakeApiServer(clock)
    const opened = new FakeKubernetes(server, await server.open(), clock)
    onTestFinished(() => opened.#close())
    return opened
  }

  /** Starts the cluster of an agent. */
  start(node: NodeName, options: Options = {}): KubernetesCluster {
    const { client, clock } = this
    const note = (_: unknown, message: string) => void this.logged.push(message)
    const log = { ...silentLogger, info: note, warn: note, error: note }
    const cluster = new KubernetesCluster({ client, clock, log, node, ...options })
    this.#opened.push(cluster)
    cluster.start()
    return cluster
  }

  async #close(): Promise<void> {
    await Promise.all(this.#opened.map((cluster) => cluster.close()))
    await this.server.close()
  }
}
