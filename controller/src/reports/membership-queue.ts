import { keyOf, keyParts, type NodeName, type ObjectKey } from '@akrijs/kube'
import { type ControllerOptions, namespaceOf, type WorkQueues } from '../work-queues.js'
import { Memberships } from './memberships.js'

/**
 * How long nodes that join or leave an Instance are gathered, in milliseconds: each write of it
 * wakes all agents.
 */
const GATHER_MEMBERSHIPS_MS = 500

/** Queues the Instances that nodes want to join or to leave, as their reports ask. */
export function queueMemberships(
  options: ControllerOptions,
  queues: WorkQueues,
  turn: AbortSignal,
): void {
  const { state } = options
  const memberships = new Memberships(options)
  const joins = queues.queueOf<ObjectKey>(
    'Instance',
    (key, signal) => memberships.reconcile(key, signal),
    { gatherMs: GATHER_MEMBERSHIPS_MS, groupOf: namespaceOf },
  )
  const followReport = (key: ObjectKey) => {
    const report = state.reports.cache.get(key)
    const changed = memberships.follow(keyParts(key).name as NodeName, report?.memberships)
    for (const instance of changed) joins.add(instance)
  }
  state.reports.cache.onChange(followReport, turn)
  state.instances.cache.onChange((key) => {
    if (memberships.hasWishes(key)) joins.add(key)
  }, turn)
  state.reportIndex.onPresence((node) => {
    for (const instance of memberships.instancesOf(node)) joins.add(instance)
  }, turn)
  for (const report of state.reports.cache.list()) followReport(keyOf(report))
}
