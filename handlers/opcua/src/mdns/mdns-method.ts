import { type Clock, readNetwork } from '@akrijs/sdk'
import { originOf, readEndpointUrl } from '../endpoint-url.js'
import type { FoundServer } from '../found-server.js'
import { inParallel } from '../in-parallel.js'
import { DiscoveryUrl, type DiscoveryUrlOptions } from '../standard/discovery-url.js'
import type { AnnouncedServer } from './announced-server.js'

/** How often a discovery server is asked, in milliseconds. */
const ASK_MS = 10_000
/** How many discovery servers are asked at a time, and how many at all. */
const AT_MOST = 16
const MAX_DISCOVERY_SERVERS = 100

export interface MdnsMethodOptions extends DiscoveryUrlOptions {
  /** Who announces itself; comes at least every ten seconds. */
  readonly announced: AsyncIterable<readonly AnnouncedServer[]>
  readonly signal: AbortSignal
  readonly clock: Clock
}

/**
 * The servers that announce themselves, and those that discovery servers list which announce themselves: such a one is no server,
 * but knows some.
 */
export async function* mdnsServers(options: MdnsMethodOptions): AsyncGenerator<readonly FoundServer[], void, void> {
  const { announced, signal, clock } = options
  const asked = new Map<string, { readonly url: DiscoveryUrl; dueAt: number }>()
  for await (const servers of announced) {
    const urls = new Set(servers.flatMap((server) => (server.isDiscoveryServer ? (urlByAddress(server) ?? []) : [])))
    for (const url of asked.keys()) if (!urls.has(url)) asked.delete(url)
    for (const url of [...urls].slice(0, MAX_DISCOVERY_SERVERS))
      if (!asked.has(url)) asked.set(url, { url: new DiscoveryUrl(url, options), dueAt: Number.NEGATIVE_INFINITY })
    const now = clock.now()
    const due = [...asked.values()].filter(({ dueAt }) => dueAt <= now)
    for (const one of due) one.dueAt = now + ASK_MS
    await inParallel(due, AT_MOST, ({ url }) => url.round(signal))
    yield [
      ...servers.filter(({ isDiscoveryServer }) => !isDiscoveryServer),
      ...[...asked.values()].flatMap(({ url }) => url.servers),
    ]
  }
}

/** Names of multicast DNS mean nothing to the system's resolver. */
function urlByAddress({ discoveryUrl, addresses }: AnnouncedServer): string | undefined {
  const host = addresses.find((address) => readNetwork(address) !== undefined)
  const url = readEndpointUrl(discoveryUrl)
  return host === undefined || url === undefined ? undefined : `${originOf({ host, port: url.port })}${url.path}`
}
