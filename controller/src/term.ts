import { CONFIGURATIONS, type Compatibility, INSTANCES, type Instance } from '@akrijs/api'
import type { ApiClient, EventRecorder } from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import { BrokerFailures } from './brokers/broker-problem.js'
import { Rollouts } from './brokers/rollouts.js'
import type { ClusterState, StoredConfiguration } from './cluster-state.js'
import { FirstSights } from './first-sights.js'
import type { ControllerMetrics } from './metrics.js'
import { StatusWriter } from './status-writer.js'

export interface ControllerOptions {
  /** A state that has been started. */
  readonly state: ClusterState
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly events: Pick<EventRecorder, 'record'>
  /** How long a node may be silent before it counts as lost, in milliseconds. */
  readonly nodeGraceMs: number
  /** The other system whose agents run in the cluster too. @default off */
  readonly compatibility?: Compatibility
  /** @default none */
  readonly metrics?: Pick<ControllerMetrics, 'measure' | 'follow' | 'brokerRestarted'>
}

/** One term of the leading replica: all work gets it, and nothing of it outlives the term. */
export interface Term extends ControllerOptions {
  readonly sights: FirstSights
  readonly failures: BrokerFailures
  readonly rollouts: Rollouts
  readonly instanceStatus: StatusWriter<Instance>
  readonly configurationStatus: StatusWriter<StoredConfiguration>
}

export function beginTerm(options: ControllerOptions): Term {
  const { state, clock, log } = options
  const { instances, configurations } = state
  const sights = new FirstSights(clock)
  return {
    ...options,
    sights,
    rollouts: new Rollouts(sights, instances.cache.list()),
    failures: new BrokerFailures(),
    instanceStatus: new StatusWriter({ kind: INSTANCES, collection: instances, clock, log }),
    configurationStatus: new StatusWriter({
      kind: CONFIGURATIONS,
      collection: configurations,
      clock,
      log,
    }),
  }
}
