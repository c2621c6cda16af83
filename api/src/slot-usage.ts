import type { NodeName } from '@akrijs/kube/objects'
import type { InstanceName, SlotName } from './names.js'
import type { Instance } from './types.js'

/** Who holds a slot, as the values of `deviceUsage` say it. */
export type SlotUsage =
  | { readonly level: 'free' }
  /** Claimed through the Instance's own resource: `<node>`. */
  | { readonly level: 'instance'; readonly node: NodeName }
  /** Claimed through the Configuration's resource: `C:<virtual id>:<node>`. */
  | { readonly level: 'configuration'; readonly virtualId: string; readonly node: NodeName }
  /** None of the three forms: nobody's to take or to free. */
  | { readonly level: 'unreadable'; readonly text: string }

export function parseSlotUsage(text: string | undefined): SlotUsage {
  if (text === undefined || text === '') return { level: 'free' }
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

/** The slot's index, or undefined where the text is not the name of a slot of this Instance. */
export function slotIndex(instance: InstanceName, slot: string): number | undefined {
  if (!slot.startsWith(`${instance}-`)) return undefined
  const digits = slot.slice(instance.length + 1)
  return /^(0|[1-9][0-9]{0,8})$/.test(digits) ? Number(digits) : undefined
}

/** The slots of an Instance in order of their index, all of them: what `deviceUsage` leaves out is free. */
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

/** One key for each slot of the capacity, free unless held; slots beyond the capacity stay for as long as somebody holds them. */
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
  for (const [slot, holder] of Object.entries(deviceUsage))
    if (holder !== '') slots.set(slot, holder)
  return Object.fromEntries(slots)
}

/** The node that holds a slot, if one does. */
export function holderOf(usage: string | undefined): NodeName | undefined {
  const parsed = parseSlotUsage(usage)
  return parsed.level === 'instance' || parsed.level === 'configuration' ? parsed.node : undefined
}

/** Of claims those whose slots nobody holds in the Instance. */
export function freeAmong(
  { spec: { deviceUsage } }: Pick<Instance, 'spec'>,
  claims: Readonly<Record<string, string>>,
): (readonly [SlotName, string])[] {
  return Object.entries(claims).flatMap(([slot, usage]) =>
    (deviceUsage[slot] ?? '') === '' ? [[slot as SlotName, usage] as const] : [],
  )
}

/** How many slots are held, also those beyond the capacity. */
export function heldSlots(deviceUsage: Readonly<Record<string, string>>): number {
  return Object.values(deviceUsage).filter((usage) => usage !== '').length
}
