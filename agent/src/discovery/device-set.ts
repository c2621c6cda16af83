import type { Device } from '@akrijs/runtime/handler'
import type { DeviceBound } from './device-admission.js'

/** A device of one Configuration on this node. */
export interface DiscoveredDevice {
  readonly device: Device
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
