import {
  type Configuration,
  type ConfigurationStatus,
  conditionsOf,
  type Instance,
  type NodeStatus,
  slotCounts,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'

interface StatusMerge {
  readonly configuration: Pick<Configuration, 'metadata' | 'status'>
  /** The Instances of this Configuration on all nodes. */
  readonly instances: readonly Instance[]
  readonly node: NodeName
  /** The status on that node. */
  readonly report: NodeStatus
  /** ISO 8601. */
  readonly now: string
}

/**
 * The status of a Configuration in a cluster without a controller, with the report of one node.
 */
export function mergeStatus({
  configuration,
  instances,
  node,
  report,
  now,
}: StatusMerge): ConfigurationStatus {
  const before = configuration.status
  const nodes = { ...before?.nodes, [node]: report }
  return {
    observedGeneration: configuration.metadata.generation,
    conditions: conditionsOf(nodes, before?.conditions ?? [], now),
    devices: instances.length,
    slots: slotCounts(instances),
    nodes,
  }
}
