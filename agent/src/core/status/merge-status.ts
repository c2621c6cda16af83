import {
  type Configuration,
  type ConfigurationStatus,
  conditionsOf,
  heldSlots,
  type Instance,
  type NodeStatus,
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

/** The status of a Configuration in the whole cluster, with the report of one node. */
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
    slots: {
      total: instances.reduce(
        (sum, { spec }) => sum + Math.max(spec.capacity, Object.keys(spec.deviceUsage).length),
        0,
      ),
      claimed: instances.reduce((sum, { spec }) => sum + heldSlots(spec.deviceUsage), 0),
    },
    nodes,
  }
}
