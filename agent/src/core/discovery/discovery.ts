import type { Configuration } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { type Clock, Listeners, type Logger } from '@akrijs/runtime'
import type { Cluster, ObjectCache } from '../../ports/cluster.js'
import { isUidOf } from '../../ports/handler-endpoint.js'
import { type AgentObserver, noopObserver } from '../../ports/observer.js'
import { type AgeingOptions, ageDevices, type EndpointList } from './device-ageing.js'
import type { DeviceSet } from './device-set.js'
import { DiscoverySession, type SessionState } from './discovery-session.js'
import type { HandlerRegistry } from './handler-registry.js'

export interface DiscoveryOptions extends Partial<AgeingOptions> {
  readonly cluster: Pick<Cluster, 'resolveProperties' | 'onPropertiesChanged'>
  /** Those that are in force. */
  readonly configurations: ObjectCache<Configuration>
  readonly registry: HandlerRegistry
  readonly clock: Clock
  readonly log: Logger
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  /** @default nobody */
  readonly observer?: AgentObserver
}

/** What was known of each Configuration when it was written down. */
export type DiscoverySnapshot = Readonly<
  Record<ObjectKey, { readonly uid: string; readonly lists: readonly WrittenList[] }>
>

/** A list as it is written down: all such are remembered. */
export type WrittenList = Omit<EndpointList, 'remembered'>

/** How the discovery of one Configuration goes. */
export interface DiscoveryStatus {
  readonly handler: string
  readonly endpoints: readonly { readonly uid: string; readonly state: SessionState }[]
}

interface Search {
  readonly uid: string
  configuration: Configuration
  readonly sessions: Map<string, DiscoverySession>
  /** Lists of endpoints that are not there: from before a restart, of a handler that left, or of another handler name. */
  orphans: readonly EndpointList[]
  /** Since when there has been no endpoint; undefined too once one has answered, since then all that was found is in lists. */
  waitingSince: number | undefined
  answered: boolean
  timer: AbortController | undefined
}

/** Asks the handlers for every Configuration, and knows the devices of each. */
export class Discovery {
  readonly #options: Required<DiscoveryOptions>
  readonly #searches = new Map<ObjectKey, Search>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #stop = new AbortController()
  readonly #closing = new Set<Promise<void>>()
  #restored: DiscoverySnapshot = {}

