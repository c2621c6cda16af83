import path from 'node:path'
import { SimulatedKubelet } from '@akrijs/kube/kubelet'
import type { NodeName } from '@akrijs/kube/objects'
import { type Clock, silentLogger, systemClock } from '@akrijs/runtime'
import { expect, onTestFinished } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { type Agent, type AgentOptions, startAgent } from '../program/agent.js'
import { MemoryCluster } from './memory-cluster.js'

/** The environment of an agent, for tests: a cluster, and a kubelet with its Pods and sockets. */
export class NodeEnvironment {
  /** For the sockets of handlers, and for the checkpoint. */
  readonly directory: string
  readonly cluster = new MemoryCluster()
  readonly kubelet: SimulatedKubelet
  readonly sockets: KubeletSockets
  #agent: Agent | undefined

  private constructor(directory: string, kubelet: SimulatedKubelet, clock: Clock) {
    const { pluginDirectory, podResourcesSocket, nodePods: pods } = kubelet
    this.directory = directory
    this.kubelet = kubelet
    this.sockets = new KubeletSockets({
      pluginDirectory,
      podResourcesSocket,
      pods,
      clock,
      log: silentLogger,
    })
  }

  /** Opens it until the test ends. @param clock of the sockets of the kubelet */
  static async open(clock: Clock = systemClock): Promise<NodeEnvironment> {
    const directory = await temporaryDirectory()
    const kubelet = await SimulatedKubelet.start({ directory: path.join(directory, 'k') })
    const opened = new NodeEnvironment(directory, kubelet, clock)
    onTestFinished(() => opened.#close())
    await opened.sockets.open()
    return opened
  }

  get agent(): Agent {
    return this.#agent ?? expect.fail('no agent runs')
  }

  get checkpointFile(): string {
    return path.join(this.directory, 'checkpoint.json')
  }

  /** Starts the agent of `node-a`, after the end of the agent before. */
  async start(options: Partial<AgentOptions> = {}): Promise<void> {
    await this.stop()
    this.#agent = await this.another(options)
  }

  /** Starts one more agent. */
  another(options: Partial<AgentOptions> = {}): Promise<Agent> {
    return startAgent({
      cluster: this.cluster,
      kubelet: this.sockets,
      clock: systemClock,
      log: silentLogger,
      node: 'node-a' as NodeName,
      handlersDirectory: this.directory,
      checkpointFile: this.checkpointFile,
      embedded: [],
      ...options,
    })
  }

  async stop(): Promise<void> {
    await this.#agent?.close()
    this.#agent = undefined
  }

  /** How many devices of each resource the kubelet can allocate. */
  allocatable(...resources: readonly string[]): number[] {
    return resources.map((resource) => this.kubelet.resource(resource).allocatable)
  }

  /** Admits a Pod with one container. @returns what plugins give to the container */
  async admit(name: string, ...resources: readonly string[]) {
    const wants = Object.fromEntries(resources.map((resource) => [resource, 1]))
    const containers = [{ name: 'main', resources: wants }]
    const given = await this.kubelet.admit({ uid: name, name, namespace: 'default', containers })
    return given.get('main')
  }

  async #close(): Promise<void> {
    await this.stop()
    await this.sockets.close()
    await this.kubelet.close()
  }
}
