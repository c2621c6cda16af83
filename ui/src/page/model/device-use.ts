import type { ShownDevice } from './shown.js'

/** A slot of a device. */
export interface ShownSlot {
  readonly name: string
  /** Who uses it, in words; empty if it is free. */
  readonly holder: string
}

/** The slots in the order of their index; those beyond the capacity are still in use. */
export function slotsOf({ object, users = {} }: ShownDevice): readonly ShownSlot[] {
  const { capacity, deviceUsage } = object.spec
  const names = new Set<string>()
  // The capacity is a number of a person: only what there is room for gets a row.
  for (let index = 0; index < Math.min(capacity, MAX_SLOTS); index++)
    names.add(`${object.metadata.name}-${index}`)
  for (const [name, usage] of Object.entries(deviceUsage)) if (usage !== '') names.add(name)
  return [...names].map((name) => {
    const user = Object.hasOwn(users, name) ? `: ${users[name]}` : ''
    const holder = holderText(deviceUsage[name] ?? '')
    return { name, holder: holder && `${holder}${user}` }
  })
}

const MAX_SLOTS = 1000

/** `C:<virtual id>:<node>`: a claim through the resource of the Configuration. */
function holderText(usage: string): string {
  if (usage === '') return ''
  const [, , node] = /^(C):[^:]+:([^:]+)$/.exec(usage) ?? []
  return node === undefined ? `used on ${usage}` : `used on ${node}, as any device of its kind`
}

export function heldSlots({ object }: ShownDevice): number {
  return Object.values(object.spec.deviceUsage).filter((usage) => usage !== '').length
}

export type Health = 'good' | 'wrong' | 'waiting'

/** What is wrong with a device or its broker, in words. */
export interface DeviceState {
  readonly health: Health
  /** @default '' */
  readonly text: string
}

/** The problem of a device, or else of its broker. */
export function deviceState({ object, broker }: ShownDevice): DeviceState {
  const problem = object.status?.conditions?.find(
    ({ type, status }) => type === 'DeviceProblem' && status === 'True',
  )
  if (problem !== undefined) return { health: 'wrong', text: problem.message || problem.reason }
  if (broker === undefined) return { health: 'good', text: '' }
  const { phase, reason = '' } = broker
  const text = `broker ${phase}${reason === '' ? '' : `: ${reason}`}`
  // A start, or a wait for a slot, is over soon.
  if (phase === 'waiting' && /^(starting$|for )/.test(reason)) return { health: 'waiting', text }
  if (['waiting', 'none', 'failed'].includes(phase)) return { health: 'wrong', text }
  return { health: 'good', text: phase === 'running' ? 'broker running' : text }
}