  constructor(options: DiscoveryOptions) {
    this.#options = {
      unhealthyAfterMs: 30_000,
      removeAfterMs: 300_000,
      random: Math.random,
      observer: noopObserver,
      ...options,
    }
  }

  /** Takes over what was known before a restart. To be called before {@link start}. */
  restore(snapshot: DiscoverySnapshot): void {
    this.#restored = snapshot
  }

  start(): void {
    const { cluster, configurations, registry } = this.#options
    const { signal } = this.#stop
    configurations.onChange((key) => this.#follow(key), signal)
    cluster.onPropertiesChanged((key) => {
      for (const session of this.#searches.get(key)?.sessions.values() ?? []) session.restart()
    }, signal)
    registry.onChange(({ name, reregistered }) => {
      for (const [key, search] of this.#searches) {
        if (search.configuration.spec.discoveryHandler.name !== name) continue
        const endpoint = registry.endpoints(name).find(({ uid }) => uid === reregistered)
        if (endpoint !== undefined) search.sessions.get(endpoint.uid)?.restart(endpoint)
        this.#follow(key)
      }
    }, signal)
    registry.keepUsed(({ uid }) => this.#asks(uid), signal)
    for (const configuration of configurations.list()) this.#follow(keyOf(configuration))
  }

  /** What is known now. Of a Configuration that is not followed, nothing. */
  deviceSet(key: ObjectKey): DeviceSet {
    const search = this.#searches.get(key)
    return search === undefined ? { devices: new Map(), complete: false } : this.#aged(search)
  }

  status(key: ObjectKey): DiscoveryStatus | undefined {
    const search = this.#searches.get(key)
    if (search === undefined) return undefined
    return {
      handler: search.configuration.spec.discoveryHandler.name,
      endpoints: [...search.sessions.values()].map(({ endpoint, state }) => ({
        uid: endpoint.uid,
        state,
      })),
    }
  }

  snapshot(): DiscoverySnapshot {
    const known = [...this.#searches].map(([key, search]) => {
      const lists = listsOf(search).filter(({ devices }) => devices !== undefined)
      return [
        key,
        { uid: search.uid, lists: lists.map(({ remembered: _, ...list }) => list) },
      ] as const
    })
    // What was restored and not asked for yet is not lost by another restart.
    return { ...this.#restored, ...Object.fromEntries(known) }
  }

  /** Calls back when the devices or the status of a Configuration may have changed. */
  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    for (const key of [...this.#searches.keys()]) this.#forget(key)
    await Promise.all(this.#closing)
  }

  /** Makes the search for a Configuration what the Configuration and the registry say now. */
  #follow(key: ObjectKey): void {
    if (this.#stop.signal.aborted) return
    const configuration = this.#options.configurations.get(key)
    const known = this.#searches.get(key)
    if (configuration === undefined || configuration.metadata.deletionTimestamp !== undefined) {
      this.#forget(key)
      if (known !== undefined) this.#listeners.tell(key)
      return
    }
    if (known !== undefined && known.uid !== configuration.metadata.uid) this.#forget(key)
    const search = this.#searches.get(key) ?? this.#begin(key, configuration)
    search.configuration = configuration
    const endpoints = this.#options.registry.endpoints(configuration.spec.discoveryHandler.name)
    for (const session of search.sessions.values()) {
      if (endpoints.some(({ uid }) => uid === session.endpoint.uid))
        session.configure(configuration)
      else this.#endSession(search, session)
    }
    for (const endpoint of endpoints) {
      if (search.sessions.has(endpoint.uid)) continue
      const restored = search.orphans.find((list) => list.endpoint === endpoint.uid)
      search.orphans = search.orphans.filter((list) => list !== restored)
      const log = this.#options.log.child({ configuration: key, endpoint: endpoint.uid })
      const session = new DiscoverySession(configuration, endpoint, restored, {
        clock: this.#options.clock,
        random: this.#options.random,
        observer: this.#options.observer,
        log,
        resolveProperties: (one) => this.#options.cluster.resolveProperties(one),
        onChange: () => this.#changed(key),
      })
      search.sessions.set(endpoint.uid, session)
    }
    const waits = endpoints.length === 0 && !search.answered
    search.waitingSince = waits
      ? (search.waitingSince ?? this.#options.clock.monotonicMs())
      : undefined
    this.#changed(key)
  }

  /** Whether a search asks this endpoint, and has not found that nobody is there. */
  #asks(endpoint: string): boolean {
    const sessions = [...this.#searches.values()].map((search) => search.sessions.get(endpoint))
    return sessions.some(
      (session) => session !== undefined && session.unreachableSince === undefined,
    )
  }

  #begin(key: ObjectKey, configuration: Configuration): Search {
    const { uid } = configuration.metadata
    const restored = this.#restored[key]
    const now = this.#options.clock.monotonicMs()
    // Nobody vouches for what was known before the restart, from now on.
    const lists = restored?.uid === uid ? restored.lists : []
    const orphans = lists.map((list) => ({ ...list, remembered: true, lostSince: now }))
    const { [key]: _taken, ...others } = this.#restored
    this.#restored = others
    const search: Search = {
      uid,
      configuration,
      sessions: new Map(),
      orphans,
      waitingSince: undefined,
      answered: false,
      timer: undefined,
    }
    this.#searches.set(key, search)
    return search
  }

  #endSession(search: Search, session: DiscoverySession): void {
    search.sessions.delete(session.endpoint.uid)
    const { list } = session
    if (list.devices !== undefined)
      search.orphans = [
        ...search.orphans,
        { ...list, lostSince: list.lostSince ?? this.#options.clock.monotonicMs() },
      ]
    this.#await(session.close())
  }

  #forget(key: ObjectKey): void {
    const search = this.#searches.get(key)
    this.#searches.delete(key)
    search?.timer?.abort()
    for (const session of search?.sessions.values() ?? []) this.#await(session.close())
  }

  #changed(key: ObjectKey): void {
    const search = this.#searches.get(key)
    if (search === undefined) return
    const { clock, removeAfterMs, registry } = this.#options
    // A handler of another name has answered: what the one before had found is not asked for any more.
    const answered = [...search.sessions.values()].some(
      ({ state }) => state.phase === 'open' && state.listed,
    )
    const handler = search.configuration.spec.discoveryHandler.name
    search.answered ||= answered
    if (answered)
      search.orphans = search.orphans.filter(({ endpoint }) => isUidOf(handler, endpoint))
    search.orphans = search.orphans.filter(
      ({ lostSince }) => lostSince === undefined || clock.monotonicMs() < lostSince + removeAfterMs,
    )
    for (const { endpoint, unreachableSince } of search.sessions.values()) {
      // Whoever is back registers again. One in this process is never out of reach.
      if (unreachableSince !== undefined && clock.monotonicMs() >= unreachableSince + removeAfterMs)
        registry.drop(endpoint)
    }
    this.#wakeWhenAged(key, search)
    this.#listeners.tell(key)
  }

  /** Time alone changes a set too. */
  #wakeWhenAged(key: ObjectKey, search: Search): void {
    search.timer?.abort()
    search.timer = undefined
    const { changesAt } = this.#aged(search)
    if (changesAt === undefined) return
    const timer = new AbortController()
    search.timer = timer
    const { clock } = this.#options
    clock.sleep(changesAt - clock.monotonicMs(), timer.signal).then(
      () => {
        if (search.timer === timer) this.#changed(key)
      },
      () => {
        // Overtaken by a change, or ended.
      },
    )
  }

  #aged(search: Search) {
    const { clock, unhealthyAfterMs, removeAfterMs } = this.#options
    return ageDevices(
      listsOf(search),
      clock.monotonicMs(),
      { unhealthyAfterMs, removeAfterMs },
      search.waitingSince,
    )
  }

  #await(work: Promise<void>): void {
    this.#closing.add(work)
    void work.finally(() => this.#closing.delete(work))
  }
}

function listsOf(search: Search): EndpointList[] {
  return [...[...search.sessions.values()].map(({ list }) => list), ...search.orphans]
}
