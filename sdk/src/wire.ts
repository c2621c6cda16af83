import { DiscoveryProperties } from './handler/properties.js'
import { MAX_LIST_BYTES } from './list-limit.js'

/** The most bytes of an answer to Discover: a list and its reports of devices. */
export const MAX_ANSWER_BYTES = MAX_LIST_BYTES + 128 * 1024

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

/**
 * A header of Discover and of its answer: `true`. A handler sends reports of devices only to an
 * agent that sends it. Agents and handlers of other implementations do not send it.
 */
const REPORTS_HEADER = 'akri-reports'

/** The parts of gRPC's metadata: the types of this package need no other package. */
interface Headers {
  get(name: string): readonly unknown[]
}

/** The headers of the answer to Discover. */
export function answerHeaders(shared: boolean): Record<string, string> {
  return { [SHARED_HEADER]: String(shared), ...acceptReportsHeader() }
}

/** The header of an agent that reads reports of devices. */
export function acceptReportsHeader(): Record<string, string> {
  return { [REPORTS_HEADER]: 'true' }
}

/** Whether the peer sends reports of devices, or reads them. */
export function sendsReports(headers: Headers): boolean {
  return headers.get(REPORTS_HEADER)[0] === 'true'
}

/** @returns undefined if the handler does not send the header */
export function sharedFrom(headers: Headers): boolean | undefined {
  const [value] = headers.get(SHARED_HEADER)
  return value === 'true' || value === 'false' ? value === 'true' : undefined
}
