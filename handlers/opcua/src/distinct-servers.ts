import { urlKey } from './endpoint-url.js'
import type { OpcuaServer } from './opcua-server.js'

/**
 * Each server once, whatever the spelling of its URL. The spelling is the id of the device, so it
 * must not depend on the order of answers: a host in lower case comes first, then no slash at the
 * end. A server with a single spelling keeps it.
 */
export function distinct(servers: readonly OpcuaServer[]): OpcuaServer[] {
  const groups = new Map<string, [OpcuaServer, ...OpcuaServer[]]>()
  for (const server of servers) {
    const key = urlKey(server.discoveryUrl)
    const group = groups.get(key)
    if (group === undefined) groups.set(key, [server])
    else group.push(server)
  }
  return [...groups.values()].map((group) => group.reduce(merged))
}

/**
 * The server with more information, under the better spelling; of equals, the one that answered
 * itself, or else the first.
 */
function merged(a: OpcuaServer, b: OpcuaServer): OpcuaServer {
  const isBetter = rank(b) === rank(a) ? answeredItself(b) && !answeredItself(a) : rank(b) > rank(a)
  const [best, other] = isBetter ? [b, a] : [a, b]
  const isOther = rank(a) === rank(b) && isBetterSpelled(other, best)
  const addresses = best.addresses ?? other.addresses
  // An announced server needs no claim: any answer of a server counts.
  const claims = rank(best) === ANNOUNCED ? [] : [...(best.claims ?? []), ...(other.claims ?? [])]
  return {
    ...best,
    discoveryUrl: (isOther ? other : best).discoveryUrl,
    ...(addresses !== undefined && { addresses }),
    ...(claims.length > 0 && { claims }),
    ...((other.isDisputed || differ(a, b)) && { isDisputed: true }),
  }
}

/** Whether two reports name different applications. */
function differ({ application: a }: OpcuaServer, { application: b }: OpcuaServer): boolean {
  if (a === undefined || b === undefined) return false
  return a.applicationUri !== b.applicationUri || a.applicationName !== b.applicationName
}

const answeredItself = ({ hasHostOfDetails = false }: OpcuaServer) => hasHostOfDetails

const CLAIMED = 0
const ANNOUNCED = 1
const UNLISTED = 2
const LISTED = 3

function rank({ application, claims, isUnlisted = false }: OpcuaServer): number {
  if (application === undefined) return claims === undefined ? ANNOUNCED : CLAIMED
  return isUnlisted ? UNLISTED : LISTED
}

function isBetterSpelled(a: OpcuaServer, b: OpcuaServer): boolean {
  const [hasCapitalsA, hasCapitalsB] = [a, b].map(hasCapitals)
  if (hasCapitalsA !== hasCapitalsB) return hasCapitalsB === true
  return a.discoveryUrl < b.discoveryUrl
}

/** In the scheme or the host; a path can have capitals. */
function hasCapitals({ discoveryUrl }: OpcuaServer): boolean {
  return /[A-Z]/.test(discoveryUrl.split('/', 3).join())
}
