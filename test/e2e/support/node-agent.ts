import path from 'node:path'
import { access, type NodeProcess, onNode } from './nodes.js'

/** An agent that serves a node, as a process by itself: so that a test can kill it, and read what it says. */
export class NodeAgent {
  readonly node: string
  readonly directory: string
  readonly #process: NodeProcess

  private constructor(node: string, directory: string, env: Readonly<Record<string, string>>) {
    this.node = node
    this.directory = directory
    const kubelet = access.kubeletDirectory(node)
    const environment = {
      AGENT_NODE_NAME: node,
      DISCOVERY_HANDLERS_DIRECTORY: path.join(directory, 'h'),
      AKRI_STATE_DIRECTORY: path.join(directory, 's'),
      KUBELET_PLUGIN_DIRECTORY: path.join(kubelet, 'device-plugins'),
      KUBELET_POD_RESOURCES_SOCKET: path.join(kubelet, 'pod-resources/kubelet.sock'),
      METRICS_PORT: '0',
      DEBUG_ECHO_AVAILABILITY_FILE: access.availabilityFile,
      ...env,
    }
    this.#process = access.agent(node, { directory, environment })
  }

  static async create(
    node: string,
    env: Readonly<Record<string, string>> = {},
  ): Promise<NodeAgent> {
    return new NodeAgent(node, await access.makeDirectory(node), env)
  }

  /** Another one of the same node and with the same directories, as there may be for a moment while an agent is exchanged. */
  static beside(
    { node, directory }: NodeAgent,
    env: Readonly<Record<string, string>> = {},
  ): NodeAgent {
    return new NodeAgent(node, directory, env)
  }

  /** Where it is a process of this machine, and runs. */
  get pid(): number | undefined {
    return this.#process.pid
  }

  start(): Promise<void> {
    return this.#process.start()
  }

  /** Resolves when it has ended. */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    return this.#process.stop(signal)
  }

  /** What it has logged, of all its lives. */
  output(): Promise<string> {
    return this.#process.output()
  }

  /** Of its last life; undefined as long as it runs. */
  exitCode(): Promise<number | undefined> {
    return this.#process.exitCode()
  }

  async dispose(): Promise<void> {
    await this.stop()
    await onNode(this.node, 'rm', '-rf', this.directory)
  }
}
