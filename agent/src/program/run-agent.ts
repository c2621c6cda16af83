import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import {
  ApiClient,
  ApiError,
  type ApiUnreachableError,
  type NodeName,
  objectKey,
  warningLogger,
} from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { aborted, type Clock, runAfter, systemClock } from '@akrijs/runtime'
import { findHandlerPackages } from '@akrijs/runtime/handler'
import type { ProgramContext } from '@akrijs/runtime/program'
import { KubernetesCluster } from '../cluster/kubernetes-cluster.js'
import { KubernetesNodePods } from '../cluster/node-pods.js'
import { nodeResourceNames } from '../cluster/node-resource-names.js'
import { AllowedAddresses } from '../handlers/handler-addresses.js'
import { isolatedNames, runIsolated } from '../handlers/isolated-handler.js'
import { ContainerRuntime } from '../kubelet/container-runtime.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { NodeProblems } from '../report/node-problems.js'
import { type Agent, startAgent } from './agent.js'
import { type AgentProgramOptions, handlerAccess, slotGraceMs } from './agent-options.js'
import { AgentMetrics } from './metrics.js'

/**
 * How long the writes to the API server may take that are under way when the agent has to end, in
 * milliseconds. The kubelet kills the agent of the chart after 20 s, and the agent has more to do.
 */
const LAST_WRITES_MS = 5000

