import type { Clock } from '@akrijs/sdk'
import { inParallel, readNetwork } from '@akrijs/sdk/network'
import { originOf, readEndpointUrl } from '../endpoint-url.js'
import { DiscoveryUrl, type DiscoveryUrlOptions } from '../find-servers/discovery-url.js'
import type { OpcuaServer } from '../opcua-server.js'
import type { Reach } from '../reach.js'
import type { Target } from '../ua-tcp/client.js'
import type { MdnsServer } from './mdns-server.js'

/** How often a discovery server is asked, in milliseconds. */
const ASK_MS = 10_000
/** How many discovery servers are asked at a time, and how many at all. */
const AT_MOST = 16
const MAX_DISCOVERY_SERVERS = 100

export interface MdnsMethodOptions extends DiscoveryUrlOptions {
  /** Who announces itself; comes at least every ten seconds. */
  readonly announced: AsyncIterable<readonly MdnsServer[]>
  /** Which discovery servers may be called: anybody can announce one, at any address. */
  readonly reach: Pick<Reach, 'targetOf'>
  readonly signal: AbortSignal
  readonly clock: Clock
}

/**
 * The servers that announce themselves, and those that discovery servers list which announce themselves: such a one is no server,
 * but knows some.
 */
export async function* mdnsMethod(
  options: MdnsMethodOptions,
): AsyncGenerator<readonly OpcuaServer[], void, void> {
  const { announced, signal, clock } = options
  const asked = new Map<string, { readonly url: DiscoveryUrl; dueAt: number }>()
  const callable = new CallableUrls(options)
  for await (const servers of announced) {
    const discoveryServers = servers.filter(({ isDiscoveryServer }) => isDiscoveryServer)
    const urls = await callable.of(discoveryServers.slice(0, MAX_DISCOVERY_SERVERS))
    for (const url of asked.keys()) if (!urls.has(url)) asked.delete(url)
    for (const url of urls)
      if (!asked.has(url))
        asked.set(url, { url: new DiscoveryUrl(url, options), dueAt: Number.NEGATIVE_INFINITY })
    const now = clock.monotonicMs()
    const due = [...asked.values()].filter(({ dueAt }) => dueAt <= now)
    for (const one of due) one.dueAt = now + ASK_MS
    await inParallel(due, AT_MOST, ({ url }) => url.round(signal))
    yield [
      ...servers.filter(({ isDiscoveryServer }) => !isDiscoveryServer),
      ...[...asked.values()].flatMap(({ url }) => url.servers),
    ]
  }
}

interface Judged {
  readonly url: string | undefined
  readonly at: number
}

/** Where discovery servers may be called. Judged for {@link ASK_MS}: lists may come often. */
class CallableUrls {
  readonly #options: Pick<MdnsMethodOptions, 'reach' | 'clock' | 'log'>
  #judged = new Map<string, Judged>()

  constructor(options: Pick<MdnsMethodOptions, 'reach' | 'clock' | 'log'>) {
    this.#options = options
  }

  /** The URLs of these, each once. Forgets all others. */
  async of(discoveryServers: readonly MdnsServer[]): Promise<ReadonlySet<string>> {
    const judged = new Map<string, Judged>()
    for (const server of discoveryServers) {
      const key = `${server.discoveryUrl} ${server.addresses.join()}`
      judged.set(key, await this.#judge(server, this.#judged.get(key)))
    }
    this.#judged = judged
    return new Set([...judged.values()].flatMap(({ url }) => url ?? []))
  }

  async #judge(server: MdnsServer, before: Judged | undefined): Promise<Judged> {
    const { reach, clock, log } = this.#options
    const now = clock.monotonicMs()
    if (before !== undefined && now - before.at < ASK_MS) return before
    const url = urlByAddress(await reach.targetOf(server))
    if (url === undefined && (before === undefined || before.url !== undefined)) {
      const { discoveryUrl, addresses } = server
      log.info(
        { discoveryUrl, addresses },
        'discovery server is not asked: it is in no network where servers are called',
      )
    }
    return { url, at: now }
  }
}

/** Names of multicast DNS mean nothing to the system's resolver. */
function urlByAddress(target: Target | undefined): string | undefined {
  const host = target?.addresses.find((address) => readNetwork(address) !== undefined)
  const url = target === undefined ? undefined : readEndpointUrl(target.endpointUrl)
  return host === undefined || url === undefined
    ? undefined
    : `${originOf({ host, port: url.port })}${url.path}`
}
