import { setMaxListeners } from 'node:events'
import { type Clock, every } from '@akrijs/sdk'
import { inParallel } from '@akrijs/sdk/network'
import type { OpcuaServer } from '../opcua-server.js'
import { DiscoveryUrl, type DiscoveryUrlOptions } from './discovery-url.js'

/** How many discovery URLs are asked at a time. */
const AT_MOST = 16

export interface FindServersMethodOptions extends DiscoveryUrlOptions {
  readonly discoveryUrls: readonly string[]
  readonly signal: AbortSignal
  readonly clock: Clock
  /** As {@link every} takes it. */
  readonly interval: number | string
}

/**
 * The servers that are found by FindServers at given URLs (OPC 10000-12, 4.3). Nothing is said before a URL has answered, or all
 * have failed for as many rounds as their servers may be silent: a handler that has just started knows nothing, and an empty
 * list would say that there is nothing.
 */
export async function* findServersMethod(
  options: FindServersMethodOptions,
): AsyncGenerator<readonly OpcuaServer[], void, void> {
  const { discoveryUrls, signal, clock, interval } = options
  // As many listen as URLs are asked at a time.
  setMaxListeners(0, signal)
  const urls = [...new Set(discoveryUrls)].map((url) => new DiscoveryUrl(url, options))
  for await (const _ of every(interval, { signal, clock })) {
    await inParallel(urls, AT_MOST, (url) => url.round(signal))
    if (urls.length === 0 || urls.some(({ isSettled: isKnown }) => isKnown))
      yield urls.flatMap(({ servers }) => servers)
  }
}
