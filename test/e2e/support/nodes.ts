import { clientOfCluster } from '../../cluster/support/client.js'
import { hasKubectl } from './kubectl.js'
import type { NodeAccess } from './node-access.js'
import { NodePods } from './node-pods.js'
import { kubeTools, NodeSpaces } from './node-spaces.js'

// The nodes of the tests, and the ways to reach them. Tests need two nodes.

export const access: NodeAccess =
  kubeTools === undefined ? new NodePods() : new NodeSpaces(kubeTools)

/** The reason why tests on a real cluster cannot run; undefined if they can. */
export function missing(): string | undefined {
  // KUBECONFIG can name a cluster that people work with.
  if (!process.env.KUBECONFIG || process.env.AKRI_TEST_CLUSTER !== '1')
    return 'needs a Kubernetes for tests: set KUBECONFIG and AKRI_TEST_CLUSTER=1'
  if (access instanceof NodeSpaces) return access.missing()
  return hasKubectl() ? undefined : 'needs kubectl'
}

/**
 * The reason why tests cannot run that need nodes and an API server as processes of this machine.
 */
export function missingHere(): string | undefined {
  if (missing() !== undefined) return missing()
  if (access instanceof NodeSpaces) return undefined
  return (
    'needs nodes that are namespaces of this machine: set AKRI_KUBE_TOOLS to a directory with ' +
    'kube-node'
  )
}

/** The address of this machine for nodes and the API server. */
export const HOST = process.env.AKRI_TEST_HOST ?? (access instanceof NodeSpaces ? '10.99.0.1' : '')

/** The reason why tests cannot run whose devices and webhooks are processes of this machine. */
export function missingHost(): string | undefined {
  return (
    missing() ??
    (HOST === ''
      ? 'needs to be reached by the cluster: set AKRI_TEST_HOST to an address of this machine'
      : undefined)
  )
}

const [first, second] = await testNodes()

/** The nodes of the tests, sorted by name. */
export const NODES = [first, second] as const
export const [NODE_1, NODE_2] = NODES

/** Runs a command in a node's namespaces. */
export function onNode(node: string, ...command: readonly string[]): Promise<string> {
  return access.run(node, command)
}

export async function filesBelow(node: string, directory: string): Promise<string[]> {
  const text = await onNode(node, 'find', directory, '-mindepth', '1', '-printf', '%P\n')
  return text.split('\n').filter(Boolean)
}

/** Switches the devices of debugEcho on or off, on the nodes. */
export async function setAvailable(available: boolean): Promise<void> {
  const file = access.availabilityFile
  const script = available
    ? `rm -f ${file}`
    : `mkdir -p $(dirname ${file}) && echo OFFLINE >${file}`
  for (const node of NODES) await onNode(node, 'sh', '-c', script)
}

/** Two nodes that accept Pods: the named nodes, or the first nodes of the cluster. */
async function testNodes(): Promise<readonly [string, string]> {
  const named =
    process.env.AKRI_TEST_NODES?.split(',') ??
    (missing() === undefined ? await workers() : ['node-1', 'node-2'])
  const [one, two] = named.toSorted()
  if (one === undefined || two === undefined)
    throw new TypeError(
      'tests need two nodes that take Pods, ' +
        `and there is ${named.join() || 'none'}; AKRI_TEST_NODES names two`,
    )
  return [one, two]
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