/** Runs the agent of one node of a Kubernetes until the signal is aborted. */
export async function runAgent(
  options: AgentProgramOptions,
  {
    packagesFrom,
    log,
    signal,
    closer,
    serveHealth,
    clock = systemClock,
  }: ProgramContext & { readonly packagesFrom: string; readonly clock?: Clock },
): Promise<void> {
  const node = options.node as NodeName
  let agent: Agent | undefined
  let starting = 'starting'
  const isIsolated = options.isolated === 'on'
  // Handlers in Pods can write to the directory that they share with the agent, not to this one.
  const isolatedDirectory = path.join(options.stateDirectory, 'isolated')
  for (const directory of [
    options.stateDirectory,
    options.handlersDirectory,
    ...(isIsolated ? [isolatedDirectory] : []),
  ])
    await mkdir(directory, { recursive: true, mode: 0o700 })
  const access = await clusterAccess({ kubeconfig: options.kubeconfig })
  const over = new AbortController()
  const client = new ApiClient({
    access,
    clock,
    signal: over.signal,
    userAgent: 'akri-agent',
    onAnswer({ method, status }) {
      metrics.apiAnswered(method, status)
      if (status < 400) problems.apiAnswers()
    },
    onFailure({ method, path: of }, error) {
      if (!ApiError.is(error)) metrics.apiAnswered(method, undefined)
      if (!ApiError.is(error) || error.status === 429 || error.status >= 500) problems.apiFails()
      if (isApiProblem(of, error)) metrics.failed('ApiRequestFailed', error)
    },
    onWarning: warningLogger(log),
  })
  const cluster = new KubernetesCluster({
    client,
    clock,
    log,
    node,
    agentPod: options.pod,
    agentNamespace: options.podNamespace,
    compatibility: options.compatibility,
  })
  const metrics = new AgentMetrics({
    node,
    configurations: () => cluster.configurations.list(),
    instances: () => cluster.instances.list(),
    endpoints: () => agent?.registry.size ?? 0,
    queued: (kind) => agent?.queued(kind) ?? 0,
    apiSilenceMs: () => cluster.silentForMs,
    onProblem: (problem, error) => problems.add(problem, error),
  })
  const pods = new KubernetesNodePods({ client, clock, log, node })
  const { pod, podNamespace } = options
  const problems = new NodeProblems({
    node,
    clock,
    pod: pod && podNamespace ? objectKey(podNamespace, pod) : undefined,
    uidOf: (key) => pods.uidOf(key),
    recordEvent: (event) => cluster.recordEvent(event),
  })
  closer.add(() => client.close())
  closer.add(() => over.abort())
  // First of all: an unreachable cluster must show in the probes, not in a crash.
  await serveHealth({
    port: options.metricsPort,
    ready: () => (agent === undefined ? starting : kubelet.problem),
    healthy: async () => agent?.healthy(),
    metrics: () => metrics.registry.metrics(),
  })
  cluster.start()
  closer.add(() => cluster.close())
  pods.start()
  closer.add(() => pods.close())
  const kubelet = new KubeletSockets({
    pluginDirectory: options.pluginDirectory,
    podResourcesSocket: options.podResourcesSocket,
    allocations:
      options.criSocket === undefined ? undefined : new ContainerRuntime(options.criSocket),
    pods,
    clock,
    log,
  })
  await kubelet.open()
  closer.add(() => kubelet.close())
  const ended = Promise.race([aborted(signal), kubelet.gone])
  void ended.then(() => runAfter(clock, LAST_WRITES_MS, over.signal, () => over.abort()))
  /** @returns whether the agent still has to run @throws KubeletGoneError */
  const until = async (event: Promise<unknown>): Promise<boolean> => {
    const gone = await Promise.race([event.then(() => undefined), ended])
    if (gone !== undefined) throw gone
    return !signal.aborted
  }
  const isolation = {
    from: packagesFrom,
    directory: isolatedDirectory,
    variables: options.handlerVariables,
  }
  const handlers = await findHandlerPackages(
    options.handler,
    packagesFrom,
    (error) => log.error({ err: error }, 'handler not usable'),
    isIsolated ? isolatedNames(isolation) : undefined,
  )

  starting = `waiting for the API server ${access.server.href}`
  if (!(await until(Promise.all([cluster.configurations.synced, cluster.instances.synced])))) return
  const running = await startAgent({
    cluster,
    kubelet,
    clock,
    log,
    node,
    observer: metrics,
    handlersDirectory: options.handlersDirectory,
    handlersGroup: options.handlersGroup,
    checkpointFile: path.join(options.stateDirectory, 'checkpoint.json'),
    brokerInfoDirectory: path.join(options.stateDirectory, 'broker-info'),
    offerBrokerInfo: options.brokerInfo === 'on',
    handlerAddresses: new AllowedAddresses(options.handlerAddresses, pods),
    access: handlerAccess(options, new KernelDeviceNodes()),
    resourceNames: {
      read: () => nodeResourceNames(client, node),
      most: options.maxResourceNames,
      atOnce: options.maxDevices,
      perHour: options.newResourceNames,
    },
    bounds: {
      perConfiguration: options.maxConfigurationDevices,
      perNode: options.maxDevices,
      slots: options.maxSlots,
    },
    ...(isIsolated
      ? {
          embedded: [],
          isolated: { names: handlers.map(({ name }) => name), directory: isolatedDirectory },
        }
      : { embedded: handlers }),
    unhealthyAfterMs: options.unhealthyAfter * 1000,
    removeAfterMs: options.removeAfter * 1000,
    slotHandoverMs: options.slotHandover * 1000,
    slotGraceMs: slotGraceMs(options),
    compatibility: options.compatibility,
  })
  agent = running
  // The agent closes before the handlers: it would count the end of a handler as a failure.
  let endHandlers: () => unknown = () => {}
  closer.add(() => endHandlers())
  closer.add(() => running.close())
  if (isIsolated) {
    // The start of their processes takes the processors that the first offer needs.
    if (!(await until(running.offered))) return
    const { logLevel } = options
    endHandlers = runIsolated(handlers, { ...isolation, logLevel, clock, log })
  }
  await until(ended)
}

/**
 * Whether a failed request is a problem of the node. Lost races are none. Neither is a Secret that
 * the agent may not read: the Configuration that refers to it shows that.
 */
function isApiProblem(path: string, error: ApiError | ApiUnreachableError): boolean {
  if (!ApiError.is(error)) return true
  if (error.status === 403) return !/\/(secrets|configmaps)\b/.test(path)
  return error.status === 401 || error.status === 429 || error.status >= 500
}
