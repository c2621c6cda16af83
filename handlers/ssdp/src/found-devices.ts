import { type Clock, type Device, type DeviceMap, messageOf } from '@akrijs/sdk'
import { passesFilter } from '@akrijs/sdk/network'
import type { Description, readDescription } from './description.js'
import type { SsdpDetails } from './details.js'
import {
  MAX_DEVICES,
  MAX_DEVICES_PER_SOURCE,
  MAX_READS,
  MAX_READS_PER_SOURCE,
  MAX_TARGETS,
} from './limits.js'
import type { Announcement } from './message.js'

/** A description is read again after so long, in milliseconds. */
const DESCRIPTION_MS = 10 * 60_000
/** After a failure. */
const RETRY_MS = 60_000
/** A device that starts announces itself before its server answers: a second attempt is soon. */
const SECOND_MS = 2000

/** The most remarks on descriptions: a list has five remarks. */
const MAX_REMARKS = 3

export interface FoundDevicesOptions {
  readonly details: Pick<SsdpDetails, 'targets' | 'uuids'>
  /** Gets each device, again with each of its announcements. It forgets those that are silent. */
  readonly devices: DeviceMap
  /** After so long, in milliseconds, a silent device is gone. */
  readonly keepMs: number
  readonly read: typeof readDescription
  readonly signal: AbortSignal
  readonly clock: Clock
}

/** A device of the network, from its announcements and its description. */
interface FoundDevice {
  readonly uuid: string
  /** The address that announced it first. */
  readonly sender: string
  readonly location: string | undefined
  readonly server: string | undefined
  /** The targets of the details that it has announced, in order. */
  readonly targets: readonly string[]
  /** Undefined until it was read, or could not be read. */
  readonly description: Description | undefined
  /** Why there is no description. */
  readonly problem?: string | undefined
  /** When the description is read again; Infinity while it is read. */
  readonly readAt: number
}

/** Makes devices of announcements. */
export class FoundDevices {
  readonly #options: FoundDevicesOptions
  readonly #found = new Map<string, FoundDevice>()
  /** When they were last announced. */
  readonly #filtered = new Map<string, number>()
  /** The senders whose descriptions are read. */
  readonly #reading: string[] = []

  constructor(options: FoundDevicesOptions) {
    this.#options = options
  }

  /** The devices that the filter leaves out. */
  filtered(): readonly string[] {
    const { clock, keepMs } = this.#options
    const since = clock.monotonicMs() - keepMs
    for (const [uuid, at] of this.#filtered) if (at <= since) this.#filtered.delete(uuid)
    return [...this.#filtered.keys()]
  }

  /** Why devices have no description: of the first of them, and the number of the others. */
  remarks(): readonly string[] {
    const all = [...this.#found.values()].flatMap(({ uuid, problem }) =>
      problem === undefined || !this.#isOffered(uuid)
        ? []
        : [`description of ${uuid} not read: ${problem}`],
    )
    const more = all.length - MAX_REMARKS
    return more > 0 ? [...all.slice(0, MAX_REMARKS), `${more} more descriptions not read`] : all
  }

  take({ kind, uuid, target, location, server }: Announcement, sender: string): void {
    const { details, devices, clock } = this.#options
    const { targets, uuids } = details
    if (!targets.includes(target) && !targets.includes('ssdp:all')) return
    const before = this.#present(uuid)
    // Any machine can announce any UUID: the first one counts while it answers.
    if (before !== undefined && before.sender !== sender) return
    if (kind === 'byebye') {
      this.#found.delete(uuid)
      this.#filtered.delete(uuid)
      devices.delete(uuid)
    } else if (!passesFilter(uuids, uuid)) {
      if (this.#filtered.has(uuid) || this.#filtered.size < MAX_DEVICES)
        this.#filtered.set(uuid, clock.monotonicMs())
    } else if (before !== undefined || this.#hasRoom(sender)) {
      const others = before?.targets.filter((each) => each !== target) ?? []
      const isSame = before?.location === location
      const now = {
        ...{ uuid, sender, location, server },
        targets: [...others, target].sort().slice(0, MAX_TARGETS),
        description: isSame ? before?.description : undefined,
        problem: isSame ? before?.problem : undefined,
        readAt: isSame ? (before?.readAt ?? 0) : 0,
      }
      this.#found.set(uuid, now)
      // A device appears with its description.
      if (now.description !== undefined) devices.set(deviceOf(now))
      if (now.readAt <= clock.monotonicMs()) void this.#describe(now)
    }
  }

  /** A device that was forgotten is not there, unless its description is read. */
  #present(uuid: string): FoundDevice | undefined {
    const found = this.#found.get(uuid)
    if (found === undefined || this.#isOffered(uuid)) return found
    return found.readAt === Infinity ? found : undefined
  }

  #isOffered(uuid: string): boolean {
    return this.#options.devices.get(uuid) !== undefined
  }

  #hasRoom(sender: string): boolean {
    for (const uuid of this.#found.keys())
      if (this.#present(uuid) === undefined) this.#found.delete(uuid)
    const all = [...this.#found.values()]
    return (
      all.length < MAX_DEVICES &&
      all.filter((each) => each.sender === sender).length < MAX_DEVICES_PER_SOURCE
    )
  }

  async #describe(device: FoundDevice): Promise<void> {
    const { uuid, sender, location = '', description = {} } = device
    const { read, signal, clock, devices } = this.#options
    const ofSender = this.#reading.filter((each) => each === sender).length
    // The next announcement tries again.
    if (this.#reading.length >= MAX_READS || ofSender >= MAX_READS_PER_SOURCE) return
    this.#reading.push(sender)
    this.#found.set(uuid, { ...device, readAt: Infinity })
    const once = () => read(location, sender, signal)
    const twice = once().catch(() => clock.sleep(SECOND_MS, signal).then(once))
    const result = await twice.then(
      (now) => ({ description: now, problem: undefined, nextMs: DESCRIPTION_MS }),
      (error) => ({ description, problem: messageOf(error), nextMs: RETRY_MS }),
    )
    this.#reading.splice(this.#reading.indexOf(sender), 1)
    // It may have gone, or moved, meanwhile.
    const now = this.#found.get(uuid)
    if (signal.aborted || now?.sender !== sender || now.location !== device.location) return
    const { nextMs, ...found } = result
    const described = { ...now, ...found, readAt: clock.monotonicMs() + nextMs }
    this.#found.set(uuid, described)
    devices.set(deviceOf(described))
  }
}

function deviceOf({ description = {}, ...found }: FoundDevice): Device {
  const properties = {
    SSDP_UUID: found.uuid,
    SSDP_ADDRESS: found.sender,
    SSDP_LOCATION: found.location,
    SSDP_SERVER: found.server,
    SSDP_TARGETS: found.targets.join(' '),
    SSDP_DEVICE_TYPE: description.deviceType,
    SSDP_FRIENDLY_NAME: description.friendlyName,
    SSDP_MANUFACTURER: description.manufacturer,
    SSDP_MODEL_NAME: description.modelName,
    SSDP_MODEL_NUMBER: description.modelNumber,
    SSDP_SERIAL_NUMBER: description.serialNumber,
  }
  return { id: found.uuid, properties }
}
