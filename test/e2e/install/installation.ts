import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import type { ApiClient } from '@akrijs/kube'
import { accessOfCluster, clientOfCluster } from '../../cluster/support/client.js'
import { imageTree } from '../../images/trees.js'
import { MANIFESTS } from '../../manifests/folder.js'
import { IMAGE } from '../support/image.js'
import { hasKubectl, kubectl } from '../support/kubectl.js'
import { kubeTools } from '../support/node-spaces.js'
import { missing, onNode } from '../support/nodes.js'
import type { PodState } from '../support/world.js'

export { MANIFESTS }

const run = promisify(execFile)

const SERVICE_ACCOUNT = '/api/v1/namespaces/akri/serviceaccounts/akri-agent-sa'

/** The directories that the agent leaves on a node, as listed in docs/rights.md. */
export const NODE_DIRECTORIES = ['/var/lib/akri', '/var/lib/akri-agent'] as const

/** The reason why an installation from the manifests cannot run; undefined if it can. */
export function missingForInstallation(): string | undefined {
  if (missing() !== undefined) return missing()
  if (kubeTools !== undefined && !existsSync(path.join(kubeTools, 'kube-node-image')))
    return (
      'needs a way to make images: AKRI_KUBE_TOOLS must hold kube-node-image, which makes one ' +
      'of Node and a directory'
    )
  if (!hasKubectl()) return 'needs kubectl'
  return undefined
}

/** A Pod of the manifests. */
export interface InstalledPod extends PodState {
  readonly spec: {
    readonly nodeName: string
    readonly containers: readonly {
      readonly image: string
      readonly resources: { readonly requests: { readonly memory: string } }
    }[]
  }
  readonly status: PodState['status'] & {
    readonly containerStatuses: readonly {
      readonly restartCount: number
      readonly containerID: string
      readonly lastState: { readonly terminated?: { readonly reason: string } }
    }[]
  }
}

/** All nodes of the cluster: those on which Pods of the DaemonSets run. */
export const ALL_NODES: readonly string[] =
  missingForInstallation() === undefined
    ? (await kubectl('get', 'nodes', '-o', 'jsonpath={.items[*].metadata.name}')).split(' ').sort()
    : []

/** A value for each node. */
export const onEachNode = <T>(value: T): T[] => ALL_NODES.map(() => value)

/** The Pods without a deletionTimestamp. @param name the label `app.kubernetes.io/name` */
export async function installedPods(name: string): Promise<InstalledPod[]> {
  const text = await kubectl(
    ...['-n', 'akri', 'get', 'pods', '-l', `app.kubernetes.io/name=${name}`, '-o', 'json'],
  )
  const { items } = JSON.parse(text) as { items: InstalledPod[] }
  return items.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
}

/** The output of a shell script in an installed Pod. @throws with its standard error if it fails */
export function inPod({ metadata }: InstalledPod, script: string): Promise<string> {
  return kubectl('-n', 'akri', 'exec', metadata.name, '--', '/bin/sh', '-c', script)
}

/**
 * Resolves when all Pods are of the newest revision and ready. @param what such as
 * `daemonset/akri-agent-daemonset`
 */
export function rolledOut(what: string): Promise<string> {
  return kubectl('-n', 'akri', 'rollout', 'status', what, '--timeout=240s')
}

/** The label of an image on a node: the digest of the tree that it was made of. */
const TREE = 'akri-tree'

/**
 * Builds the image and imports it on each node, if the nodes are processes of this machine. Other
 * nodes must have it already. The image stays until its cluster goes: the next test has it at once,
 * unless the programs have changed.
 * @param makeTree writes the content of the image to a directory, and resolves with text that has
 * its digest if it has one
 */
export async function provideImage(
  image = IMAGE,
  makeTree: (directory: string) => Promise<string> = imageTree,
): Promise<void> {
  if (kubeTools === undefined) return
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-image-'))
  try {
    const [digest = ''] = /sha256:\w+/.exec(await makeTree(path.join(directory, 'tree'))) ?? []
    const ctr = (node: string, ...args: readonly string[]) =>
      onNode(node, 'ctr', '-n', 'k8s.io', 'images', ...args)
    const label = `${TREE}=${digest}`
    const labels = await Promise.all(ALL_NODES.map((node) => ctr(node, 'ls', `name==${image}`)))
    if (digest !== '' && labels.every((text) => text.includes(label))) return
    const archive = path.join(directory, 'agent.tar')
    const command = ['node', '/app/akri-agent.js']
    await run(path.join(kubeTools, 'kube-node-image'), [
      image,
      archive,
      path.join(directory, 'tree/all/app'),
      ...command,
    ])
    await Promise.all(
      ALL_NODES.map(async (node) => {
        await ctr(node, 'import', archive)
        await ctr(node, 'label', image, label)
      }),
    )
  } finally {
    await rm(directory, { recursive: true, force: true })
  }
}

const NAMESPACE = path.join(MANIFESTS, 'namespace.yaml')

/** Makes the namespace of the manifests, once that of the test before is gone. */
export async function makeNamespace(): Promise<void> {
  await namespaceGone()
  await kubectl('apply', '-f', NAMESPACE)
}

/** Resolves when the namespace that `removeNamespace` of the test before has deleted is gone. */
export async function namespaceGone(): Promise<void> {
  const found = await kubectl('get', '-f', NAMESPACE, '--ignore-not-found', '-o', 'json')
  if (found.includes('deletionTimestamp'))
    await kubectl('wait', '--for=delete', '-f', NAMESPACE, '--timeout=120s')
}

/**
 * Deletes the namespace of the manifests, which `kubectl delete -k` keeps. Its Pods go by force,
 * and the next test waits for the rest of the deletion.
 */
export async function removeNamespace(): Promise<void> {
  await kubectl('-n', 'akri', 'delete', 'pods', '--all', '--force', '--grace-period=0')
  await kubectl('delete', '-f', NAMESPACE, '--ignore-not-found', '--wait=false')
}

/**
 * Nodes that are namespaces of one machine share its file system, real nodes do not. Each node gets
 * directories of its own.
 */
export async function separateNodes(): Promise<void> {
  const script = NODE_DIRECTORIES.map(
    (directory) =>
      `mkdir -p ${directory}; mountpoint -q ${directory} || mount -t tmpfs tmpfs ${directory}`,
  )
  await Promise.all(ALL_NODES.map((node) => onNode(node, 'sh', '-ec', script.join('\n'))))
}

/** Leaves the empty directories: to remove one unmounts it in the nodes of another cluster here. */
export async function joinNodes(): Promise<void> {
  // With the file systems of reports below them.
  await Promise.all(ALL_NODES.map((node) => onNode(node, 'umount', '-R', ...NODE_DIRECTORIES)))
}

/**
 * The API as the agent's Pods see it: with a token of their service account.
 * @param boundObjectRef the Pod of the token @default none
 */
export async function clientOfAgent(admin: ApiClient, boundObjectRef?: object): Promise<ApiClient> {
  const spec = { expirationSeconds: 3600, boundObjectRef }
  const { status } = (await admin.request({
    method: 'POST',
    path: `${SERVICE_ACCOUNT}/token`,
    body: { apiVersion: 'authentication.k8s.io/v1', kind: 'TokenRequest', spec },
  })) as { status: { token: string } }
  const access = await accessOfCluster()
  const { ca, verify, serverName } = await access.credentials()
  const credentials = async () => ({ ca, verify, serverName, token: status.token })
  return clientOfCluster({ server: access.server, credentials })
}
