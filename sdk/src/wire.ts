import { type Device, type DeviceList, DiscoveryProperties } from '@akrijs/runtime/handler'
import { checkDeviceList, toWire } from './device-list.js'

// The shapes of the generated code, written out: the types of this package need no other package.

/** A DiscoverResponse. */
export interface WireResponse {
  devices: WireDevice[]
}

export interface WireDevice {
  id: string
  properties: { [name: string]: string }
  mounts: { containerPath: string; hostPath: string; readOnly: boolean }[]
  deviceSpecs: { containerPath: string; hostPath: string; permissions: string }[]
}

/** `discovery_properties` of a DiscoverRequest. */
export interface WireProperties {
  [name: string]: { vec?: Buffer | undefined }
}

/** A response that holds a checked list. */
export function responseToWire(list: DeviceList): WireResponse {
  return { devices: checkDeviceList(list).map(toWire) }
}

/** The checked list of a response. @throws InvalidDeviceListError */
export function listFromWire(response: WireResponse): Required<Device>[] {
  return checkDeviceList(response.devices)
}

export function propertiesToWire(properties: DiscoveryProperties): WireProperties {
  return Object.fromEntries(
    [...properties.entries()].map(([name, bytes]) => [
      name,
      { vec: bytes === undefined ? undefined : Buffer.from(bytes) },
    ]),
  )
}

export function propertiesFromWire(properties: WireProperties): DiscoveryProperties {
  return new DiscoveryProperties(Object.entries(properties).map(([name, { vec }]) => [name, vec]))
}
