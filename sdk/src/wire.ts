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

/**
 * A header of the answer to Discover: `true` or `false`. The process that serves the socket sends
 * it, so it counts more than the registration, which any process can send. Handlers of other
 * implementations do not send it.
 */
const SHARED_HEADER = 'akri-shared'

/** The parts of gRPC's metadata: the types of this package need no other package. */
interface Headers {
  get(name: string): readonly unknown[]
}

export function sharedHeader(shared: boolean): Record<string, string> {
  return { [SHARED_HEADER]: String(shared) }
}

/** @returns undefined if the handler does not send the header */
export function sharedFrom(headers: Headers): boolean | undefined {
  const [value] = headers.get(SHARED_HEADER)
  return value === 'true' || value === 'false' ? value === 'true' : undefined
}
