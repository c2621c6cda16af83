import { type DiscoveryHandler, DiscoveryProperties, silentLogger } from '@akrijs/sdk'
import { followDiscovery, type ReportedList } from '@akrijs/sdk/host'

/** Lists of a handler, with their reports. */
export interface CollectedLists {
  /** All lists up to now. */
  readonly lists: readonly ReportedList[]
  /** Rejects as the handler fails. */
  readonly ended: Promise<void>
}

/** Runs a handler, and keeps all that it tells until the signal is aborted. */
export function collectLists(
  handler: DiscoveryHandler,
  details: object,
  signal: AbortSignal,
  properties: Readonly<Record<string, string>> = {},
): CollectedLists {
  const lists: ReportedList[] = []
  const discovery = followDiscovery(handler, {
    details: JSON.stringify(details),
    properties: DiscoveryProperties.fromTexts(properties),
    signal,
    log: silentLogger,
  })
  const collect = async () => {
    for await (const list of discovery) lists.push(list)
  }
  const ended = collect()
  ended.catch(() => undefined)
  return { lists, ended }
}
