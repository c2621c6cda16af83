import type { InstanceName } from '@akrijs/api'
import type { InstancePlan } from './instance-plan.js'
import type { NameRefusal } from './resource-names.js'

/** An Instance that is being deleted while its device is there. */
export interface HeldInstance {
  readonly name: InstanceName
  readonly finalizers: readonly string[]
}

/** What the status of a Configuration says of its Instances on this node. */
export interface InstancesView extends Pick<InstancePlan, 'served' | 'collisions' | 'taken'> {
  /** Resources that are not offered, because their names are new. */
  readonly refusals: readonly NameRefusal[]
  /** The Instances whose deletion keeps a device from being offered. */
  readonly held: readonly HeldInstance[]
  /**
   * How many devices have an Instance, also one that does not name this node yet: then nodes that
   * wait to join all at once do not report twice.
   */
  readonly present: number
}

/** Before the first pass. */
export const NO_PLAN: InstancePlan = {
  of: 0,
  served: new Map(),
  left: new Map(),
  collisions: [],
  taken: [],
  claimed: new Set(),
}

export function instancesView(
  { collisions, taken, served }: InstancePlan,
  refusals: readonly NameRefusal[],
): InstancesView {
  const held: HeldInstance[] = []
  let present = 0
  for (const { name, existing } of served.values()) {
    if (existing === undefined) continue
    const { deletionTimestamp, finalizers = [] } = existing.metadata
    present++
    if (deletionTimestamp !== undefined) held.push({ name, finalizers })
  }
  return { collisions, refusals, taken, held, present, served }
}
