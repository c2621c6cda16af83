import { execFile } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { type Allocated, listAllocated } from './allocated.js'
import { BUILT_HANDLERS, HostProgram } from './host-program.js'
import type { AgentOptions, NodeAccess, NodeProcess } from './node-access.js'

const run = promisify(execFile)

/**
 * The directory of the program `kube-node`: `kube-node --work DIRECTORY NODE COMMAND…` runs a
 * command on a node, `… NODE --restart kubelet` restarts its kubelet.
 */
export const kubeTools = process.env.AKRI_KUBE_TOOLS
/** The directory of that Kubernetes, with `nodes/NODE/kubelet/device-plugins`. */
export const workDirectory = process.env.AKRI_KUBE_WORK ?? '/tmp/akri-kube'

/**
 * Nodes that are namespaces of this machine, which sees their files. Agents are processes of this
 * machine.
 */
export class NodeSpaces implements NodeAccess {
  readonly availabilityFile = path.join(workDirectory, 'debug-echo-availability.txt')
  readonly shellImage = 'e2e.local/busybox:1'
  readonly #program: string

  constructor(tools: string) {
    this.#program = path.join(tools, 'kube-node')
  }

  missing(): string | undefined {
    if (!existsSync(this.#program))
      return `needs a way to get at the nodes: ${this.#program} is not there; see AKRI_KUBE_TOOLS`
    if (!existsSync(path.join(workDirectory, 'nodes')))
      return `needs the directories of nodes in ${workDirectory}; set AKRI_KUBE_WORK`
    return undefined
  }

  async run(node: string, command: readonly string[]): Promise<string> {
    const { stdout } = await run(this.#program, ['--work', workDirectory, node, ...command])
    return stdout
  }

  async killKubelet(node: string): Promise<void> {
    await this.run(node, ['--restart', 'kubelet'])
  }

  kubeletDirectory(node: string): string {
    return path.join(workDirectory, 'nodes', node, 'kubelet')
  }

  /**
   * The node has a /run of its own: the runtime's socket is reached through the node's first
   * process.
   */
  runtimeSocket(node: string): string {
    const pid = readFileSync(path.join(workDirectory, 'nodes', node, 'pid'), 'utf8').trim()
    return `/proc/${pid}/root/run/containerd/containerd.sock`
  }

  allocated(node: string): Promise<Allocated[]> {
    return listAllocated(path.join(this.kubeletDirectory(node), 'pod-resources/kubelet.sock'))
  }

  makeDirectory(): Promise<string> {
    return mkdtemp(path.join(os.tmpdir(), 'akri-e2e-'))
  }

  agent(_node: string, options: AgentOptions): NodeProcess {
    return new AgentHere(options)
  }
}

class AgentHere implements NodeProcess {
  readonly #program: HostProgram
  readonly #environment: Readonly<Record<string, string>>

  constructor(options: AgentOptions) {
    const { environment, account, prefix = [] } = options
    const inPod = account === undefined ? [] : asInPod(account)
    this.#program = new HostProgram('agent/dist/akri-agent.js', [...inPod, ...prefix])
    this.#environment = environment
  }

  get pid(): number | undefined {
    return this.#program.pid
  }

  async start(): Promise<void> {
    this.#program.launch({ AKRI_HANDLERS: BUILT_HANDLERS, ...this.#environment })
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    await this.#program.stop(signal)
  }

  async output(): Promise<string> {
    return this.#program.output
  }
}

/** A command that sees the files of an account where a Pod has them. Its process stays the same. */
function asInPod(account: string): readonly string[] {
  const place = '/run/secrets/kubernetes.io/serviceaccount'
  const steps = ['mount -t tmpfs none /run', `mkdir -p ${place}`, `mount --bind "$0" ${place}`]
  const script = [...steps, 'exec "$@"'].join(' && ')
  return ['unshare', '--mount', 'sh', '-c', script, account]
}
