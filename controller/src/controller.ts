import { setMaxListeners } from 'node:events'
import { INSTANCES } from '@akrijs/api'
import { BrokerFailures } from './brokers/broker-failures.js'
import { FirstSights } from './first-sights.js'
import { queueMemberships } from './reports/membership-queue.js'
import { queueStatuses } from './reports/status-queues.js'
import { StatusWriter } from './status-writer.js'
import { type ControllerOptions, WorkQueues } from './work-queues.js'
import { queueWorkloads } from './workload-queues.js'

/**
 * Does the controller's work until the turn of this replica ends. A change of an object reconciles
 * everything that depends on the object. No state but that of the API server outlives a turn.
 */
export async function control(options: ControllerOptions, turn: AbortSignal): Promise<void> {
  // Each queue and each request adds a listener.
  setMaxListeners(0, turn)
  const { state, clock, log } = options
  const queues = new WorkQueues(options, turn)
  const shared = {
    ...options,
    sights: new FirstSights(clock),
    failures: new BrokerFailures(),
    instanceStatus: new StatusWriter({
      kind: INSTANCES,
      collection: state.instances,
      clock,
      log,
    }),
  }
  const { rollouts, nodes } = queueWorkloads(shared, queues, turn)
  queueStatuses({ ...shared, rollouts, nodes }, queues, turn)
  queueMemberships(options, queues, turn)
  await queues.run()
}
