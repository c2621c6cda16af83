import { isDeepStrictEqual } from 'node:util'
import { type JsonPatch, type NodeName, pointer } from '@akrijs/kube/objects'
import { type Compatibility, omitsFreeSlots, writableCapacity } from './compatibility.js'
import type { SlotName } from './names.js'
import { claimsOf, holderOf, resizedUsage, slotIndex } from './slot-usage.js'
import type { Instance } from './types.js'

// JSON patches (RFC 6902) that change an Instance only if it is still as it was read: the server
// refuses the whole patch if a test of it fails.

const slotPath = (slot: string) => pointer('spec', 'deviceUsage', slot)

/** The object must have the version that was read. */
export const sameVersion = ({ metadata }: Instance) =>
  ({
    op: 'test',
    path: pointer('metadata', 'resourceVersion'),
    value: metadata.resourceVersion,
  }) as const

/** Claims a slot that is free in this Instance. */
export function claimPatch(instance: Instance, slot: SlotName, usage: string): JsonPatch {
  const { deviceUsage, capacity } = instance.spec
  const path = slotPath(slot)
  // The existing system omits free slots, and a patch cannot test that a key is absent. If slots
  // beyond a lowered capacity are claimed, another claim of any slot may exceed the capacity.
  const beyond = Object.entries(deviceUsage).some(
    ([name, claim]) =>
      claim !== '' && (slotIndex(instance.metadata.name, name) ?? capacity) >= capacity,
  )
  if (!Object.hasOwn(deviceUsage, slot) || beyond)
    return [sameVersion(instance), { op: 'add', path, value: usage }]
  return [
    { op: 'test', path, value: '' },
    { op: 'replace', path, value: usage },
  ]
}

/**
 * Releases a slot that has this claim. A slot beyond the capacity is removed, and each slot of an
 * Instance that omits free slots.
 */
export function releasePatch(
  instance: Instance,
  slot: SlotName,
  usage: string,
  compatibility: Compatibility = 'off',
): JsonPatch {
  const index = slotIndex(instance.metadata.name, slot)
  const path = slotPath(slot)
  if (omitsFreeSlots(instance, compatibility))
    return [
      { op: 'test', path, value: usage },
      { op: 'remove', path },
    ]
  const { capacity } = instance.spec
  const stays = index !== undefined && index < capacity
  return [
    { op: 'test', path, value: usage },
    // The capacity decides whether the slot stays.
    { op: 'test', path: pointer('spec', 'capacity'), value: capacity },
    stays ? { op: 'replace', path, value: '' } : { op: 'remove', path },
  ]
}

/** Adds a node. The schema refuses a node that the list already has. */
export function joinPatch(node: NodeName): JsonPatch {
  return [{ op: 'add', path: pointer('spec', 'nodes', '-'), value: node }]
}

/**
 * Removes a node, and releases its slots. If several nodes leave at once, the last node must see
 * that it is the last: another node must be in the list. Only that node and the place of this node
 * are tested, so that nodes at later places can leave at the same time.
 */
export function leavePatch(
  instance: Instance,
  node: NodeName,
  compatibility: Compatibility = 'off',
): JsonPatch {
  const { nodes, deviceUsage } = instance.spec
  const freed = Object.entries(deviceUsage)
    .filter(([, usage]) => holderOf(usage) === node)
    .flatMap(([slot, usage]) => releasePatch(instance, slot as SlotName, usage, compatibility))
  const place = nodes.indexOf(node)
  const placePath = (index: number) => pointer('spec', 'nodes', String(index))
  // The first place is left last: see the wait before a leave.
  const other = place === 0 ? 1 : 0
  return [
    { op: 'test', path: placePath(place), value: node },
    { op: 'test', path: placePath(other), value: nodes[other] },
    { op: 'remove', path: placePath(place) },
    ...freed,
  ]
}

/**
 * Writes capacity and properties, and adds or removes slots to fit the capacity. Empty if all of
 * that is as it should be. An Instance that omits free slots loses empty texts.
 */
export function updatePatch(
  instance: Instance,
  change: Pick<Instance['spec'], 'capacity' | 'brokerProperties'>,
  compatibility: Compatibility = 'off',
): JsonPatch {
  const { spec } = instance
  const { brokerProperties } = change
  const capacity = writableCapacity(instance, change.capacity, compatibility)
  const resized = omitsFreeSlots(instance, compatibility)
    ? claimsOf(spec.deviceUsage)
    : resizedUsage(instance.metadata.name, capacity, spec.deviceUsage)
  const added = Object.keys(resized).filter((slot) => !Object.hasOwn(spec.deviceUsage, slot))
  const removed = Object.keys(spec.deviceUsage).filter((slot) => !Object.hasOwn(resized, slot))
  const fields = Object.entries({ capacity, brokerProperties }).filter(
    ([field, value]) => !isDeepStrictEqual(spec[field as keyof Instance['spec']], value),
  )
  const changes = [
    ...fields.map(
      ([field, value]) => ({ op: 'add', path: pointer('spec', field), value }) as const,
    ),
    ...added.map((slot) => ({ op: 'add', path: slotPath(slot), value: '' }) as const),
    ...removed.map((slot) => ({ op: 'remove', path: slotPath(slot) }) as const),
  ]
  return changes.length === 0 ? [] : [sameVersion(instance), ...changes]
}
