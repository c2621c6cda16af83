import { clientOfCluster } from '../../cluster/support/client.js'
import type { Allocated } from './allocated.js'
import { hasKubectl } from './kubectl.js'
import { NodePods } from './node-pods.js'
import { kubeTools, NodeSpaces } from './node-spaces.js'

// The two nodes that tests are about, and how they get at them.

/** A program that serves a node, so that a test can kill it, and read what it says. */
export interface NodeProcess {
  start(): Promise<void>
  /** Resolves when it has ended. */
  stop(signal: NodeJS.Signals): Promise<void>
  /** What it has logged, of all its lives. */
  output(): Promise<string>
  /** Of its last life; undefined as long as it runs. */
  exitCode(): Promise<number | undefined>
  /** Where it is one of this machine. */
  readonly pid?: number | undefined
}

export interface AgentOptions {
  /** One of the node, which is the agent's. */
  readonly directory: string
  readonly environment: Readonly<Record<string, string>>
}

/** A way to get at nodes. */
export interface NodeAccess {
  /** What a command in a node's namespaces writes. @throws with what it says to standard error, where it fails */
  run(node: string, command: readonly string[]): Promise<string>
  /** Ends the kubelet of a node without a word, which starts it again. */
  killKubelet(node: string): Promise<void>
  /** The directory of a node's kubelet, as its agents see it. */
  kubeletDirectory(node: string): string
  /** The socket of a node's container runtime, as its agents see it. */
  runtimeSocket(node: string): string
  /** What the kubelet of a node has given of our resources. */
  allocated(node: string): Promise<Allocated[]>
  /** A new directory of a node, by the same name for its agents. */
  makeDirectory(node: string): Promise<string>
  /** An agent of a node, which does not run yet. */
  agent(node: string, options: AgentOptions): NodeProcess
  /** Read by the debugEcho of each agent: while it says OFFLINE on a node, that one finds nothing. */
  readonly availabilityFile: string
  /** The image of Pods that need a shell only. */
  readonly shellImage: string
}

export const access: NodeAccess =
  kubeTools === undefined ? new NodePods() : new NodeSpaces(kubeTools)

/** What is missing for tests on a real cluster; undefined where nothing is. */
export function missing(): string | undefined {
  // A KUBECONFIG may well be that of a cluster that people work with.
  if (!process.env.KUBECONFIG || process.env.AKRI_TEST_CLUSTER !== '1')
    return 'needs a Kubernetes for tests: set KUBECONFIG and AKRI_TEST_CLUSTER=1'
  if (access instanceof NodeSpaces) return access.missing()
  return hasKubectl() ? undefined : 'needs kubectl'
}

/** What is missing for tests that need more than Pods have: nodes and an API server that are processes of this machine. */
export function missingHere(): string | undefined {
  if (missing() !== undefined) return missing()
  if (access instanceof NodeSpaces) return undefined
  return 'needs nodes that are namespaces of this machine: set AKRI_KUBE_TOOLS to a directory with kube-node'
}

/** Where nodes and API server reach this machine. */
export const HOST = process.env.AKRI_TEST_HOST ?? (access instanceof NodeSpaces ? '10.99.0.1' : '')

/** What is missing for tests whose devices and webhooks are processes of this machine. */
export function missingHost(): string | undefined {
  return (
    missing() ??
    (HOST === ''
      ? 'needs to be reached by the cluster: set AKRI_TEST_HOST to an address of this machine'
      : undefined)
  )
}

const because = (lacks: string | undefined) => (lacks === undefined ? '' : ` (${lacks})`)

/** For titles: why what follows is skipped. */
export const unless = because(missing())
export const unlessHere = because(missingHere())
export const unlessHost = because(missingHost())

/** In the order of their names. */
export const NODES = await testNodes()
export const [NODE_1, NODE_2] = NODES

/** A command in a node's namespaces. */
export function onNode(node: string, ...command: readonly string[]): Promise<string> {
  return access.run(node, command)
}

export async function filesBelow(node: string, directory: string): Promise<string[]> {
  const text = await onNode(node, 'find', directory, '-mindepth', '1', '-printf', '%P\n')
  return text.split('\n').filter(Boolean)
}

/** A new directory, by the same name on both nodes. */
export async function makeDirectories(): Promise<string> {
  const directory = await access.makeDirectory(NODE_1)
  await onNode(NODE_2, 'mkdir', '-p', directory)
  return directory
}

/** Whether debugEcho finds anything, on all nodes. */
export async function setAvailable(available: boolean): Promise<void> {
  const file = access.availabilityFile
  const script = available
    ? `rm -f ${file}`
    : `mkdir -p $(dirname ${file}) && echo OFFLINE >${file}`
  for (const node of NODES) await onNode(node, 'sh', '-c', script)
}

/** Two nodes that take Pods: those that are named, or the first ones of the cluster. */
async function testNodes(): Promise<readonly [string, string]> {
  const named =
    process.env.AKRI_TEST_NODES?.split(',') ??
    (missing() === undefined ? await workers() : ['node-1', 'node-2'])
  const [first, second] = named.toSorted()
  if (first === undefined || second === undefined)
    throw new TypeError(
      `tests need two nodes that take Pods, and there is ${named.join() || 'none'}; AKRI_TEST_NODES names two`,
    )
  return [first, second]
}

async function workers(): Promise<string[]> {
  const client = await clientOfCluster()
  try {
    const { items } = (await client.request({ method: 'GET', path: '/api/v1/nodes' })) as {
      items: {
        metadata: { name: string }
        spec: { unschedulable?: boolean; taints?: { key: string }[] }
      }[]
    }
    return items
      .filter(
        ({ spec }) =>
          spec.unschedulable !== true &&
          !spec.taints?.some(({ key }) => key.startsWith('node-role.')),
      )
      .map(({ metadata }) => metadata.name)
  } finally {
    client.close()
  }
}
