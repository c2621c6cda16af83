import { promises as dns } from 'node:dns'
import { isIP } from 'node:net'
import { type Clock, currentClock, messageOf } from '@akrijs/runtime'
import { HostNameError } from './errors.js'

/** Looks up all addresses of a host name; rejects if the name has none. */
export type ResolveHostName = (host: string) => Promise<readonly string[]>

/** Options of {@link HostNames}. */
export interface HostNamesOptions {
  /** @default the clock of the discovery, see `currentClock` */
  readonly clock?: Clock
  /** Ends all waits, and removes the lookups that have not begun. @default never */
  readonly signal?: AbortSignal | undefined
}

/** The longest wait for a lookup, in milliseconds. */
const WAIT_MS = 3000
/** The least time between two lookups of a name, in milliseconds. */
const FRESH_MS = 60_000
/**
 * The time for which an answer needs no wait, an address stays valid, and a request keeps its name,
 * in milliseconds.
 */
const REMEMBERED_MS = 5 * 60_000
const MAX_NAMES = 5000
/**
 * The property of `globalThis` with the last lookup of this process: a promise. The agent's bundle
 * has a copy of this package, and each handler can have another copy.
 */
const LAST_LOOKUP = Symbol.for('@akrijs/sdk/host-names')

interface Name {
  readonly host: string
  requestedAt: number
  answeredAt: number
  /** The addresses of the last successful lookup. */
  addresses: readonly string[]
  resolvedAt: number
  /** The reason for an empty list of addresses. */
  problem: HostNameError
  /** Defined from the request of a lookup to its end. */
  lookup: { readonly waited: Promise<void>; readonly over: AbortController } | undefined
}

/**
 * The addresses of host names that devices announce. The system blocks a thread for each lookup,
 * and Node.js has two threads for the lookups of a process. A slow name server for the names of
 * devices must not delay the lookups of the program.
 *
 * So the whole process does **one lookup at a time**, for all `HostNames` together. They take
 * turns: thousands of names in one object delay another object by one lookup at a time. A lookup
 * that hangs ends when the system gives up (on Linux after 5 s for each attempt at each name
 * server, unless `resolv.conf` sets another time). Callers do not wait so long: they get the last
 * addresses of a name.
 *
 * {@link AllowedNetworks} decides whether a handler may call the addresses.
 *
 * @example
 * const names = new HostNames({ signal })
 * const [address] = await names.addressesOf('camera.local')
 */
export class HostNames {
  readonly #clock: Clock
  readonly #signal: AbortSignal | undefined
  readonly #resolve: ResolveHostName
  /** In the order of the last requests. */
  readonly #names = new Map<string, Name>()
  readonly #waiting: Name[] = []
  #isLookingUp = false

  /**
   * @param options the clock and the signal
   * @param lookup how a name is looked up
   */
  constructor(
    { clock = currentClock(), signal }: HostNamesOptions,
    {
      resolve = resolveBySystem,
    }: {
      /** Looks up a name. @default the lookup of the system */
      readonly resolve?: ResolveHostName | undefined
    } = {},
  ) {
    this.#clock = clock
    this.#signal = signal
    this.#resolve = resolve
    signal?.addEventListener('abort', () => this.#end(), { once: true })
  }

  /**
   * The addresses of a host; an address comes back unchanged.
   * - A name is looked up at most once a minute.
   * - A caller waits if there is no answer of the last 5 minutes, and at most 3 s. Callers of the
   *   same name share the wait: request many names at the same time.
   * - The addresses of a name stay valid for 5 minutes, and longer while there is no other answer.
   * - At most 5000 names are kept. A name without a request in 5 minutes makes room for another,
   *   and is not looked up.
   * @throws HostNameError if the name has no address or no answer yet, or there are too many names;
   * the signal's reason after an abort
   */
  async addressesOf(host: string): Promise<readonly string[]> {
    if (isIP(host) > 0) return [host]
    this.#signal?.throwIfAborted()
    const now = this.#clock.monotonicMs()
    const name = this.#names.get(host) ?? this.#enter(host, now)
    name.requestedAt = now
    this.#names.delete(host)
    this.#names.set(host, name)
    if (now - name.answeredAt >= FRESH_MS) name.lookup ??= this.#lookUp(name)
    if (now - name.answeredAt >= REMEMBERED_MS) await name.lookup?.waited
    this.#signal?.throwIfAborted()
    if (name.addresses.length === 0) throw name.problem
    return name.addresses
  }

  #enter(host: string, now: number): Name {
    if (this.#names.size >= MAX_NAMES) {
      const [oldest] = this.#names.values()
      if (oldest === undefined || now - oldest.requestedAt < REMEMBERED_MS)
        throw new HostNameError(host, `there are already ${MAX_NAMES} other names`)
      this.#names.delete(oldest.host)
    }
    const never = Number.NEGATIVE_INFINITY
    return {
      host,
      requestedAt: now,
      answeredAt: never,
      addresses: [],
      resolvedAt: never,
      problem: new HostNameError(host, 'there is no answer yet'),
      lookup: undefined,
    }
  }

  #lookUp(name: Name): Name['lookup'] {
    const over = new AbortController()
    const waited = this.#clock.sleep(WAIT_MS, over.signal).catch(() => {})
    this.#waiting.push(name)
    void this.#lookUpAll()
    return { waited, over }
  }

  /** Each lookup is a turn of its own, so that other objects have their turns in between. */
  async #lookUpAll(): Promise<void> {
    if (this.#isLookingUp) return
    this.#isLookingUp = true
    while (this.#waiting.length > 0) await afterLastLookup(() => this.#lookUpNext())
    this.#isLookingUp = false
  }

  /** Looks up the next name that still has a request. Never rejects. */
  async #lookUpNext(): Promise<void> {
    for (let name = this.#waiting.shift(); name !== undefined; name = this.#waiting.shift()) {
      const isRequested = this.#clock.monotonicMs() - name.requestedAt < REMEMBERED_MS
      if (isRequested) await this.#answer(name)
      endLookup(name)
      if (isRequested) return
    }
  }

  async #answer(name: Name): Promise<void> {
    let addresses: readonly string[] = []
    let problem = new HostNameError(name.host, 'it has no address')
    try {
      addresses = await this.#resolve(name.host)
    } catch (error) {
      problem = new HostNameError(name.host, messageOf(error), { cause: error })
    }
    const now = this.#clock.monotonicMs()
    name.answeredAt = now
    if (addresses.length > 0) {
      name.addresses = addresses
      name.resolvedAt = now
    } else {
      name.problem = problem
      if (now - name.resolvedAt >= REMEMBERED_MS) name.addresses = []
    }
  }

  #end(): void {
    this.#waiting.length = 0
    for (const name of this.#names.values()) endLookup(name)
  }
}

function endLookup(name: Name): void {
  name.lookup?.over.abort()
  name.lookup = undefined
}

/** Does a lookup when all earlier lookups of the process have ended. */
function afterLastLookup(lookUp: () => Promise<void>): Promise<void> {
  const last = Promise.resolve(Reflect.get(globalThis, LAST_LOOKUP)).then(lookUp, lookUp)
  Reflect.set(globalThis, LAST_LOOKUP, last)
  return last
}

async function resolveBySystem(host: string): Promise<readonly string[]> {
  return (await dns.lookup(host, { all: true })).map(({ address }) => address)
}
