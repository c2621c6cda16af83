import dns from 'node:dns/promises'
import { isIP } from 'node:net'
import type { Clock } from '@akrijs/sdk'

/** All addresses of a host name; rejects where it has none. */
export type Resolve = (host: string) => Promise<readonly string[]>

export interface HostNamesOptions {
  readonly clock: Clock
  /** @default as the system does */
  readonly resolve?: Resolve | undefined
  /** How long to wait for a name that is asked for the first time, in milliseconds. @default 3000 */
  readonly patienceMs?: number
}

/** What was resolved, or not, is not asked for again so soon. */
const FRESH_MS = 60_000
/** A name that resolved counts as one that does for so long, whatever has become of the DNS: ids of devices depend on it. */
const REMEMBERED_MS = 5 * 60_000
/** The resolver of the system blocks a thread for each name, of four that Node has for everything; others need some too. */
const AT_MOST = 2
/** The most names that are known at a time; any further one does not resolve. */
const MAX_NAMES = 5000

interface Entry {
  addresses: readonly string[]
  askedAt: number
  resolvedAt: number
  /** The first asking; later ones nobody waits for. */
  readonly first: Promise<void>
}

/** What host names mean, without asking for each of many servers in each round. */
export class HostNames {
  readonly #clock: Clock
  readonly #resolve: Resolve
  readonly #patienceMs: number
  readonly #entries = new Map<string, Entry>()
  readonly #waiting: (() => Promise<void>)[] = []
  #running = 0

  constructor({ clock, resolve = resolveBySystem, patienceMs = 3000 }: HostNamesOptions) {
    this.#clock = clock
    this.#resolve = resolve
    this.#patienceMs = patienceMs
  }

  /** The addresses of a host, itself if it is one; none where the name does not resolve. */
  async addressesOf(host: string): Promise<readonly string[]> {
    if (isIP(host) > 0) return [host]
    const entry = this.#entries.get(host) ?? this.#enter(host)
    if (entry === undefined) return []
    if (this.#clock.now() - entry.askedAt >= FRESH_MS) void this.#ask(host, entry)
    await this.#withPatience(entry.first)
    return entry.addresses
  }

  #enter(host: string): Entry | undefined {
    const now = this.#clock.now()
    for (const [known, { askedAt }] of this.#entries) if (now - askedAt >= REMEMBERED_MS) this.#entries.delete(known)
    if (this.#entries.size >= MAX_NAMES) return undefined
    const never = Number.NEGATIVE_INFINITY
    let answered = () => {}
    const first = new Promise<void>((resolve) => {
      answered = resolve
    })
    const entry: Entry = { addresses: [], askedAt: never, resolvedAt: never, first }
    this.#entries.set(host, entry)
    void this.#ask(host, entry).then(answered)
    return entry
  }

  /** Never rejects. */
  #ask(host: string, entry: Entry): Promise<void> {
    entry.askedAt = this.#clock.now()
    return new Promise((resolve) => {
      this.#waiting.push(async () => {
        const addresses = await this.#resolve(host).catch(() => [])
        const now = this.#clock.now()
        if (addresses.length > 0) Object.assign(entry, { addresses, resolvedAt: now })
        else if (now - entry.resolvedAt >= REMEMBERED_MS) entry.addresses = []
        resolve()
      })
      this.#runNext()
    })
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

  async #withPatience(answer: Promise<void>): Promise<void> {
    let timer: NodeJS.Timeout | undefined
    // By the real time, since that is what the resolver takes.
    const enough = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, this.#patienceMs)
    })
    await Promise.race([answer, enough])
    clearTimeout(timer)
  }
}

async function resolveBySystem(host: string): Promise<readonly string[]> {
  return (await dns.lookup(host, { all: true })).map(({ address }) => address)
}
