import { deviceTitle } from './device-title.js'
import { deviceState, heldSlots } from './device-use.js'
import { configurationOf, type ShownDevice } from './shown.js'

export const STATES = {
  '': 'any state',
  free: 'with a free slot',
  used: 'in use',
  problem: 'with a problem',
} as const
export const SORTS = {
  '': 'by name',
  newest: 'newest first',
  configuration: 'by Configuration',
  free: 'most free slots first',
} as const

export interface DeviceQuery {
  /** Words, and `NAME=value` for a property. */
  readonly q?: string
  readonly configuration?: string
  readonly state?: string
  readonly sort?: string
}

interface Indexed {
  readonly title: string
  /** All texts of the device, in lower case. */
  readonly text: string
}

/** Each change of a device makes another object. */
const index = new WeakMap<ShownDevice, Indexed>()

function indexed(device: ShownDevice): Indexed {
  const before = index.get(device)
  if (before !== undefined) return before
  const { metadata, spec, status } = device.object
  const { title, detail } = deviceTitle(spec.brokerProperties, device.known)
  const texts = [title, detail, metadata.namespace, metadata.name, ...spec.nodes]
  const pairs = [spec.brokerProperties, status?.brokerInfo ?? {}]
    .flatMap(Object.entries)
    .map((pair) => pair.join('='))
  const made = { title, text: [...texts, ...pairs].join('\n').toLowerCase() }
  index.set(device, made)
  return made
}

/** A word in quotes keeps its spaces: `"hall 1"`, `MDNS_SERVICE_NAME="Hall 1"`. */
const WORD = /(?:[^\s"]|"[^"]*"?)+/g
const PROPERTY = /^([\w.-]+)=(.*)$/s

/** The devices that match all parts of a query, in its order. */
export function findDevices(
  devices: readonly ShownDevice[],
  { q = '', configuration = '', state = '', sort = '' }: DeviceQuery,
): ShownDevice[] {
  const tests = (q.match(WORD) ?? []).map(wordTest)
  const found = devices.filter(
    (device) =>
      (configuration === '' || configurationOf(device) === configuration) &&
      hasState(device, state) &&
      tests.every((test) => test(device)),
  )
  return found.sort((a, b) => order(a, b, sort) || byName(a, b))
}

function wordTest(written: string): (device: ShownDevice) => boolean {
  const word = written.replaceAll('"', '')
  const [, name = '', value = ''] = PROPERTY.exec(word) ?? []
  const text = word.toLowerCase()
  const hasText = (device: ShownDevice) => indexed(device).text.includes(text)
  if (name === '') return hasText
  return (device) => {
    const { brokerProperties } = device.object.spec
    if (!Object.hasOwn(brokerProperties, name)) return hasText(device)
    return brokerProperties[name]?.toLowerCase().includes(value.toLowerCase()) ?? false
  }
}

function hasState(device: ShownDevice, state: string): boolean {
  if (state === 'free') return heldSlots(device) < device.object.spec.capacity
  if (state === 'used') return heldSlots(device) > 0
  return state !== 'problem' || deviceState(device).health === 'wrong'
}

function order(a: ShownDevice, b: ShownDevice, sort: string): number {
  if (sort === 'newest') return compare(created(b), created(a))
  if (sort === 'configuration') return compare(configurationOf(a), configurationOf(b))
  if (sort === 'free') return freeSlots(b) - freeSlots(a)
  return 0
}

const created = ({ object }: ShownDevice) => object.metadata.creationTimestamp ?? ''
const freeSlots = (device: ShownDevice) => device.object.spec.capacity - heldSlots(device)
const collator = new Intl.Collator('en', { numeric: true })

function byName(a: ShownDevice, b: ShownDevice): number {
  return (
    collator.compare(indexed(a).title, indexed(b).title) ||
    compare(a.object.metadata.name, b.object.metadata.name)
  )
}

function compare(a: string, b: string): number {
  if (a === b) return 0
  return a < b ? -1 : 1
}

/** The search for devices whose property has this value. */
export function propertySearch(name: string, value: string): string {
  const text = value.replaceAll('"', '')
  return /[\s]/.test(text) ? `${name}="${text}"` : `${name}=${text}`
}
