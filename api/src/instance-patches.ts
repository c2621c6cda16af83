import { type JsonPatch, type NodeName, pointer } from '@akrijs/kube/objects'
import type { SlotName } from './names.js'
import { heldSlots, holderOf, resizedUsage, slotIndex } from './slot-usage.js'
import type { Instance } from './types.js'

// JSON patches (RFC 6902) that change an Instance if it is still as it was read, and only what is theirs to change: a test
// that fails makes the server refuse the whole patch.

const slotPath = (slot: string) => pointer('spec', 'deviceUsage', slot)

/** The whole object must be the one that was read. */
const sameVersion = ({ metadata }: Instance) =>
  ({
    op: 'test',
    path: pointer('metadata', 'resourceVersion'),
    value: metadata.resourceVersion,
  }) as const

/** Writes who holds a slot that is free in this Instance. */
export function claimPatch(instance: Instance, slot: SlotName, usage: string): JsonPatch {
  const { deviceUsage, capacity } = instance.spec
  const path = slotPath(slot)
  // Another system leaves free slots out, and what is absent cannot be tested for itself. And where slots beyond a lowered
  // capacity are held, one more claim may be one too many, whichever slot it takes.
  const beyond = Object.entries(deviceUsage).some(
    ([name, held]) =>
      held !== '' && (slotIndex(instance.metadata.name, name) ?? capacity) >= capacity,
  )
  if (!Object.hasOwn(deviceUsage, slot) || beyond)
    return [sameVersion(instance), { op: 'add', path, value: usage }]
  return [
    { op: 'test', path, value: '' },
    { op: 'replace', path, value: usage },
  ]
}

/** Frees a slot that this usage holds; one beyond the capacity goes. */
export function releasePatch(instance: Instance, slot: SlotName, usage: string): JsonPatch {
  const index = slotIndex(instance.metadata.name, slot)
  const path = slotPath(slot)
  const { capacity } = instance.spec
  const stays = index !== undefined && index < capacity
  return [
    { op: 'test', path, value: usage },
    // Whether the slot stays depends on it.
    { op: 'test', path: pointer('spec', 'capacity'), value: capacity },
    stays ? { op: 'replace', path, value: '' } : { op: 'remove', path },
  ]
}

/** The schema refuses a node that is there already. */
export function joinPatch(node: NodeName): JsonPatch {
  return [{ op: 'add', path: pointer('spec', 'nodes', '-'), value: node }]
}

/** Takes a node out, and frees what it holds. Of nodes that leave at the same moment one must see that it is the last. */
export function leavePatch(instance: Instance, node: NodeName): JsonPatch {
  const { nodes, deviceUsage } = instance.spec
  const freed = Object.entries(deviceUsage)
    .filter(([, usage]) => holderOf(usage) === node)
    .flatMap(([slot, usage]) => releasePatch(instance, slot as SlotName, usage))
  return [
    { op: 'test', path: pointer('spec', 'nodes'), value: nodes },
    { op: 'remove', path: pointer('spec', 'nodes', String(nodes.indexOf(node))) },
    ...freed,
  ]
}

/** Writes capacity and properties, and fits the slots to the capacity. */
export function updatePatch(
  instance: Instance,
  { capacity, brokerProperties }: Pick<Instance['spec'], 'capacity' | 'brokerProperties'>,
): JsonPatch {
  const { deviceUsage } = instance.spec
  const wanted = resizedUsage(instance.metadata.name, capacity, deviceUsage)
  const added = Object.keys(wanted).filter((slot) => !Object.hasOwn(deviceUsage, slot))
  const gone = Object.keys(deviceUsage).filter((slot) => !Object.hasOwn(wanted, slot))
  return [
    sameVersion(instance),
    { op: 'add', path: pointer('spec', 'capacity'), value: capacity },
    { op: 'add', path: pointer('spec', 'brokerProperties'), value: brokerProperties },
    ...added.map((slot) => ({ op: 'add', path: slotPath(slot), value: '' }) as const),
    ...gone.map((slot) => ({ op: 'remove', path: slotPath(slot) }) as const),
  ]
}

/** Whether as many slots as the capacity are held. */
export function isFull({ spec }: Instance): boolean {
  return heldSlots(spec.deviceUsage) >= spec.capacity
}
