import { mkdir } from 'node:fs/promises'
import path from 'node:path'
import { ApiClient, clusterAccess, type NodeName } from '@akrijs/kube'
import { type Logger, messageOf, systemClock } from '@akrijs/sdk'
import { aborted, findHandlerPackages, serveHealth } from '@akrijs/sdk/host'
import { type Agent, startAgent } from '../agent.js'
import { runIsolated } from '../discovery/isolated-handler.js'
import { ContainerRuntime } from '../kubelet/container-runtime.js'
import { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import { KubernetesCluster } from '../kubernetes/kubernetes-cluster.js'
import { KubernetesNodePods } from '../kubernetes/node-pods.js'
import { AgentMetrics } from '../metrics.js'
import { type AgentProgramOptions, slotGraceMs } from './agent-options.js'

/** Runs the agent of one node of a Kubernetes until the signal is aborted. */
export async function runAgent(
  options: AgentProgramOptions,
  { packagesFrom, log, signal }: { readonly packagesFrom: string; readonly log: Logger; readonly signal: AbortSignal },
): Promise<void> {
  const clock = systemClock
  const node = options.node as NodeName
  // In the order in which they are to be closed.
  const open: (() => Promise<unknown>)[] = []
  let agent: Agent | undefined
  let starting = 'starting'
  try {
    for (const directory of [options.stateDirectory, options.handlersDirectory])
      await mkdir(directory, { recursive: true, mode: 0o700 })
    const access = await clusterAccess({ kubeconfig: options.kubeconfig })
    const client = new ApiClient({
      access,
      clock,
      userAgent: 'akri-agent',
      onAnswer: ({ method, status }) => metrics.apiAnswered(method, status),
    })
    const cluster = new KubernetesCluster({ client, clock, log, node })
    const metrics = new AgentMetrics({
      node,
      configurations: () => cluster.configurations.list(),
      instances: () => cluster.instances.list(),
      endpoints: () => agent?.registry.size ?? 0,
      apiSilenceMs: () => cluster.silentForMs,
    })
    open.unshift(async () => client.close())
    // From the first moment on: a cluster that cannot be reached must show in the probes, not in a crash.
    const health = await serveHealth({
      port: options.metricsPort,
      ready: () => (agent === undefined ? starting : undefined),
      healthy: async () => agent?.healthy(),
      metrics: () => metrics.registry.metrics(),
    })
    open.unshift(() => health.close())
    cluster.start()
    open.unshift(() => cluster.close())
    const pods = new KubernetesNodePods({ client, clock, log, node })
    pods.start()
    open.unshift(() => pods.close())
    const kubelet = new KubeletSockets({
      pluginDirectory: options.pluginDirectory,
      podResourcesSocket: options.podResourcesSocket,
      ...(options.criSocket === undefined ? {} : { allocations: new ContainerRuntime(options.criSocket) }),
      pods,
      clock,
      log,
    })
    await kubelet.open()
    open.unshift(() => kubelet.close())
    const handlers = await findHandlerPackages(options.handler, packagesFrom, (error) =>
      log.error({ error: messageOf(error) }, 'handler cannot be used'),
    )

    starting = `waiting for the API server ${access.server.href}`
    const stopped = aborted(signal)
    await Promise.race([Promise.all([cluster.configurations.synced, cluster.instances.synced]), stopped])
    if (signal.aborted) return
    const running = await startAgent({
      cluster,
      kubelet,
      clock,
      log,
      node,
      observer: metrics,
      handlersDirectory: options.handlersDirectory,
      checkpointFile: path.join(options.stateDirectory, 'checkpoint.json'),
      brokerInfoDirectory: path.join(options.stateDirectory, 'broker-info'),
      offerBrokerInfo: options.brokerInfo === 'on',
      embedded: options.isolated === 'on' ? [] : handlers,
      unhealthyAfterMs: options.unhealthyAfter * 1000,
      removeAfterMs: options.removeAfter * 1000,
      slotHandoverMs: options.slotHandover * 1000,
      slotGraceMs: slotGraceMs(options),
    })
    agent = running
    open.unshift(() => running.close())
    if (options.isolated === 'on') {
      const end = runIsolated(handlers, { from: packagesFrom, directory: options.handlersDirectory, clock, log })
      // After the agent: a handler that ends while it is listened to is one that failed.
      open.splice(1, 0, end)
    }
    await stopped
  } finally {
    for (const close of open) await close()
  }
}
