import { type Clock, every } from '@akrijs/sdk'
import { interleaved } from '../interleaved.js'
import type { ServerList } from '../opcua-server.js'
import { BackgroundRounds } from './background-rounds.js'
import { DiscoveryUrl, type DiscoveryUrlOptions } from './discovery-url.js'

interface FindServersMethodOptions extends DiscoveryUrlOptions {
  readonly discoveryUrls: readonly string[]
  readonly signal: AbortSignal
  readonly clock: Clock
  /** As {@link every} takes it. */
  readonly interval: number | string
}

/**
 * Finds servers by FindServers at the discovery URLs of the details (OPC 10000-12, 4.3). The first
 * list waits until one URL answered, or each URL failed in all its allowed rounds: a handler that
 * just started knows nothing, and an empty list would remove all Instances.
 */
export async function* findServersMethod(
  options: FindServersMethodOptions,
): AsyncGenerator<ServerList, void, void> {
  const { discoveryUrls, signal, clock, interval } = options
  const urls = [...new Set(discoveryUrls)].map((url) => new DiscoveryUrl(url, options))
  const hasSettled = () => urls.some(({ isSettled }) => isSettled)
  await using rounds = new BackgroundRounds(options)
  for await (const _ of every(interval, { signal, clock })) {
    rounds.start(urls)
    await rounds.wait(hasSettled)
    if (urls.length === 0 || hasSettled())
      yield {
        servers: interleaved(urls.map(({ servers }) => servers)),
        leftOut: urls.flatMap(({ leftOut }) => leftOut),
      }
  }
}
