import type { Device, DeviceMap } from '@akrijs/sdk'
import { type FilterList, passesFilter } from '@akrijs/sdk/network'
import { MAX_DEVICES, MAX_PARTS, MAX_PARTS_OF_DEVICE, MAX_TOPICS } from './limits.js'

/** Why a device is not offered. */
export interface Absence {
  readonly reason: string
  readonly detail?: string
}

/** What one message says of a device. A device can have several parts. */
export interface Part {
  readonly id: string
  /** Without a present part there is no device. */
  readonly isPresent: boolean
  /** Why the device is not offered, whatever other parts say. */
  readonly absent?: Absence
  /** The topic of the device, for its users. */
  readonly topic: string
  readonly properties: Readonly<Record<string, string | undefined>>
  /** The device is absent while one of these topics has this text: a last will. */
  readonly availability?: readonly { readonly topic: string; readonly offline: string }[]
}

/** What a message says: it replaces all that its key has said before. */
export interface Announcement {
  /** Its topic, or what several topics have in common. */
  readonly key: string
  /** Empty if the message withdraws the key. */
  readonly parts: readonly Part[]
  /** The keys that begin with this text are withdrawn too. */
  readonly withdrawn?: string
}

export interface AnnouncedDevicesOptions {
  readonly url: string
  readonly ids: FilterList | undefined
  readonly devices: DeviceMap
  /** Subscribes to the topic of an availability, once. */
  readonly watch: (topic: string) => void
}

/** Puts the devices together from what messages say of them. */
export class AnnouncedDevices {
  readonly #options: AnnouncedDevicesOptions
  /** The parts of each device, by the keys of their messages. */
  readonly #parts = new Map<string, Map<string, Part>>()
  /** The devices of each key. */
  readonly #ids = new Map<string, readonly string[]>()
  /** The last text of each topic of an availability. */
  readonly #texts = new Map<string, string>()
  readonly #leftOut = new Map<string, Absence>()
  #count = 0
  #isFull = false

  constructor(options: AnnouncedDevicesOptions) {
    this.#options = options
  }

  /** The devices that are not offered, with the reasons. */
  get leftOut(): ReadonlyMap<string, Absence> {
    return this.#leftOut
  }

  /** Whether announcements were ignored: there were too many. */
  get isFull(): boolean {
    return this.#isFull
  }

  take({ key, parts, withdrawn }: Announcement): void {
    const changed = new Set<string>()
    this.#withdraw(key, changed)
    if (withdrawn !== undefined)
      for (const other of this.#ids.keys())
        if (other.startsWith(withdrawn)) this.#withdraw(other, changed)
    const added = parts.filter((part) => this.#add(key, part)).map(({ id }) => id)
    if (added.length > 0) this.#ids.set(key, added)
    for (const id of added) changed.add(id)
    for (const id of changed) this.#update(id)
  }

  /** Takes the text of a topic, if it is that of an availability. */
  takeText(topic: string, text: string): void {
    if (!this.#texts.has(topic) || this.#texts.get(topic) === text) return
    this.#texts.set(topic, text)
    for (const [id, parts] of this.#parts)
      if ([...parts.values()].some((part) => part.availability?.some((it) => it.topic === topic)))
        this.#update(id)
  }

  #withdraw(key: string, changed: Set<string>): void {
    for (const id of this.#ids.get(key) ?? []) {
      const parts = this.#parts.get(id)
      if (parts?.delete(key)) this.#count--
      if (parts?.size === 0) this.#parts.delete(id)
      changed.add(id)
    }
    this.#ids.delete(key)
  }

  #add(key: string, part: Part): boolean {
    const parts = this.#parts.get(part.id) ?? new Map<string, Part>()
    // A list can name a device twice.
    if (parts.has(key)) return false
    if (this.#count >= MAX_PARTS || parts.size >= MAX_PARTS_OF_DEVICE) {
      this.#isFull = true
      return false
    }
    this.#count++
    this.#parts.set(part.id, parts.set(key, part))
    for (const { topic } of part.availability ?? []) this.#watch(topic)
    return true
  }

  #watch(topic: string): void {
    if (this.#texts.has(topic) || this.#texts.size >= MAX_PARTS) return
    this.#texts.set(topic, '')
    this.#options.watch(topic)
  }

  #update(id: string): void {
    const { devices, ids, url } = this.#options
    // All nodes must come to the same device, in whatever order they get the messages.
    const parts = [...(this.#parts.get(id) ?? [])]
      .sort(([a], [b]) => (a < b ? -1 : 1))
      .map(([, part]) => part)
    const isPresent = parts.some((part) => part.isPresent)
    const absent = this.#absence(parts)
    this.#leftOut.delete(id)
    if (!isPresent && absent === undefined) devices.delete(id)
    else if (!passesFilter(ids, id)) this.#leaveOut(id, { reason: 'filtered by ids' })
    else if (absent !== undefined) this.#leaveOut(id, absent)
    else if (devices.size >= MAX_DEVICES && devices.get(id) === undefined)
      this.#leaveOut(id, { reason: 'too many devices' })
    else if (!devices.set(deviceOf(id, parts, url)))
      this.#leaveOut(id, { reason: 'device list full' })
  }

  #leaveOut(id: string, why: Absence): void {
    this.#options.devices.delete(id)
    this.#leftOut.set(id, why)
  }

  #absence(parts: readonly Part[]): Absence | undefined {
    const said = parts.find(({ absent }) => absent !== undefined)?.absent
    const offline = parts
      .flatMap(({ availability = [] }) => availability)
      .find(({ topic, offline: text }) => this.#texts.get(topic) === text)
    return (
      said ?? (offline && { reason: 'offline', detail: `${offline.topic} is ${offline.offline}` })
    )
  }
}

function deviceOf(id: string, parts: readonly Part[], url: string): Device {
  const topics = [...new Set(parts.map(({ topic }) => topic))]
  const list = topics.filter((topic) => !topic.includes(' ')).slice(0, MAX_TOPICS)
  const properties: Record<string, string | undefined> = {}
  // The first part that has a value counts.
  for (const part of parts)
    for (const [name, value] of Object.entries(part.properties)) properties[name] ??= value
  return {
    id,
    properties: {
      ...properties,
      MQTT_BROKER: url,
      MQTT_TOPIC: topics[0],
      MQTT_TOPICS: list.length > 1 ? list.join(' ') : undefined,
    },
  }
}
