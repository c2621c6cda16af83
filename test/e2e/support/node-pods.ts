import { randomBytes } from 'node:crypto'
import path from 'node:path'
import { bundle } from '../../support/bundle.js'
import type { Allocated } from './allocated.js'
import { IMAGE } from './image.js'
import { kubectl, kubectlWith } from './kubectl.js'
import type { AgentOptions, NodeAccess, NodeProcess } from './node-access.js'
import { readLog } from './server-warnings.js'
import { tidyUp } from './tidy-up.js'

export const NAMESPACE = 'akri-test-nodes'
const LABEL = 'akri.sh/test-node'
/** The label by which a cluster with Pod Security allows these Pods. */
const PRIVILEGED = { 'pod-security.kubernetes.io/enforce': 'privileged' }
/** The directory on a node; the Pod mounts it by the same name. */
const DIRECTORY = '/var/lib/akri-test'
const KUBELET = '/var/lib/kubelet'
const RUNTIME = '/run/containerd'

/** Enters all namespaces of the node from a Pod in the node's process namespace. */
const ON_NODE = ['nsenter', '-t', '1', '-m', '-n', '-u', '-i', '-p', '--']
/** Processes of the node, found by both its first process and the others. */
const WITH_ITS_PROGRAMS = `
own=$(tr '\\0' '\\n' </proc/1/environ | sed -n 's/^PATH=//p')
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:$own
exec "$@"`

/**
 * Nodes of any cluster. A privileged Pod reaches each node, and agents are processes in that Pod.
 */
export class NodePods implements NodeAccess {
  readonly availabilityFile = `${DIRECTORY}/availability.txt`
  readonly shellImage = process.env.AKRI_TEST_SHELL_IMAGE ?? 'busybox:1.37'
  readonly #provided = new Map<string, Promise<string>>()
  #printer: Promise<string> | undefined

  async run(node: string, command: readonly string[]): Promise<string> {
    return this.inPod(node, ...ON_NODE, '/bin/sh', '-c', WITH_ITS_PROGRAMS, 'sh', ...command)
  }

  async killKubelet(node: string): Promise<void> {
    // The command goes through the kubelet, so the kill happens a moment later.
    const script = `
      for process in /proc/[0-9]*; do
        [ "$(cat $process/comm 2>/dev/null)" = kubelet ] && pid=\${process#/proc/}
      done
      [ -n "$pid" ] || { echo "no process here is named kubelet" >&2; exit 1; }
      { sleep 0.5; kill -KILL $pid; } </dev/null >/dev/null 2>&1 &`
    await this.run(node, ['sh', '-c', script])
  }

  kubeletDirectory(): string {
    return KUBELET
  }

  runtimeSocket(): string {
    return `${RUNTIME}/containerd.sock`
  }

  async allocated(node: string): Promise<Allocated[]> {
    this.#printer ??= bundled('print-allocated.ts')
    const command = [
      'exec',
      '-i',
      await this.#podOf(node),
      '--',
      'node',
      '--input-type=module',
      '-',
    ]
    return JSON.parse(
      await kubectlWith(
        await this.#printer,
        '-n',
        NAMESPACE,
        ...command,
        `${KUBELET}/pod-resources/kubelet.sock`,
      ),
    )
  }

  async makeDirectory(node: string): Promise<string> {
    const directory = `${DIRECTORY}/${randomBytes(4).toString('hex')}`
    await this.inPod(node, 'mkdir', directory)
    return directory
  }

  agent(node: string, options: AgentOptions): NodeProcess {
    return new AgentInPod(this, node, options)
  }

  /** The output of a command in the node's Pod. */
  async inPod(node: string, ...command: readonly string[]): Promise<string> {
    return kubectl('-n', NAMESPACE, 'exec', await this.#podOf(node), '--', ...command)
  }

  #podOf(node: string): Promise<string> {
    const pod = this.#provided.get(node) ?? providePod(node)
    this.#provided.set(node, pod)
    return pod
  }
}

/**
 * The log goes to a file: the agent must go on while the kubelet, which carries all output,
 * restarts.
 */
class AgentInPod implements NodeProcess {
  readonly #pods: NodePods
  readonly #node: string
  readonly #directory: string
  readonly #environment: readonly string[]
  #started = false
  /** The length of the log that was read for warnings. */
  #checkedTo = 0

  constructor(pods: NodePods, node: string, { directory, environment }: AgentOptions) {
    this.#pods = pods
    this.#node = node
    this.#directory = path.join(directory, `process-${randomBytes(4).toString('hex')}`)
    const all = { AKRI_HANDLERS: '@akrijs/handler-debug-echo,@akrijs/handler-udev', ...environment }
    this.#environment = Object.entries(all).map(([name, value]) => `${name}=${value}`)
  }

  async start(): Promise<void> {
    this.#started = true
    const script = `
      mkdir -p "$0" && cd "$0" && rm -f exit pid
      {
        sh -c '
          echo $$ >pid; log=$PWD/log; cd /app
          exec env "$@" node akri-agent.js 2>>"$log"' sh "$@"
        echo $? >exit
      } </dev/null >/dev/null 2>&1 &
      until [ -s pid ]; do sleep 0.05; done`
    await this.#run(script, this.#directory, ...this.#environment)
  }

