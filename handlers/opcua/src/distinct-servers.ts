import { urlKey } from './endpoint-url.js'
import { type ApplicationIdentity, applicationKey, type OpcuaServer } from './opcua-server.js'

/**
 * Each server once, whatever the spelling of its URL. The spelling is the id of the device, so it
 * must not depend on the order of answers: a host in lower case comes first, then a host without a
 * dot at its end, then no slash at the end. A server with a single spelling keeps it.
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
  const rivals = rivalsOf(best, other)
  return {
    ...best,
    discoveryUrl: (isOther ? other : best).discoveryUrl,
    ...(addresses !== undefined && { addresses }),
    ...(claims.length > 0 && { claims }),
    ...(rivals.length > 0 && { rivals }),
  }
}

/** The applications of both reports, each once, without that of the first. */
function rivalsOf(best: OpcuaServer, other: OpcuaServer): readonly ApplicationIdentity[] {
  const all = [...(best.rivals ?? []), other.application ?? [], ...(other.rivals ?? [])].flat()
  const byKey = new Map(all.map((application) => [applicationKey(application), application]))
  if (best.application !== undefined) byKey.delete(applicationKey(best.application))
  return [...byKey.values()].slice(0, MAX_RIVALS)
}

/** Any program can register applications for the URL of another. */
const MAX_RIVALS = 100

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
  return spelling(a) < spelling(b)
}

/** Better spellings come first. A path can have capitals. */
function spelling({ discoveryUrl }: OpcuaServer): string {
  const start = discoveryUrl.split('/', 3).join()
  return [/[A-Z]/.test(start), /\.(?::\d*)?$/.test(start), discoveryUrl].join()
}
