import type { Configuration } from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube/objects'
import type { Clock, Logger } from '@akrijs/runtime'
import type { Cluster } from '../cluster/cluster.js'
import type { AllocationLedger } from '../slots/allocation-ledger.js'
import { deviceIdAnnotation } from './existing-instances.js'
import { cdiName } from './instance-name.js'
import type { LeftInstance, PlannedInstance } from './instance-plan.js'
import type { InstanceWork } from './instance-work.js'

/** When a node looks again that has asked to join or to leave an Instance, in milliseconds. */
const ASKED_MS = 5000

export interface InstanceWritesOptions {
  readonly cluster: Cluster
  /** The claims of running containers in a recreated Instance. */
  readonly ledger: AllocationLedger
  readonly node: NodeName
  readonly clock: Clock
  readonly log: Logger
}

/**
 * Makes an Instance follow the plan.
 * @returns when to look again, in milliseconds; infinite if an event comes first
 */
export async function writeInstance(
  options: InstanceWritesOptions,
  configuration: Configuration,
  planned: PlannedInstance,
  work: InstanceWork,
): Promise<number> {
  const { cluster, ledger, node, log } = options
  const { key, name, capacity, properties } = planned
  if (work === 'create') await createInstance(options, configuration, planned)
  else if (work === 'join') {
    const outcome = await cluster.joinInstance(key, node, ledger.claimsIn(name))
    if (outcome === 'joined') log.info({ instance: name }, 'instance joined')
    return outcome === 'asked' ? ASKED_MS : Infinity
  } else if (work === 'update') {
    const change = { capacity, brokerProperties: properties }
    const outcome = await cluster.updateInstance(key, change)
    if (outcome === 'updated') log.info({ instance: name }, 'instance updated')
  } else if (work !== 'serve') await updateForFirstNode(options, configuration, planned)
  return Infinity
}

/** @returns when to look again, in milliseconds; infinite if an event comes first */
export async function leaveInstance(
  { cluster, ledger, node, log }: InstanceWritesOptions,
  { instance, device }: LeftInstance,
): Promise<number> {
  const { name } = instance.metadata
  // A container may have started since the plan. The change of the Instance makes another plan.
  if (device === 'renamed' && Object.keys(ledger.claimsIn(name)).length > 0) return Infinity
  const outcome = await cluster.leaveInstance(keyOf(instance), node)
  if (outcome === 'asked') return ASKED_MS
  log.info({ instance: name, outcome }, 'instance left')
  return Infinity
}

async function createInstance(
  { cluster, ledger, node, log }: InstanceWritesOptions,
  configuration: Configuration,
  planned: PlannedInstance,
): Promise<void> {
  const { namespace, name } = configuration.metadata
  const outcome = await cluster.createInstance({
    name: planned.name,
    namespace,
    annotations: deviceIdAnnotation(planned.device.id),
    owner: configuration,
    spec: {
      configurationName: name,
      cdiName: cdiName(name, planned.digest),
      capacity: planned.capacity,
      brokerProperties: planned.properties,
      shared: planned.shared,
      nodes: [node],
      deviceUsage: ledger.claimsIn(planned.name),
    },
  })
  // Otherwise another node was first, or an Instance of that name is being deleted. Its change
  // starts a reconcile.
  if (outcome === 'created')
    log.info({ instance: planned.name, device: planned.device.id }, 'instance created')
}

/**
 * Writes the capacity in place of the first node, whose agent may be down: the capacity is the
 * same on all nodes.
 */
async function updateForFirstNode(
  { cluster, log }: InstanceWritesOptions,
  configuration: Configuration,
  { name, key, capacity }: PlannedInstance,
): Promise<void> {
  // The cache of this node may be behind an edit.
  const now = await cluster.readConfiguration(keyOf(configuration))
  if (now?.metadata.uid !== configuration.metadata.uid || now.spec.capacity !== capacity) return
  if ((await cluster.updateInstance(key, { capacity })) === 'updated')
    log.info({ instance: name, capacity }, 'instance updated for its first node')
}
