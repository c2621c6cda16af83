import type { RequestCounts } from './request-meter.js'

// The messages between the bench and its processes.

/** Of handlers whose devices all nodes see, and of handlers whose devices one node sees. */
export type HandlerName = 'benchShared' | 'benchLocal'

export interface BenchNode {
  readonly name: string
  /** An empty directory with a short path: sockets are in it. */
  readonly directory: string
  /** @default a simulated kubelet in the process of the agent */
  readonly kubeletDirectory?: string
  /** The first lists, by the Configuration. */
  readonly devices: DeviceLists
  /** The directories of handlers that the agent has besides. */
  readonly handlers?: readonly string[]
}

/** The ids of devices, by the name of the Configuration. */
export type DeviceLists = Readonly<Record<string, readonly string[]>>

/** What these nodes find from now on for these Configurations. */
export interface FoundDevices {
  readonly nodes: readonly string[]
  readonly devices: DeviceLists
}

/** A slot that a node claims. */
export interface SlotOfNode {
  readonly node: string
  readonly namespace: string
  readonly instance: string
  readonly slot: string
}

/** What a process has taken. */
export interface ProcessLoad {
  readonly cpuSeconds: number
  readonly residentBytes: number
  /** Of these, what no other process has and no file holds, in MB. */
  readonly dirtyMegabytes: number
  /** How long the event loop was blocked at most since the last question, in milliseconds. */
  readonly blockedMs: number
  /**
   * The same in time of processors, with the other threads of the process: waits for a processor
   * that other programs have do not count.
   */
  readonly busyMs: number
}

/** A server of objects and a kubelet, for one agent of another process. */
export interface NodeHost {
  readonly kubeconfig: string
  readonly kubeletDirectory: string
}

/** The allocatable quantity of each resource, by node. */
export type Allocatable = Readonly<Record<string, Readonly<Record<string, number>>>>

export interface Commands {
  /** Starts agents with simulated kubelets. Resolves when all agents run. */
  start(nodes: readonly BenchNode[]): Promise<void>
  find(found: FoundDevices): Promise<void>
  /** These nodes find these devices besides. */
  findMore(found: FoundDevices): Promise<void>
  counts(): Promise<RequestCounts>
  allocatable(): Promise<Allocatable>
  load(): Promise<ProcessLoad>
  /** The port of `/healthz` of the last agent. */
  healthPort(): Promise<number>
  /** Serves `/healthz` for a program that does nothing else. @returns the port */
  serveHealth(): Promise<number>
  /** Asks for `/healthz` on these ports all the time, in turn. Resolves when all have answered. */
  probe(ports: readonly number[]): Promise<void>
  /** Ends the probes. @returns the longest answer of each port, in milliseconds */
  probed(): Promise<readonly number[]>
  /** Starts the server and the kubelet of a node, with these Configurations. */
  host(node: {
    readonly name: string
    readonly directory: string
    readonly configurations: readonly object[]
  }): Promise<NodeHost>
  /** How many objects the server has, by kind. */
  objects(): Promise<Readonly<Record<string, number>>>
  /** Allocates all of these slots at once. @returns the time of each, in milliseconds */
  allocate(slots: readonly SlotOfNode[]): Promise<readonly number[]>
  /** Claims all of these slots at once by a bare PATCH. @returns the time of each */
  patch(slots: readonly SlotOfNode[]): Promise<readonly number[]>
}

/** The same, of a process that has the commands. */
type Handlers = Partial<Readonly<Commands>>

interface Question {
  readonly id: number
  readonly command: keyof Commands
  readonly argument: unknown
}

interface Answer {
  readonly id: number
  readonly value?: unknown
  readonly error?: string
}

export type Message = Question | Answer

/** Executes the commands that the parent of this process sends. */
export function serveCommands(handlers: Handlers): void {
  process.on('disconnect', () => process.exit())
  process.on('message', async ({ id, command, argument }: Question) => {
    const answer = (answered: Omit<Answer, 'id'>) => process.send?.({ id, ...answered })
    try {
      const handler = handlers[command] as ((argument: unknown) => Promise<unknown>) | undefined
      answer({ value: await handler?.(argument) })
    } catch (error) {
      answer({ error: error instanceof Error ? String(error.stack) : String(error) })
    }
  })
}
