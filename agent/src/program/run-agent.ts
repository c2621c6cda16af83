import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { ApiClient, ApiError, type NodeName, objectKey, warningLogger } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { aborted, type Clock, runAfter, systemClock } from '@akrijs/runtime'
import type { ProgramContext } from '@akrijs/runtime/program'
import { findHandlerPackages } from '@akrijs/sdk/handler'
import { KubernetesCluster } from '../cluster/kubernetes-cluster.js'
import { KubernetesNodePods } from '../cluster/node-pods.js'
import { nodeResourceNames } from '../cluster/own-node.js'
import { isolatedNames, runIsolated } from '../handlers/isolated-handler.js'
import { AllowedAddresses } from '../handlers/registration-request.js'
import { containerRuntime } from '../kubelet/allocation-sources.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { NodeProblems } from '../report/node-problems.js'
import { type Agent, type AgentOptions, startAgent } from './agent.js'
import { type AgentProgramOptions, handlerAccess, slotGraceMs } from './agent-options.js'
import { AgentMetrics } from './metrics.js'

/**
 * How long the writes to the API server may take that are under way when the agent has to end, in
 * milliseconds. The kubelet kills the agent of the chart after 20 s, and the agent has more to do.
 */
const LAST_WRITES_MS = 5000

interface RunContext extends ProgramContext {
  /** The directory from which packages of handlers are resolved. */
  readonly packagesFrom: string
  /** @default the clock of the system */
  readonly clock?: Clock
}

/** Runs the agent of one node of a Kubernetes until the signal is aborted. */
export async function runAgent(options: AgentProgramOptions, context: RunContext): Promise<void> {
  const { packagesFrom: from, log, signal, closer, serveHealth, clock = systemClock } = context
  // Handlers in Pods can write to the directory that they share with the agent, not to this one.
  const directory = path.join(options.stateDirectory, 'isolated')
  const isolation = { from, directory, variables: options.handlerVariables }
  const isIsolated = options.isolated === 'on'
  const { stateDirectory, handlersDirectory } = options
  for (const each of [stateDirectory, handlersDirectory, ...(isIsolated ? [directory] : [])])
    await mkdir(each, { recursive: true, mode: 0o700 })
  let agent: Agent | undefined
  let starting = 'starting'
  const api = await openApi(options, context)
  // First of all: an unreachable cluster must show in the probes, not in a crash.
  await serveHealth({
    port: options.metricsPort,
    ready: () => (agent === undefined ? starting : kubelet.problem),
    healthy: async () => agent?.healthy(),
    metrics: () => api.metrics.registry.metrics(),
  })
  for (const part of [api.cluster, api.pods]) closer.own(part).start()
  const { pluginDirectory, podResourcesSocket, criSocket } = options
  const allocations = criSocket === undefined ? undefined : containerRuntime(criSocket)
  const sockets = { pluginDirectory, podResourcesSocket, allocations }
  const kubelet = new KubeletSockets({ ...sockets, pods: api.pods, clock, log })
  await kubelet.open()
  closer.own(kubelet)
  const ended = Promise.race([aborted(signal), kubelet.gone])
  void ended.then(() => runAfter(clock, LAST_WRITES_MS, api.over.signal, () => api.over.abort()))
  const until = async (event: Promise<unknown>) => {
    const gone = await Promise.race([event.then(() => undefined), ended])
    if (gone !== undefined) throw gone
    return !signal.aborted
  }
  const handlers = await findHandlerPackages(
    options.handler,
    from,
    (error) => log.error({ err: error }, 'handler not usable'),
    isIsolated ? isolatedNames(isolation) : undefined,
  )
  starting = `waiting for the API server ${api.server.href}`
  const { configurations, instances } = api.cluster
  if (!(await until(Promise.all([configurations.synced, instances.synced])))) return
  const names = handlers.map(({ name }) => name)
  const running = await startAgent({
    ...settingsOf(options, api),
    ...(isIsolated ? { embedded: [], isolated: { names, directory } } : { embedded: handlers }),
    ...{ kubelet, clock, log },
  })
  agent = running
  api.metrics.agent = running
  // The agent closes before the handlers: it would count the end of a handler as a failure.
  let endHandlers: () => unknown = () => {}
  closer.add(() => endHandlers())
  closer.own(running)
  // The start of their processes takes the processors that the first offer needs.
  if (isIsolated && (await until(running.offered)))
    endHandlers = runIsolated(handlers, { ...isolation, logLevel: options.logLevel, clock, log })
  await until(ended)
}

type Api = Awaited<ReturnType<typeof openApi>>

/** The API server, and what its answers and failures show. */
async function openApi(
  options: AgentProgramOptions,
  { log, closer, clock = systemClock }: RunContext,
) {
  const { pod, podNamespace, compatibility } = options
  const node = options.node as NodeName
  const access = await clusterAccess({ kubeconfig: options.kubeconfig })
  /** Ends the requests that are under way. */
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
      const status = ApiError.is(error) ? error.status : undefined
      if (status === undefined) metrics.apiAnswered(method, status)
      const isAway = status === undefined || status === 429 || status >= 500
      if (isAway) problems.apiFails()
      // Lost races are no problems of the node. Neither is a Secret that the agent may not read:
      // its Configuration shows that.
      const isSource = /\/(secrets|configmaps)\b/.test(of)
      const isRefused = status === 401 || (status === 403 && !isSource)
      if (isAway || isRefused) metrics.failed('ApiRequestFailed', error)
    },
    onWarning: warningLogger(log),
  })
  closer.own(client)
  closer.add(() => over.abort())
  const shared = { client, clock, log, node }
  const agentPod = { agentPod: pod, agentNamespace: podNamespace }
  const cluster = new KubernetesCluster({ ...shared, ...agentPod, compatibility })
  const pods = new KubernetesNodePods(shared)
  const key = pod && podNamespace ? objectKey(podNamespace, pod) : undefined
  const problems = new NodeProblems({ ...shared, cluster, pods, pod: key })
  const metrics = new AgentMetrics(node, cluster, problems)
  return { client, server: access.server, cluster, pods, metrics, over }
}

/** The options of the agent that follow from those of the program, and from the API server. */
function settingsOf(options: AgentProgramOptions, { client, cluster, pods, metrics }: Api) {
  return {
    cluster,
    observer: metrics,
    node: options.node as NodeName,
    handlersDirectory: options.handlersDirectory,
    handlersGroup: options.handlersGroup,
    checkpointFile: path.join(options.stateDirectory, 'checkpoint.json'),
    brokerInfoDirectory: path.join(options.stateDirectory, 'broker-info'),
    offerBrokerInfo: options.brokerInfo === 'on',
    access: handlerAccess(options, new KernelDeviceNodes()),
    bounds: {
      perConfiguration: options.maxConfigurationDevices,
      perNode: options.maxDevices,
      slots: options.maxSlots,
    },
    unhealthyAfterMs: options.unhealthyAfter * 1000,
    removeAfterMs: options.removeAfter * 1000,
    slotHandoverMs: options.slotHandover * 1000,
    slotGraceMs: slotGraceMs(options),
    compatibility: options.compatibility,
    handlerAddresses: new AllowedAddresses(options.handlerAddresses, pods),
    resourceNames: {
      read: () => nodeResourceNames(client, options.node as NodeName),
      bounds: {
        most: options.maxResourceNames,
        atOnce: options.maxDevices,
        perHour: options.newResourceNames,
      },
    },
  } satisfies Partial<AgentOptions>
}
