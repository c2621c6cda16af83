import type { DiscoverRequest, DiscoverResponse } from '@akrijs/proto/discovery'
import type { Device, DeviceList } from './device.js'
import { checkDeviceList, toWire } from './device-list.js'
import { DiscoveryProperties } from './properties.js'

/** A response that holds a checked list. */
export function responseToWire(list: DeviceList): DiscoverResponse {
  return { devices: checkDeviceList(list).map(toWire) }
}

/**
 * The list that a handler sent.
 * @throws InvalidDeviceListError
 */
export function listFromWire(response: DiscoverResponse): Required<Device>[] {
  return checkDeviceList(response.devices)
}

export function propertiesToWire(properties: DiscoveryProperties): DiscoverRequest['discoveryProperties'] {
  return Object.fromEntries(
    [...properties.entries()].map(([name, bytes]) => [name, { vec: bytes === undefined ? undefined : Buffer.from(bytes) }]),
  )
}

export function propertiesFromWire(properties: DiscoverRequest['discoveryProperties']): DiscoveryProperties {
  return new DiscoveryProperties(Object.entries(properties).map(([name, { vec }]) => [name, vec]))
}
