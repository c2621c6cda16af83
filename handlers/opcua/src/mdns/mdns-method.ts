import type { Clock } from '@akrijs/sdk'
import { inParallel } from '@akrijs/sdk/network'
import { DiscoveryUrl, type DiscoveryUrlOptions } from '../find-servers/discovery-url.js'
import type { OpcuaServer } from '../opcua-server.js'
import type { Reach } from '../reach.js'
import { urlByAddress } from '../ua-tcp/client.js'
import type { MdnsServer } from './mdns-server.js'

/** How often the handler calls an announced discovery server, in milliseconds. */
const CALL_MS = 10_000
const MAX_PARALLEL_CALLS = 16
const MAX_DISCOVERY_SERVERS = 100

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
): AsyncGenerator<readonly OpcuaServer[], void, void> {
  const { announced, signal, clock } = options
  const calls = new Map<string, { readonly url: DiscoveryUrl; dueAt: number }>()
  const callable = new CallableUrls(options)
  for await (const servers of announced) {
    const discoveryServers = servers.filter(({ isDiscoveryServer }) => isDiscoveryServer)
    const urls = await callable.of(discoveryServers.slice(0, MAX_DISCOVERY_SERVERS))
    for (const url of calls.keys()) if (!urls.has(url)) calls.delete(url)
    for (const url of urls)
      if (!calls.has(url))
        calls.set(url, { url: new DiscoveryUrl(url, options), dueAt: Number.NEGATIVE_INFINITY })
    const now = clock.monotonicMs()
    const due = [...calls.values()].filter(({ dueAt }) => dueAt <= now)
    for (const call of due) call.dueAt = now + CALL_MS
    await inParallel(due, MAX_PARALLEL_CALLS, ({ url }) => url.round(signal))
    yield [
      ...servers.filter(({ isDiscoveryServer }) => !isDiscoveryServer),
      ...[...calls.values()].flatMap(({ url }) => url.servers),
    ]
  }
}

interface Decision {
  readonly url: string | undefined
  readonly at: number
}

/**
 * The callable URLs of discovery servers. A decision is valid for {@link CALL_MS}, as lists may
 * come often.
 */
class CallableUrls {
  readonly #options: Pick<MdnsMethodOptions, 'reach' | 'clock' | 'log'>
  #decisions = new Map<string, Decision>()

  constructor(options: Pick<MdnsMethodOptions, 'reach' | 'clock' | 'log'>) {
    this.#options = options
  }

  /** The distinct URLs of discovery servers. Forgets all other discovery servers. */
  async of(discoveryServers: readonly MdnsServer[]): Promise<ReadonlySet<string>> {
    const decisions = new Map<string, Decision>()
    for (const server of discoveryServers) {
      const key = `${server.discoveryUrl} ${server.addresses.join()}`
      decisions.set(key, await this.#decide(server, this.#decisions.get(key)))
    }
    this.#decisions = decisions
    return new Set([...decisions.values()].flatMap(({ url }) => url ?? []))
  }

  async #decide(server: MdnsServer, previous: Decision | undefined): Promise<Decision> {
    const { reach, clock, log } = this.#options
    const now = clock.monotonicMs()
    if (previous !== undefined && now - previous.at < CALL_MS) return previous
    const target = await reach.targetOf(server)
    // The resolver of the system does not know the names of multicast DNS.
    const url = target && urlByAddress(target)
    if (url === undefined && (previous === undefined || previous.url !== undefined)) {
      const { discoveryUrl, addresses } = server
      log.info(
        { discoveryUrl, addresses },
        'discovery server outside the callable networks ignored',
      )
    }
    return { url, at: now }
  }
}
