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
  const beyond = Object.entries(claims).flatMap(([name, holder]) => {
    const slot = name as SlotName
    return holder === '' || slots.has(slot) ? [] : [[slot, parseSlotUsage(holder)] as const]
  })
  const isLeaving = instance?.metadata.deletionTimestamp !== undefined
  const state = instance === undefined ? 'absent' : isLeaving ? 'leaving' : 'there'
  const nodes = instance?.spec.nodes ?? []
  return offeredBy(node, { served, state, nodes, slots, beyond: mapOf(beyond) })
}

/** What follows for a node. */
export function offeredBy(
  node: NodeName,
  known: Pick<InstanceSlots, 'served' | 'state' | 'nodes' | 'slots' | 'beyond'>,
): InstanceSlots {
  const { served, state, nodes, slots, beyond } = known
  const usable = served.healthy && state === 'there'
  const spare = new Set(usable ? spareSlots(slots, beyond.size) : [])
  const free =
    spare.size === 0
      ? []
      : slotsInClaimOrder(slots, { node, nodes }).flatMap(([slot]) => (spare.has(slot) ? slot : []))
  // Also those beyond the capacity: the kubelet knows their ids until their Pods end. Two slots
  // with one id are an error of another writer: the first counts.
  const ids = [...slots, ...beyond].flatMap(([slot, usage]) =>
    usage.level === 'configuration' && usage.node === node
      ? [[usage.virtualId, slot] as const]
      : [],
  )
  return { ...known, usable, free, byId: mapOf(ids.reverse()) }
}

const EMPTY = new Map<never, never>()

/** Nearly all of thousands of Instances have nothing in most of their maps. */
function mapOf<K, V>(entries: readonly (readonly [K, V])[]): ReadonlyMap<K, V> {
  return entries.length === 0 ? (EMPTY as ReadonlyMap<K, V>) : new Map(entries)
}

/**
 * The slots of an Instance that can be claimed. After the capacity was lowered, as many free slots
 * wait as claims are beyond the capacity.
 */
function spareSlots(slots: ReadonlyMap<SlotName, SlotUsage>, heldOverCapacity: number): SlotName[] {
  const free: SlotName[] = []
  slots.forEach((usage, slot) => {
    if (usage.level === 'free') free.push(slot)
  })
  return heldOverCapacity === 0 ? free : free.slice(0, Math.max(0, free.length - heldOverCapacity))
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
  const beginningAt = (index: number) => [...[...slots].slice(index), ...[...slots].slice(0, index)]
  // A node that has not joined yet will be the last one.
  const all = nodes.includes(node) ? nodes : [...nodes, node]
  const position = all.indexOf(node)
  const share = (end: number) => (end * slots.size) / all.length
  return position % 2 === 0
    ? beginningAt(Math.floor(share(position)))
    : beginningAt(Math.ceil(share(position + 1))).toReversed()
}

/** Whether both offer the same to the kubelet. */
export function isSameOffer(a: InstanceSlots, b: InstanceSlots): boolean {
  return (
    a.usable === b.usable &&
    a.served.healthy === b.served.healthy &&
    a.nodes.length === b.nodes.length &&
    a.nodes.every((node, index) => node === b.nodes[index]) &&
    isSameUsage(a.slots, b.slots) &&
    isSameUsage(a.beyond, b.beyond)
  )
}

function isSameUsage(
  a: ReadonlyMap<SlotName, SlotUsage>,
  b: ReadonlyMap<SlotName, SlotUsage>,
): boolean {
  if (a.size !== b.size) return false
  for (const [slot, usage] of a) {
    const other = b.get(slot)
    if (other === undefined || textOf(usage) !== textOf(other)) return false
  }
  return true
}

const textOf = (usage: SlotUsage) => Object.values(usage).join(' ')
