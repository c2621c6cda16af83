import type { Allocated } from './allocated.js'

/** A program of a node that a test can kill, with a readable log. */
export interface NodeProcess {
  start(): Promise<void>
  /** Resolves when the program has ended. */
  stop(signal: NodeJS.Signals): Promise<void>
  /** The log of all starts. */
  output(): Promise<string>
  /** The process id, if the program is a process of this machine. */
  readonly pid?: number | undefined
}

export interface AgentOptions {
  /** A directory of the node that belongs to the agent. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
  /**
   * The directory of the account that the agent has as in a Pod, where agents are processes of this
   * machine.
   * @default the kubeconfig of the tests
   */
  readonly account?: string | undefined
  /**
   * A command that becomes the command after it, where agents are processes of this machine.
   * @default none
   */
  readonly prefix?: readonly string[] | undefined
}

/** A way to reach nodes. */
export interface NodeAccess {
  /** The output of a command in a node's namespaces. @throws with its standard error if it fails */
  run(node: string, command: readonly string[]): Promise<string>
  /** Kills the kubelet of a node. The node starts it again. */
  killKubelet(node: string): Promise<void>
  /** The directory of a node's kubelet, as the node's agents see it. */
  kubeletDirectory(node: string): string
  /** The socket of a node's container runtime, as the node's agents see it. */
  runtimeSocket(node: string): string
  /** Our allocations of a node's kubelet. */
  allocated(node: string): Promise<Allocated[]>
  /** A new directory of a node; the node's agents see it by the same name. */
  makeDirectory(node: string): Promise<string>
  /** An agent of a node that is not started yet. */
  agent(node: string, options: AgentOptions): NodeProcess
  /**
   * The debugEcho handler of each agent reads this file. It finds nothing while the file on its
   * node says OFFLINE.
   */
  readonly availabilityFile: string
  /** The image of Pods that only need a shell. */
  readonly shellImage: string
}
