import dns from 'node:dns/promises'
import { isIP } from 'node:net'
import type { Clock } from '@akrijs/sdk'

/** All addresses of a host name; rejects where it has none. */
export type Resolve = (host: string) => Promise<readonly string[]>

export interface HostNamesOptions {
  readonly clock: Clock
  /** @default as the system does */
  readonly resolve?: Resolve | undefined
  /** How long a name is waited for when it is asked for the first time, in milliseconds. @default 3000 */
  readonly patienceMs?: number
  /** Ends the waiting, and the asking for those that have not had their turn. @default never */
  readonly signal?: AbortSignal
}

/** What was resolved, or not, is not asked for again so soon. */
const FRESH_MS = 60_000
/** A name that resolved counts as one that does for so long, whatever has become of the DNS: ids of devices depend on it. */
const REMEMBERED_MS = 5 * 60_000
/**
 * The resolver of the system blocks a thread for each name. Node has four, and gives names two of them at most: two names that hang
 * hold up all others of the process.
 */
const AT_MOST = 1
/** The most names that are known at a time; any further one does not resolve. */
const MAX_NAMES = 5000

interface Entry {
  addresses: readonly string[]
  /** When it was last asked for, or would have been if it were not being asked for already. */
  askedAt: number
  resolvedAt: number
  /** Whether it is being asked for, or waits for its turn. */
  isAsked: boolean
  /** The first answer, or that it was waited for long enough; later answers nobody waits for. */
  readonly first: Promise<void>
  readonly endWaiting: () => void
}

/** What host names mean, without asking for each of many servers in each round. */
export class HostNames {
  readonly #clock: Clock
  readonly #resolve: Resolve
  readonly #patienceMs: number
  readonly #signal: AbortSignal | undefined
  readonly #entries = new Map<string, Entry>()
  readonly #waiting: (() => Promise<void>)[] = []
  #running = 0

  constructor({ clock, resolve = resolveBySystem, patienceMs = 3000, signal }: HostNamesOptions) {
    this.#clock = clock
    this.#resolve = resolve
    this.#patienceMs = patienceMs
    this.#signal = signal
    signal?.addEventListener('abort', () => this.#end(), { once: true })
  }

  /**
   * The addresses of a host, itself if it is one; none where the name does not resolve, or has not yet. All who want a name share
   * its patience, and whoever wants it later does not wait: ask for many at the same time.
   * @throws the signal's reason when it is aborted
   */
  async addressesOf(host: string): Promise<readonly string[]> {
    if (isIP(host) > 0) return [host]
    this.#signal?.throwIfAborted()
    const entry = this.#entries.get(host) ?? this.#enter(host)
    if (entry === undefined) return []
    if (this.#clock.now() - entry.askedAt >= FRESH_MS) this.#ask(host, entry)
    await entry.first
    this.#signal?.throwIfAborted()
    return entry.addresses
  }

  #enter(host: string): Entry | undefined {
    const now = this.#clock.now()
    for (const [known, { askedAt }] of this.#entries) if (now - askedAt >= REMEMBERED_MS) this.#entries.delete(known)
    if (this.#entries.size >= MAX_NAMES) return undefined
    const never = Number.NEGATIVE_INFINITY
    let endWaiting = () => {}
    const first = new Promise<void>((resolve) => {
      // By the real time, since that is what the resolver takes.
      const timer = setTimeout(resolve, this.#patienceMs)
      endWaiting = () => {
        clearTimeout(timer)
        resolve()
      }
    })
    const entry: Entry = { addresses: [], askedAt: never, resolvedAt: never, isAsked: false, first, endWaiting }
    this.#entries.set(host, entry)
    this.#ask(host, entry)
    return entry
  }

  #ask(host: string, entry: Entry): void {
    entry.askedAt = this.#clock.now()
    if (entry.isAsked) return
    entry.isAsked = true
    this.#waiting.push(async () => {
      // It was forgotten before its turn came.
      if (this.#entries.get(host) !== entry) return
      const addresses = await this.#resolve(host).catch(() => [])
      const now = this.#clock.now()
      if (addresses.length > 0) Object.assign(entry, { addresses, resolvedAt: now })
      else if (now - entry.resolvedAt >= REMEMBERED_MS) entry.addresses = []
      entry.isAsked = false
      entry.endWaiting()
    })
    this.#runNext()
  }

  #runNext(): void {
    if (this.#running >= AT_MOST) return
    const next = this.#waiting.shift()
    if (next === undefined) return
    this.#running++
    void next().finally(() => {
      this.#running--
      this.#runNext()
    })
  }

  #end(): void {
    this.#waiting.length = 0
    for (const { endWaiting } of this.#entries.values()) endWaiting()
  }
}

async function resolveBySystem(host: string): Promise<readonly string[]> {
  return (await dns.lookup(host, { all: true })).map(({ address }) => address)
}
