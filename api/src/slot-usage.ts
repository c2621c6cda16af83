import type { NodeName } from '@akrijs/kube/objects'
import type { InstanceName, SlotName } from './names.js'
import type { Instance, SlotCounts } from './types.js'

/** The value of a slot in `deviceUsage`: free, or a claim. */
export type SlotUsage =
  | { readonly level: 'free' }
  /** A claim through the resource of the Instance: `<node>`. */
  | { readonly level: 'instance'; readonly node: NodeName }
  /** A claim through the resource of the Configuration: `C:<virtual id>:<node>`. */
  | { readonly level: 'configuration'; readonly virtualId: string; readonly node: NodeName }
  /** Any other text: no node claims or releases such a slot. */
  | { readonly level: 'unreadable'; readonly text: string }

const FREE: SlotUsage = { level: 'free' }

export function parseSlotUsage(text: string | undefined): SlotUsage {
  if (text === undefined || text === '') return FREE
  if (!text.includes(':')) return { level: 'instance', node: text as NodeName }
  const [prefix, virtualId, node, ...rest] = text.split(':')
  if (prefix !== 'C' || !virtualId || !node || rest.length > 0) return { level: 'unreadable', text }
  return { level: 'configuration', virtualId, node: node as NodeName }
}

export function formatSlotUsage(usage: Exclude<SlotUsage, { level: 'unreadable' }>): string {
  if (usage.level === 'free') return ''
  return usage.level === 'instance' ? usage.node : `C:${usage.virtualId}:${usage.node}`
}

export function slotName(instance: InstanceName, index: number): SlotName {
  return `${instance}-${index}` as SlotName
}

/** The index of a slot; undefined if the text is not the name of a slot of this Instance. */
export function slotIndex(instance: InstanceName, slot: string): number | undefined {
  if (!slot.startsWith(`${instance}-`)) return undefined
  const digits = slot.slice(instance.length + 1)
  return /^(0|[1-9][0-9]{0,8})$/.test(digits) ? Number(digits) : undefined
}

/**
 * All slots of an Instance, in the order of their index. A slot that `deviceUsage` omits is free.
 */
export function slotsOf(
  instance: InstanceName,
  capacity: number,
  deviceUsage: Readonly<Record<string, string>>,
): Map<SlotName, SlotUsage> {
  const slots = new Map<SlotName, SlotUsage>()
  for (let index = 0; index < capacity; index++) {
    const name = slotName(instance, index)
    slots.set(
      name,
      parseSlotUsage(Object.hasOwn(deviceUsage, name) ? deviceUsage[name] : undefined),
    )
  }
  return slots
}

/**
 * A key for each slot of the capacity. A slot beyond the capacity stays as long as it is claimed.
 */
export function resizedUsage(
  instance: InstanceName,
  capacity: number,
  deviceUsage: Readonly<Record<string, string>>,
): Record<string, string> {
  const slots = new Map<string, string>()
  for (let index = 0; index < capacity; index++) {
    const name = slotName(instance, index)
    slots.set(name, Object.hasOwn(deviceUsage, name) ? (deviceUsage[name] ?? '') : '')
  }
  for (const [slot, usage] of Object.entries(deviceUsage)) if (usage !== '') slots.set(slot, usage)
  return Object.fromEntries(slots)
}

/** Without free slots. */
export function claimsOf(deviceUsage: Readonly<Record<string, string>>): Record<string, string> {
  return Object.fromEntries(Object.entries(deviceUsage).filter(([, usage]) => usage !== ''))
}

/** The node that claims a slot, if any. */
export function holderOf(usage: string | undefined): NodeName | undefined {
  const parsed = parseSlotUsage(usage)
  return parsed.level === 'instance' || parsed.level === 'configuration' ? parsed.node : undefined
}

/** The claims whose slots are free in the Instance. */
export function freeAmong(
  { spec: { deviceUsage } }: Pick<Instance, 'spec'>,
  claims: Readonly<Record<string, string>>,
): (readonly [SlotName, string])[] {
  return Object.entries(claims).flatMap(([slot, usage]) =>
    (deviceUsage[slot] ?? '') === '' ? [[slot as SlotName, usage] as const] : [],
  )
}

/** The number of claimed slots, also beyond the capacity. */
export function heldSlots(deviceUsage: Readonly<Record<string, string>>): number {
  return Object.values(deviceUsage).filter((usage) => usage !== '').length
}

/** The slots of Instances, with claims beyond the capacity, and how many of them are claimed. */
export function slotCounts(instances: readonly Instance[]): Required<SlotCounts> {
  let [total, claimed] = [0, 0]
  for (const { spec } of instances) {
    total += Math.max(spec.capacity, Object.keys(spec.deviceUsage).length)
    claimed += heldSlots(spec.deviceUsage)
  }
  return { total, claimed, free: Math.max(0, total - claimed) }
}

/** The nodes that an Instance names: nodes that see the device, and nodes that claim a slot. */
export function nodesOf({ spec }: Instance): Set<NodeName> {
  const holders = Object.values(spec.deviceUsage).flatMap((usage) => holderOf(usage) ?? [])
  return new Set([...spec.nodes, ...holders])
}
