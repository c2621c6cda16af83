import { promises as dns } from 'node:dns'
import { isIP } from 'node:net'
import { type Clock, messageOf, systemClock } from '@akrijs/runtime'
import { HostNameError } from './errors.js'

/** All addresses of a host name; rejects where it has none. */
export type ResolveHostName = (host: string) => Promise<readonly string[]>

export interface HostNamesOptions {
  /** @default systemClock */
  readonly clock?: Clock
  /** @default as the system does */
  readonly resolve?: ResolveHostName | undefined
  /** Ends the waiting, and the lookups that have not had their turn. @default never */
  readonly signal?: AbortSignal
}

/** How long a lookup is waited for, in milliseconds. */
const PATIENCE_MS = 3000
/** What was looked up, with or without success, is not looked up again so soon, in milliseconds. */
const FRESH_MS = 60_000
/**
 * For how long an answer is not waited for again, a name that resolved counts as one that does, and a name that was wanted counts as
 * one that is, in milliseconds.
 */
const REMEMBERED_MS = 5 * 60_000
/** The most names that are known at a time. */
const MAX_NAMES = 5000
/**
 * Where `globalThis` has the turns of this process: a promise that settles when the last of them is over. The agent has a copy of
 * this package in its bundle, and each handler may have another one.
 */
const TURNS = Symbol.for('@akrijs/sdk/host-names')

interface Name {
  readonly host: string
  wantedAt: number
  answeredAt: number
  /** What it meant when it meant something last. */
  addresses: readonly string[]
  resolvedAt: number
  /** Why there are no addresses, if there are none. */
  problem: HostNameError
  /** From when a lookup is wanted until it is over. */
  lookup: { readonly waitedFor: Promise<void>; readonly over: AbortController } | undefined
}

/**
 * What host names mean that devices name. The system blocks a thread for each lookup, and Node has two for all names of a process:
 * whoever answers slowly for the names of devices must not hold up those that the program itself depends on.
 *
 * So **one name is looked up at a time in the whole process**, whoever wants it. All `HostNames` that want one take turns, so that
 * one with thousands holds up another by one lookup at a time. A lookup that hangs ends when the system gives it up (in Linux 5 s
 * for each attempt at each name server, unless `resolv.conf` says otherwise); until then the others wait for their turn. Who wants
 * a name does not wait so long: its last known addresses count on.
 *
 * Whether the addresses may be called is for the caller to see ({@link AllowedNetworks}).
 */
export class HostNames {
  readonly #clock: Clock
  readonly #resolve: ResolveHostName
  readonly #signal: AbortSignal | undefined
  /** The one that was wanted last is the last. */
  readonly #names = new Map<string, Name>()
  readonly #waiting: Name[] = []
  #isTakingTurns = false

  constructor({ clock = systemClock, resolve = resolveBySystem, signal }: HostNamesOptions = {}) {
    this.#clock = clock
    this.#resolve = resolve
    this.#signal = signal
    signal?.addEventListener('abort', () => this.#end(), { once: true })
  }

  /**
   * The addresses of a host, itself if it is one. A name is looked up once a minute at most. Its answer is waited for where there is
   * none of the last 5 minutes, and no longer than 3 s, which all who want the name share: ask for many names at the same time. A
   * name that resolved counts as one that does for 5 minutes more, and for as long as no answer says otherwise. 5000 names are known
   * at most; one that nobody has wanted for 5 minutes makes room for others, and is not looked up.
   * @throws HostNameError where it does not resolve, has not yet, or there are too many; the signal's reason when it is aborted
   */
  async addressesOf(host: string): Promise<readonly string[]> {
    if (isIP(host) > 0) return [host]
    this.#signal?.throwIfAborted()
    const now = this.#clock.monotonicMs()
    const name = this.#names.get(host) ?? this.#enter(host, now)
    name.wantedAt = now
    this.#names.delete(host)
    this.#names.set(host, name)
    if (now - name.answeredAt >= FRESH_MS) name.lookup ??= this.#lookUp(name)
    if (now - name.answeredAt >= REMEMBERED_MS) await name.lookup?.waitedFor
    this.#signal?.throwIfAborted()
    if (name.addresses.length === 0) throw name.problem
    return name.addresses
  }

  #enter(host: string, now: number): Name {
    if (this.#names.size >= MAX_NAMES) {
      const [oldest] = this.#names.values()
      if (oldest === undefined || now - oldest.wantedAt < REMEMBERED_MS)
        throw new HostNameError(host, `${MAX_NAMES} others are wanted already`)
      this.#names.delete(oldest.host)
    }
    const never = Number.NEGATIVE_INFINITY
    const problem = new HostNameError(host, 'there is no answer yet')
    return {
      host,
      wantedAt: now,
      answeredAt: never,
      addresses: [],
      resolvedAt: never,
      problem,
      lookup: undefined,
    }
  }

  #lookUp(name: Name): Name['lookup'] {
    const over = new AbortController()
    const waitedFor = this.#clock.sleep(PATIENCE_MS, over.signal).catch(() => {})
    this.#waiting.push(name)
    void this.#takeTurns()
    return { waitedFor, over }
  }

  /** A turn for each lookup, so that others have theirs in between. */
  async #takeTurns(): Promise<void> {
    if (this.#isTakingTurns) return
    this.#isTakingTurns = true
    while (this.#waiting.length > 0) await inTurn(() => this.#turn())
    this.#isTakingTurns = false
  }

  /** Never rejects. */
  async #turn(): Promise<void> {
    for (let name = this.#waiting.shift(); name !== undefined; name = this.#waiting.shift()) {
      const isWanted = this.#clock.monotonicMs() - name.wantedAt < REMEMBERED_MS
      if (isWanted) await this.#answer(name)
      endLookup(name)
      if (isWanted) return
    }
  }

  async #answer(name: Name): Promise<void> {
    const answer = await this.#ask(name.host)
    const now = this.#clock.monotonicMs()
    name.answeredAt = now
    if (answer instanceof HostNameError) {
      name.problem = answer
      if (now - name.resolvedAt >= REMEMBERED_MS) name.addresses = []
    } else {
      name.addresses = answer
      name.resolvedAt = now
    }
  }

  async #ask(host: string): Promise<readonly string[] | HostNameError> {
    try {
      const addresses = await this.#resolve(host)
      return addresses.length > 0 ? addresses : new HostNameError(host, 'it has no address')
    } catch (error) {
      return new HostNameError(host, messageOf(error), { cause: error })
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

/** Runs something when all that came before it is over. */
function inTurn(run: () => Promise<void>): Promise<void> {
  const turn = Promise.resolve(Reflect.get(globalThis, TURNS)).then(run, run)
  Reflect.set(globalThis, TURNS, turn)
  return turn
}

async function resolveBySystem(host: string): Promise<readonly string[]> {
  return (await dns.lookup(host, { all: true })).map(({ address }) => address)
}
