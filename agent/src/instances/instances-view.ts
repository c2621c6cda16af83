import type { InstanceName } from '@akrijs/api'
import type { DigestCollision } from './device-names.js'
import type { InstancePlan, PlannedInstance, TakenName } from './instance-plan.js'
import type { NameRefusal } from './resource-names.js'

/** An Instance that is being deleted while its device is there. */
export interface HeldInstance {
  readonly name: InstanceName
  readonly finalizers: readonly string[]
}

/** What the status of a Configuration says of its Instances on this node. */
export interface InstancesView {
  /** Devices without an Instance, because other devices have their digests. */
  readonly collisions: readonly DigestCollision[]
  /** Resources that are not offered, because their names are new. */
  readonly refusals: readonly NameRefusal[]
  /** Devices without an Instance, because an older Configuration has its name. */
  readonly taken: readonly TakenName[]
  /** The Instances whose deletion keeps a device from being offered. */
  readonly held: readonly HeldInstance[]
  /**
   * How many devices have an Instance. A shared Instance counts before it names this node: then
   * nodes that wait to join all at once do not report twice.
   */
  readonly present: number
  /** The Instances that this node serves. */
  readonly served: ReadonlyMap<InstanceName, PlannedInstance>
}

/** Before the first pass. Any change of an Instance may count. */
export const NO_PLAN: InstancePlan = {
  of: 0,
  served: new Map(),
  left: new Map(),
  collisions: [],
  taken: [],
  claimed: new Set(),
}

export function instancesView(
  plan: InstancePlan,
  refusals: readonly NameRefusal[] = [],
): InstancesView {
  const { collisions, taken, served } = plan
  const held: HeldInstance[] = []
  let present = 0
  for (const { name, presence, existing } of served.values()) {
    if (presence !== 'absent') present++
    if (presence === 'held') held.push({ name, finalizers: existing?.metadata.finalizers ?? [] })
  }
  return { collisions, refusals: refusals, taken, held, present, served }
}
