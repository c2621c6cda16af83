import { API_VERSION } from '@akrijs/api'
import { ApiClient, ApiError, EventRecorder, LeaderElection, warningLogger } from '@akrijs/kube'
import { clusterAccess } from '@akrijs/kube/access'
import { aborted, systemClock } from '@akrijs/runtime'
import type { ProgramContext } from '@akrijs/runtime/program'
import { ClusterState } from '../cluster-state.js'
import { control } from '../controller.js'
import { ControllerMetrics } from '../metrics.js'
import type { ControllerProgramOptions } from './controller-options.js'

/** The replica that holds this Lease leads. */
const LEASE = 'akri-controller'

/**
 * Runs a replica of the controller until the signal is aborted. Only the replica that leads works.
 */
export async function runController(
  options: ControllerProgramOptions,
  { log, signal, closer, serveHealth }: ProgramContext,
): Promise<void> {
  const clock = systemClock
  const { identity } = options
  let synced = false
  const access = await clusterAccess({ kubeconfig: options.kubeconfig })
  const client = new ApiClient({
    access,
    clock,
    userAgent: 'akri-controller',
    onAnswer: ({ method, status }) => metrics.apiAnswered(method, status),
    onFailure: ({ method }, error) => {
      if (!ApiError.is(error)) metrics.apiAnswered(method, undefined)
    },
    onWarning: warningLogger(log),
  })
  closer.add(() => client.close())
  const state = new ClusterState({ client, clock, log, agentNamespace: options.leaseNamespace })
  const election = new LeaderElection({
    client,
    clock,
    namespace: options.leaseNamespace,
    name: LEASE,
    identity,
    onError: (error) => log.warn({ err: error }, 'leader election failed'),
  })
  const metrics = new ControllerMetrics({
    pods: () => state.podsOfConfigurations(),
    configurations: () => state.configurations.cache.list(),
    leads: () => election.leads,
    apiSilenceMs: () => state.silentForMs,
  })
  // Before the first request: an unreachable API server must show in the probes, not in a crash.
  const metricsPort = await serveHealth({
    port: options.metricsPort,
    ready: () => (synced ? undefined : `waiting for the API server ${access.server.href}`),
    metrics: () => metrics.registry.metrics(),
  })
  state.start()
  closer.add(() => state.close())
  const events = new EventRecorder({
    client,
    clock,
    apiVersion: API_VERSION,
    source: 'akri-controller',
    host: identity,
    onError: (error) => log.debug({ err: error }, 'event not written'),
  })
  const recording = events.run(signal)
  closer.add(() => recording)
  const stopped = aborted(signal)
  await Promise.race([state.synced, stopped])
  if (signal.aborted) return
  synced = true
  log.info({ identity, metricsPort }, 'controller started')
  await election.run(signal, async (turn) => {
    log.info({}, 'this replica leads')
    await control(
      {
        state,
        client,
        clock,
        log,
        events,
        metrics,
        nodeGraceMs: options.nodeGrace * 1000,
        compatibility: options.compatibility,
      },
      turn,
    )
    log.info({}, 'this replica no longer leads')
  })
}
