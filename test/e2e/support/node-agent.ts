import path from 'node:path'
import type { AgentOptions, NodeProcess } from './node-access.js'
import { access, onNode } from './nodes.js'

/** An agent of a node, as a process of its own. A test can kill it and read its log. */
export class NodeAgent {
  readonly node: string
  readonly directory: string
  readonly #process: NodeProcess

  private constructor(
    node: string,
    directory: string,
    env: Readonly<Record<string, string>>,
    options: Pick<AgentOptions, 'account' | 'prefix'>,
  ) {
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
    this.#process = access.agent(node, { directory, environment, ...options })
  }

  static async create(
    node: string,
    env: Readonly<Record<string, string>> = {},
    options: Pick<AgentOptions, 'account' | 'prefix'> = {},
  ): Promise<NodeAgent> {
    return new NodeAgent(node, await access.makeDirectory(node), env, options)
  }

  /** The process id, if the agent is a running process of this machine. */
  get pid(): number | undefined {
    return this.#process.pid
  }

  start(): Promise<void> {
    return this.#process.start()
  }

  /** Resolves when the agent has ended. */
  stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<void> {
    return this.#process.stop(signal)
  }

  /** The log of all starts. */
  output(): Promise<string> {
    return this.#process.output()
  }

  async dispose(): Promise<void> {
    await this.stop()
    await onNode(this.node, 'rm', '-rf', this.directory)
  }
}
