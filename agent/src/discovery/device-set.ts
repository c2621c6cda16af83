import type { HashedDevice } from '../handlers/handler-endpoint.js'
import type { DeviceBound } from './device-admission.js'

/** A device of one Configuration on this node. */
export interface DiscoveredDevice {
  readonly device: HashedDevice
  /** Whether other nodes can see the device too: a property of its endpoint. */
  readonly shared: boolean
  /** The uid of the endpoint that lists the device. */
  readonly endpoint: string
  /**
   * False if the device is kept and not offered: its handler is silent for longer than the first
   * grace period, or the device is refused.
   */
  readonly healthy: boolean
  /** Why the device is refused: its handler may not give containers all that it reports. */
  readonly refusal?: string
}

/** All devices of one Configuration: the union over its endpoints, one entry per device id. */
export interface DeviceSet {
  readonly devices: ReadonlyMap<string, DiscoveredDevice>
  /**
   * Whether a missing device is gone. False while an answer is outstanding (after a start, without
   * a handler): absence of evidence is not evidence of absence.
   */
  readonly complete: boolean
  /** The devices that a bound leaves out; undefined if there are none. */
  readonly leftOut: LeftOut | undefined
}

/** Of a Configuration that is not followed, or has no list yet. */
export const NO_DEVICES: DeviceSet = { devices: new Map(), complete: false, leftOut: undefined }

/** Devices that are listed and not served, because there are more than a bound allows. */
export interface LeftOut {
  /** Their number. If several endpoints list too many devices, there may be more. */
  readonly devices: number
  /** The bound that leaves the devices out. */
  readonly bound: DeviceBound
  /** All devices before the bounds: a device that is left out is not gone. */
  readonly listed: ReadonlyMap<string, DiscoveredDevice>
}

/** Whether the handler lists the device, also beyond a bound. */
export function isListed({ devices, leftOut }: DeviceSet, id: string): boolean {
  return (leftOut?.listed ?? devices).has(id)
}

/** Whether both sets are the same in all that is done with them. */
export function isSameSet(a: DeviceSet, b: DeviceSet): boolean {
  return (
    a.complete === b.complete &&
    a.leftOut?.devices === b.leftOut?.devices &&
    a.leftOut?.bound === b.leftOut?.bound &&
    hasSame(a.devices, b.devices, isSameDevice) &&
    hasSame(a.leftOut?.listed ?? a.devices, b.leftOut?.listed ?? b.devices, () => true)
  )
}

function hasSame<T>(
  a: ReadonlyMap<string, T>,
  b: ReadonlyMap<string, T>,
  isSame: (a: T, b: T) => boolean,
): boolean {
  if (a === b) return true
  if (a.size !== b.size) return false
  for (const [id, value] of a) {
    const other = b.get(id)
    if (other === undefined || !isSame(value, other)) return false
  }
  return true
}

function isSameDevice(a: DiscoveredDevice, b: DiscoveredDevice): boolean {
  return (
    a.device.hash === b.device.hash &&
    a.healthy === b.healthy &&
    a.refusal === b.refusal &&
    a.shared === b.shared &&
    a.endpoint === b.endpoint
  )
}
