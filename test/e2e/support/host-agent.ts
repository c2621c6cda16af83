import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { BUILT_HANDLERS, HostProgram } from './host-program.js'
import { AVAILABILITY_FILE, kubeletDirectory, type TestNode } from './world.js'

/** An agent as a process of this machine that serves a node: so that a test can kill it, and read what it says. */
export class HostAgent extends HostProgram {
  readonly node: TestNode
  readonly directory: string
  readonly #env: Readonly<Record<string, string>>

  private constructor(node: TestNode, directory: string, env: Readonly<Record<string, string>>) {
    super('agent/dist/akri-agent.js')
    this.node = node
    this.directory = directory
    this.#env = env
  }

  static async create(node: TestNode, env: Readonly<Record<string, string>> = {}): Promise<HostAgent> {
    return new HostAgent(node, await mkdtemp(path.join(os.tmpdir(), 'akri-e2e-')), env)
  }

  /** Another one of the same node and with the same directories, as there may be for a moment while an agent is exchanged. */
  static beside({ node, directory }: HostAgent, env: Readonly<Record<string, string>> = {}): HostAgent {
    return new HostAgent(node, directory, env)
  }

  get handlersDirectory(): string {
    return path.join(this.directory, 'h')
  }

  start(): void {
    const kubelet = kubeletDirectory(this.node)
    this.launch({
      AGENT_NODE_NAME: this.node,
      DISCOVERY_HANDLERS_DIRECTORY: this.handlersDirectory,
      AKRI_STATE_DIRECTORY: path.join(this.directory, 's'),
      KUBELET_PLUGIN_DIRECTORY: path.join(kubelet, 'device-plugins'),
      KUBELET_POD_RESOURCES_SOCKET: path.join(kubelet, 'pod-resources/kubelet.sock'),
      AKRI_HANDLERS: BUILT_HANDLERS,
      METRICS_PORT: '0',
      DEBUG_ECHO_AVAILABILITY_FILE: AVAILABILITY_FILE,
      ...this.#env,
    })
  }

  async dispose(): Promise<void> {
    await this.stop()
    await rm(this.directory, { recursive: true, force: true })
  }
}
