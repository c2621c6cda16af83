import { type ChildProcess, spawn } from 'node:child_process'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { kubeletDirectory, type TestNode } from './world.js'

const root = path.join(import.meta.dirname, '../../..')
const program = path.join(root, 'agent/dist/akri-agent.js')

/** An agent as a process of this machine that serves a node: so that a test can kill it, and read what it says. */
export class HostAgent {
  readonly node: TestNode
  readonly directory: string
  readonly #env: Readonly<Record<string, string>>
  #child: ChildProcess | undefined
  #output = ''

  private constructor(node: TestNode, directory: string, env: Readonly<Record<string, string>>) {
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

  /** What it has logged, of all its lives. */
  get output(): string {
    return this.#output
  }

  get pid(): number | undefined {
    return this.#child?.pid
  }

  /** Null as long as it runs. */
  get exitCode(): number | null {
    return this.#child?.exitCode ?? null
  }

  get handlersDirectory(): string {
    return path.join(this.directory, 'h')
  }

  start(): void {
    const kubelet = kubeletDirectory(this.node)
    this.#child = spawn(process.execPath, [program], {
      env: {
        ...process.env,
        AGENT_NODE_NAME: this.node,
        DISCOVERY_HANDLERS_DIRECTORY: this.handlersDirectory,
        AKRI_STATE_DIRECTORY: path.join(this.directory, 's'),
        KUBELET_PLUGIN_DIRECTORY: path.join(kubelet, 'device-plugins'),
        KUBELET_POD_RESOURCES_SOCKET: path.join(kubelet, 'pod-resources/kubelet.sock'),
        AKRI_HANDLERS: ['debug-echo', 'udev'].map((name) => path.join(root, 'handlers', name)).join(),
        METRICS_PORT: '0',
        ...this.#env,
      },
      stdio: ['ignore', 'ignore', 'pipe'],
    })
    this.#child.stderr?.on('data', (chunk) => {
      this.#output += String(chunk)
    })
  }

  /** Resolves when it has ended. @returns its exit code; null where a signal ended it */
  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<number | null> {
    const child = this.#child
    this.#child = undefined
    if (child === undefined || child.exitCode !== null || child.signalCode !== null) return child?.exitCode ?? null
    const ended = new Promise<number | null>((resolve) => child.once('exit', (code) => resolve(code)))
    child.kill(signal)
    return ended
  }

  async dispose(): Promise<void> {
    await this.stop()
    await rm(this.directory, { recursive: true, force: true })
  }
}
