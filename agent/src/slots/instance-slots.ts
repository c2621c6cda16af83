import {
  holderOf,
  type Instance,
  parseSlotUsage,
  type SlotName,
  type SlotUsage,
  slotsOf,
} from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import type { DeviceUsage } from '../cluster/cluster.js'
import type { ServedInstance } from '../instances/served-instance.js'

/**
 * The slots of an Instance, as this node may offer them. What is offered, preferred and allocated
 * at both levels is computed from this, so Allocate refuses no offered slot.
 */
export interface InstanceSlots {
  readonly served: ServedInstance
  /** Whether the cluster has the Instance: `leaving` while it is being deleted. */
  readonly state: 'there' | 'leaving' | 'absent'
  /** Whether a slot can be allocated: the device is healthy, and the Instance is there. */
  readonly usable: boolean
  /** The nodes that see the device, in the order of the Instance. */
  readonly nodes: readonly NodeName[]
  /** The slots of the capacity, with what containers of this node have, recorded or not. */
  readonly slots: ReadonlyMap<SlotName, SlotUsage>
  /** The claimed slots beyond a lowered capacity: as many free slots wait. */
  readonly beyond: ReadonlyMap<SlotName, SlotUsage>
  /** The slots that can be claimed now, in the order in which this node claims them. */
  readonly free: readonly SlotName[]
  /** The slots that this node has by the resource of the Configuration, by their ids. */
  readonly byId: ReadonlyMap<string, SlotName>
}

interface SlotFacts {
  readonly served: ServedInstance
  /** As the cluster has it; undefined before it exists. */
  readonly instance: Instance | undefined
  /** The claims of the Instance, with reservations. @default the Instance's own claims */
  readonly usage?: DeviceUsage | undefined
  /** The claims of containers of this node, as the Instance should record them. */
  readonly inUse?: Readonly<Record<SlotName, string>>
}

export function instanceSlots(
  { served, instance, usage = instance?.spec.deviceUsage ?? {}, inUse = {} }: SlotFacts,
  node: NodeName,
): InstanceSlots {
  // Until the Instance follows its Configuration, the smaller of the two capacities counts.
  const capacity = Math.min(served.capacity, instance?.spec.capacity ?? served.capacity)
  const claims: Record<string, string> = { ...usage }
  // Another claim that this node has on the slot of a container waits for its release.
  for (const [slot, claim] of Object.entries(inUse))
    if (!claims[slot] || holderOf(claims[slot]) === node) claims[slot] = claim
  const slots = slotsOf(served.name, capacity, claims)
  const beyond = new Map<SlotName, SlotUsage>()
  for (const [name, claim] of Object.entries(claims)) {
    const slot = name as SlotName
    if (claim !== '' && !slots.has(slot)) beyond.set(slot, parseSlotUsage(claim))
  }
  const isLeaving = instance?.metadata.deletionTimestamp !== undefined
  const state = instance === undefined ? 'absent' : isLeaving ? 'leaving' : 'there'
  const usable = served.healthy && state === 'there'
  const nodes = instance?.spec.nodes ?? []
  const unclaimed = [...slots].flatMap(([slot, { level }]) => (level === 'free' ? slot : []))
  // After the capacity was lowered, as many free slots wait as claims are beyond the capacity.
  const count = usable ? Math.max(0, unclaimed.length - beyond.size) : 0
  const claimable = new Set(unclaimed.slice(0, count))
  const free =
    count === 0
      ? []
      : slotsInClaimOrder(slots, { node, nodes }).flatMap(([slot]) =>
          claimable.has(slot) ? slot : [],
        )
  const byId = new Map<string, SlotName>()
  // Also those beyond the capacity: the kubelet knows their ids until their Pods end. Two slots
  // with one id are an error of another writer: the first counts.
  for (const [slot, claim] of [...slots, ...beyond])
    if (claim.level === 'configuration' && claim.node === node && !byId.has(claim.virtualId))
      byId.set(claim.virtualId, slot)
  return { served, state, usable, nodes, slots, beyond, free, byId }
}

/**
 * The slots of an Instance in the order in which the node claims them, at both levels. Nodes begin
 * at different slots, and each pair of nodes counts towards each other. So nodes that choose at the
 * same moment rarely choose the same slot.
 * @param nodes all nodes of the Instance, in the same order on each node
 */
export function slotsInClaimOrder(
  slots: ReadonlyMap<SlotName, SlotUsage>,
  { node, nodes }: { readonly node: NodeName; readonly nodes: readonly NodeName[] },
): [SlotName, SlotUsage][] {
  const all = [...slots]
  const beginningAt = (index: number) => [...all.slice(index), ...all.slice(0, index)]
  // A node that has not joined yet will be the last one.
  const members = nodes.includes(node) ? nodes : [...nodes, node]
  const position = members.indexOf(node)
  const share = (end: number) => (end * slots.size) / members.length
  return position % 2 === 0
    ? beginningAt(Math.floor(share(position)))
    : beginningAt(Math.ceil(share(position + 1))).toReversed()
}