  async stop(signal: NodeJS.Signals): Promise<void> {
    if (!this.#started) return
    const script = `
      cd "$0"; [ -s exit ] || kill -$1 $(cat pid) || true
      turns=0
      until [ -s exit ]; do turns=$((turns + 1)); [ $turns -lt 600 ] || exit 1; sleep 0.1; done`
    await this.#run(script, this.#directory, signal.replace('SIG', ''))
    const log = await this.output()
    readLog(log.slice(this.#checkedTo))
    this.#checkedTo = log.length
  }

  output(): Promise<string> {
    return this.#run('cat "$0"', path.join(this.#directory, 'log'))
  }

  #run(script: string, ...args: readonly string[]): Promise<string> {
    return this.#pods.inPod(this.#node, '/bin/sh', '-c', script, ...args)
  }
}

/** A program of this directory, bundled, so that it runs where only Node.js is installed. */
async function bundled(file: string): Promise<string> {
  const { outputFiles = [] } = await bundle({
    entryPoints: [path.join(import.meta.dirname, file)],
    banner: {
      js: "import { createRequire } from 'node:module'; const require = createRequire('/')",
    },
    write: false,
  })
  return outputFiles.map(({ text }) => text).join('')
}

/** The name of the running Pod on a node. */
async function providePod(node: string): Promise<string> {
  const name = `on-${node}`
  const objects = { apiVersion: 'v1', kind: 'List', items: objectsFor(name, node) }
  await kubectlWith(JSON.stringify(objects), 'apply', '-f', '-')
  try {
    await kubectl('-n', NAMESPACE, 'wait', '--for=condition=Ready', `pod/${name}`, '--timeout=60s')
  } catch (error) {
    const state = await kubectl(
      ...['-n', NAMESPACE, 'get', 'pod', name, '-o'],
      'jsonpath={.status.containerStatuses[0].state}',
    )
    throw new Error(
      `the way into ${node} does not open: it needs the image ${IMAGE}, and privileged ` +
        `Pods: ${state}`,
      {
        cause: error,
      },
    )
  }
  return name
}

function objectsFor(name: string, node: string): object[] {
  const labels = { [LABEL]: '' }
  const metadata = { name: NAMESPACE, labels }
  const hostPaths = {
    state: DIRECTORY,
    plugins: `${KUBELET}/device-plugins`,
    resources: `${KUBELET}/pod-resources`,
    runtime: RUNTIME,
  }
  const mounts = Object.entries(hostPaths)
  const container = {
    name: 'node',
    image: IMAGE,
    command: ['/bin/sh', '-c', "trap 'exit 0' TERM; while true; do sleep 1; done"],
    workingDir: '/app',
    securityContext: { privileged: true, runAsUser: 0 },
    volumeMounts: mounts.map(([volume, mountPath]) => ({ name: volume, mountPath })),
  }
  const spec = {
    nodeName: node,
    hostPID: true,
    hostNetwork: true,
    dnsPolicy: 'ClusterFirstWithHostNet',
    tolerations: [{ operator: 'Exists' }],
    serviceAccountName: NAMESPACE,
    terminationGracePeriodSeconds: 1,
    containers: [container],
    volumes: mounts.map(([volume, at]) => ({
      name: volume,
      hostPath: { path: at, type: 'DirectoryOrCreate' },
    })),
  }
  return [
    {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { ...metadata, labels: { ...labels, ...PRIVILEGED } },
    },
    { apiVersion: 'v1', kind: 'ServiceAccount', metadata: { ...metadata, namespace: NAMESPACE } },
    {
      apiVersion: 'rbac.authorization.k8s.io/v1',
      kind: 'ClusterRoleBinding',
      metadata,
      roleRef: {
        apiGroup: 'rbac.authorization.k8s.io',
        kind: 'ClusterRole',
        name: 'cluster-admin',
      },
      subjects: [{ kind: 'ServiceAccount', name: NAMESPACE, namespace: NAMESPACE }],
    },
    { apiVersion: 'v1', kind: 'Pod', metadata: { name, namespace: NAMESPACE, labels }, spec },
  ]
}

/** Ends and removes everything that the tests created on nodes. */
export async function removeNodePods(): Promise<void> {
  const empty = (pod: string) =>
    kubectl('-n', NAMESPACE, 'exec', pod, '--', '/bin/sh', '-c', `rm -rf ${DIRECTORY}/*`)
  await tidyUp(
    () => kubectl('delete', 'clusterrolebinding', NAMESPACE, '--ignore-not-found'),
    async () => tidyUp(...(await runningPods()).map((pod) => () => empty(pod))),
    () => kubectl('-n', NAMESPACE, 'delete', 'pods', '--all', '--force', '--grace-period=0'),
    () => kubectl('delete', 'namespace', NAMESPACE, '--ignore-not-found'),
  )
}

/** If a Pod never ran, its node has nothing to remove. */
async function runningPods(): Promise<string[]> {
  const text = await kubectl(
    ...['-n', NAMESPACE, 'get', 'pods', '--field-selector=status.phase=Running', '-o', 'name'],
  )
  return text.split('\n').filter(Boolean)
}
