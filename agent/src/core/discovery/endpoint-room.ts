import type { HandlerEndpoint } from '../../ports/handler-endpoint.js'

/**
 * Bounds of the registered endpoints, in all, of one name, and of one name and owner: a flood of
 * registrations, and the lists of these endpoints, must not fill the memory of the agent.
 */
const MAX_ENDPOINTS = 256
const MAX_ENDPOINTS_OF_NAME = 32
const MAX_ENDPOINTS_OF_OWNER = 8

/** What an endpoint is good for at present. */
export type EndpointUse =
  /** No discovery asks the endpoint, or none can reach it. */
  | 'unused'
  /** It can be reached, and has given no list. */
  | 'silent'
  | 'listing'

export type EndpointRoom =
  | { readonly kind: 'free' }
  /** There is room if this endpoint gives way. */
  | { readonly kind: 'replace'; readonly endpoint: HandlerEndpoint }
  | { readonly kind: 'none' }

/**
 * Finds room for a new endpoint. If a bound is reached, an unused endpoint gives way. If there is
 * none, the owner with the most endpoints loses its newest one, so that a process with many
 * endpoints that answer cannot keep the handlers of other owners out.
 *
 * @param registered in the order of registration
 */
export function roomFor(
  { name, owner }: Pick<HandlerEndpoint, 'name' | 'owner'>,
  registered: readonly HandlerEndpoint[],
  useOf: (endpoint: HandlerEndpoint) => EndpointUse,
): EndpointRoom {
  const namesakes = registered.filter((endpoint) => endpoint.name === name)
  const ofOwner = namesakes.filter((endpoint) => endpoint.owner === owner)
  const full = [
    ofOwner.length >= MAX_ENDPOINTS_OF_OWNER ? ofOwner : undefined,
    namesakes.length >= MAX_ENDPOINTS_OF_NAME ? namesakes : undefined,
    registered.length >= MAX_ENDPOINTS ? registered : undefined,
  ].find((endpoints) => endpoints !== undefined)
  if (full === undefined) return { kind: 'free' }
  // An embedded handler has no owner, and does not register again.
  const rivals = full.filter((rival) => rival.owner !== undefined)
  const counts = new Map<string | undefined, number>()
  const countOf = (of: string | undefined) => counts.get(of) ?? 0
  for (const rival of rivals) counts.set(rival.owner, countOf(rival.owner) + 1)
  const heaviestFirst = (a: HandlerEndpoint, b: HandlerEndpoint) =>
    countOf(b.owner) - countOf(a.owner)
  const unused = rivals.toSorted(heaviestFirst).find((rival) => useOf(rival) === 'unused')
  if (unused !== undefined) return { kind: 'replace', endpoint: unused }

  const isSilent = (rival: HandlerEndpoint) => useOf(rival) === 'silent'
  const [endpoint] = rivals
    .filter((rival) => {
      const more = countOf(rival.owner) - countOf(owner)
      return isSilent(rival) ? more > 0 || rival.owner === owner : more > 1
    })
    .reverse()
    .sort((a, b) => heaviestFirst(a, b) || Number(isSilent(b)) - Number(isSilent(a)))
  return endpoint === undefined ? { kind: 'none' } : { kind: 'replace', endpoint }
}
