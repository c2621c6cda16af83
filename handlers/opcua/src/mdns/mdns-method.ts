import type { Clock } from '@akrijs/sdk'
import { RefreshSchedule } from '@akrijs/sdk/network'
import { urlByAddress } from '../endpoint-url.js'
import { BackgroundRounds } from '../find-servers/background-rounds.js'
import { DiscoveryUrl, type DiscoveryUrlOptions } from '../find-servers/discovery-url.js'
import { interleaved } from '../interleaved.js'
import { NOT_ALLOWED } from '../left-out-reason.js'
import { MAX_DISCOVERY_SERVERS } from '../limits.js'
import type { OpcuaServer, ServerList } from '../opcua-server.js'
import type { Reach } from '../reach.js'
import type { MdnsServer } from './mdns-server.js'

/** How often the handler calls an announced discovery server, in milliseconds. */
const CALL_MS = 10_000

interface MdnsMethodOptions extends DiscoveryUrlOptions {
  /** The announced servers; a list comes at least every ten seconds. */
  readonly announced: AsyncIterable<readonly MdnsServer[]>
  /** Decides which discovery servers may be called: any machine can announce any address. */
  readonly reach: Pick<Reach, 'targetOf'>
  readonly signal: AbortSignal
  readonly clock: Clock
}

/** The announced servers, and the servers that announced discovery servers list. */
export async function* mdnsMethod(
  options: MdnsMethodOptions,
): AsyncGenerator<ServerList, void, void> {
  const { announced, reach, clock, log } = options
  const calls = new Map<string, { readonly url: DiscoveryUrl; dueAt: number }>()
  // Lists may come often: the decision whether a URL may be called is valid for a while.
  const callableUrls = new RefreshSchedule<string | undefined>({
    clock,
    refreshMs: CALL_MS,
    retryMs: CALL_MS,
    maxRefreshes: MAX_DISCOVERY_SERVERS,
  })
  await using rounds = new BackgroundRounds(options)
  for await (const servers of announced) {
    const hasAnswered = (server: MdnsServer) =>
      calls.get(callableUrls.get(keyOf(server))?.value ?? '')?.url.isDiscoveryServer === true
    // Any machine can announce a hundred of them: those that have answered come first.
    const discoveryServers = servers
      .filter(({ isDiscoveryServer }) => isDiscoveryServer)
      .sort((a, b) => Number(hasAnswered(b)) - Number(hasAnswered(a)))
      .slice(0, MAX_DISCOVERY_SERVERS)
    for (const server of callableUrls.takeDue(discoveryServers, keyOf)) {
      const previous = callableUrls.get(keyOf(server))
      const target = await reach.targetOf(server)
      // The resolver of the system does not know the names of multicast DNS.
      const url = target && urlByAddress(target)
      callableUrls.succeed(keyOf(server), url)
      if (url === undefined && (previous === undefined || previous.value !== undefined)) {
        const fields = { discoveryUrl: server.discoveryUrl, addresses: server.addresses }
        log.info(fields, 'discovery server outside the callable networks ignored')
      }
    }
    const urls = new Set(
      discoveryServers.flatMap((server) => callableUrls.get(keyOf(server))?.value ?? []),
    )
    for (const [key, { url }] of calls) {
      if (urls.has(key)) continue
      calls.delete(key)
      rounds.cancel(url)
    }
    for (const url of urls)
      if (!calls.has(url))
        calls.set(url, { url: new DiscoveryUrl(url, options), dueAt: Number.NEGATIVE_INFINITY })
    const now = clock.monotonicMs()
    const due = [...calls.values()].filter(({ dueAt }) => dueAt <= now)
    for (const call of due) call.dueAt = now + CALL_MS
    rounds.start(due.map(({ url }) => url))
    await rounds.wait()
    const called = [...calls.values()].map(({ url }) => url)
    yield {
      servers: interleaved<OpcuaServer>([
        servers.filter(({ isDiscoveryServer }) => !isDiscoveryServer),
        ...called.map((url) =>
          url.isDiscoveryServer ? url.servers : url.servers.map(asAnnounced),
        ),
      ]),
      leftOut: [
        ...discoveryServers
          .filter((server) => callableUrls.get(keyOf(server))?.value === undefined)
          .map(({ discoveryUrl: id, addresses }) => ({
            id,
            reason: NOT_ALLOWED,
            detail: addresses.join(),
          })),
        ...called.flatMap((url) => url.leftOut),
      ],
    }
  }
}

/**
 * A server that was announced as a discovery server: it must not take the place of a server that
 * was announced as a server. So it is offered if it answers GetEndpoints, under a URL of its own.
 */
function asAnnounced({ discoveryUrl, listedFrom }: OpcuaServer): OpcuaServer {
  return { discoveryUrl, ...(listedFrom && { listedFrom }) }
}

function keyOf({ discoveryUrl, addresses }: MdnsServer): string {
  return `${discoveryUrl} ${addresses.join()}`
}
