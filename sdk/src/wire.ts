import { DiscoveryProperties } from '@akrijs/runtime/handler'

/**
 * `discovery_properties` of a DiscoverRequest: the shape of the generated code, written out. The
 * types of this package need no other package.
 */
export interface WireProperties {
  [name: string]: { vec?: Buffer | undefined }
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
