import { type Clock, isRecord } from '@akrijs/runtime'
import type { ApiClient } from './api-client.js'
import { ApiError, ApiUnreachableError } from './errors.js'
import { keyOf, type ObjectKey } from './objects.js'

/** The least that every object has. */
export interface ApiObject {
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    readonly resourceVersion: string
  }
}

export interface ReflectorOptions<T extends ApiObject> {
  readonly client: ApiClient
  readonly clock: Clock
  /** Such as `/apis/akri.sh/v0/instances`. */
  readonly path: string
  readonly query?: { readonly labelSelector?: string; readonly fieldSelector?: string }
  /**
   * Makes a typed object of what the server gave.
   * @param known what stands in the cache for it
   * @returns undefined for an object that is not to be in the cache; `known` to keep what is there
   */
  parse(object: unknown, known: T | undefined): T | undefined
  /** Listing or watching failed, and is tried again. */
  onError(error: unknown, retryInMs: number): void
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  /** How many objects a page of a list has. @default 500 */
  readonly pageSize?: number
  /** How long the server is to keep a watch, in seconds; half as much again at random. @default 200 */
  readonly watchSeconds?: number
  /**
   * A watch on which nothing comes for so long is opened anew, in milliseconds: it may be dead. Most servers send a bookmark
   * each minute, but not all where nothing changes. @default 90000
   */
  readonly silenceMs?: number
}

/** Between attempts, in milliseconds. */
const INITIAL_BACKOFF_MS = 500
const CEILING_MS = 30_000
/** A watch that lasted so long has worked, in milliseconds. */
const STABLE_MS = 5000

/** The list that was being read has become too old to go on. */
const EXPIRED = 410

/**
 * Keeps the objects of a collection as they are on the server: lists them in pages, then follows each change. It goes on
 * until it is told to stop, whatever the server does; a listener that throws ends it, because that is a mistake of ours.
 */
export class Reflector<T extends ApiObject> {
  readonly synced: Promise<void>
  readonly #options: Required<ReflectorOptions<T>>
  readonly #objects = new Map<ObjectKey, T>()
  readonly #listeners = new Set<(key: ObjectKey) => void>()
  /** Where to go on watching; undefined where everything has to be listed. */
  #resourceVersion: string | undefined
  /** What writes have told since the list that is being read was asked for: the list may not have it yet. */
  readonly #observed = new Set<ObjectKey>()
  #failures = 0
  #onSynced: () => void = () => {}
  #lastContact: number | undefined

  constructor(options: ReflectorOptions<T>) {
    this.#options = {
      random: Math.random,
      pageSize: 500,
      watchSeconds: 200,
      silenceMs: 90_000,
      query: {},
      ...options,
    }
    this.synced = new Promise((resolve) => {
      this.#onSynced = resolve
    })
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key)
  }

  list(): readonly T[] {
    return [...this.#objects.values()]
  }

  /** Calls back after an object came, changed or went. */
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    if (signal.aborted) return
    const own = (key: ObjectKey) => listener(key)
    this.#listeners.add(own)
    signal.addEventListener('abort', () => this.#listeners.delete(own), { once: true })
  }

  /** When the server was last heard of, by the clock; undefined if never. */
  get lastContact(): number | undefined {
    return this.#lastContact
  }

  /**
   * Takes over what the server answered to a write, so that who reads next sees what he wrote. What the watch still has to
   * tell of the time before is left out.
   */
  observe(object: unknown): T | undefined {
    const key = keyIn(object)
    if (key === undefined) return undefined
    const known = this.#objects.get(key)
    const parsed = this.#options.parse(object, known)
    if (parsed === undefined) return undefined
    // The watch is further than that and knows of no such object: it went before the answer came.
    if (known === undefined && isOlderOrSame(versionIn(object), this.#resourceVersion))
      return parsed
    this.#observed.add(key)
    this.#put(parsed)
    return parsed
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock } = this.#options
    while (!signal.aborted) {
      const listing = await this.#listIfNeeded(signal)
      // Not before: a list that takes its time and fails is no success, or a server with too much to do would get no rest.
      const begun = clock.monotonicMs()
      const failure = listing.ok ? await this.#watch(signal) : listing.error
      if (signal.aborted) return
      const stable = clock.monotonicMs() - begun >= STABLE_MS
      if (stable) this.#failures = 0
      if (failure === undefined && stable) continue
      // A server that ends each watch at once must not be asked in a hot loop either.
      const retryInMs = this.#backoff()
      if (failure !== undefined) this.#options.onError(failure, retryInMs)
      await clock.sleep(retryInMs, signal).catch(() => undefined)
    }
  }

  async #listIfNeeded(signal: AbortSignal): Promise<Attempt<unknown>> {
    if (this.#resourceVersion !== undefined) return { ok: true, value: undefined }
    this.#observed.clear()
    const listed = await attempt(() => this.#listAll(signal))
    if (!listed.ok || signal.aborted) return listed
    this.#replaceAll(listed.value.objects, listed.value.resourceVersion)
    this.#resourceVersion = listed.value.resourceVersion
    this.#onSynced()
    return listed
  }

  async #listAll(signal: AbortSignal): Promise<{ objects: unknown[]; resourceVersion: string }> {
    const objects: unknown[] = []
    for (let next: string | undefined; ; ) {
      const page = await this.#page(next, signal)
      this.#lastContact = this.#options.clock.monotonicMs()
      objects.push(...page.items)
      next = page.metadata.continue || undefined
      if (next === undefined) return { objects, resourceVersion: page.metadata.resourceVersion }
    }
  }

  async #page(next: string | undefined, signal: AbortSignal): Promise<ListPage> {
    const { client, path, query, pageSize } = this.#options
    try {
      return listIn(
        await client.request({
          method: 'GET',
          path,
          query: { ...query, limit: pageSize, continue: next },
          signal,
        }),
        path,
      )
    } catch (error) {
      if (next === undefined || !ApiError.is(error, EXPIRED)) throw error
      // The next round begins again with the first page.
      throw new ApiUnreachableError(`list ${path}: it changed too much while it was read`, {
        cause: error,
      })
    }
  }

  async #watch(signal: AbortSignal): Promise<unknown> {
    const { client, path, query, random, watchSeconds, silenceMs, clock } = this.#options
    const timeoutSeconds = Math.round(watchSeconds * (1 + random() / 2))
    const silence = new Silence(clock, silenceMs, signal)
    let opened = false
    const lines = client.lines(
      {
        method: 'GET',
        path,
        query: {
          ...query,
          watch: true,
          allowWatchBookmarks: true,
          timeoutSeconds,
          resourceVersion: this.#resourceVersion,
        },
      },
      silence.signal,
      () => {
        opened = true
        this.#lastContact = clock.monotonicMs()
      },
    )
    try {
      while (true) {
        const next = await attempt(() => lines.next())
        if (!next.ok) {
          if (ApiError.is(next.error, EXPIRED)) this.#resourceVersion = undefined
          if (!silence.broken) return next.error
          // Once it was open there may just have been nothing to say: whether the server is there the next one tells.
          return opened
            ? undefined
            : new ApiUnreachableError(`watch ${path}: nothing came for ${silenceMs} ms`)
        }
        if (next.value.done === true) return undefined
        silence.broke()
        this.#lastContact = clock.monotonicMs()
        const event = eventIn(next.value.value)
        if (event === undefined)
          return new ApiUnreachableError(`watch ${path}: a line that is no event`)
        if (event.type === 'ERROR') {
          // Whatever it is, what happened since is not known: 410 and "too old" come here too.
          this.#resourceVersion = undefined
          return new ApiUnreachableError(
            `watch ${path}: ${JSON.stringify(event.object).slice(0, 300)}`,
          )
        }
        this.#apply(event.type, event.object)
      }
    } finally {
      silence.end()
      await lines.return().catch(() => undefined)
    }
  }

  #apply(type: string, object: unknown): void {
    const version = versionIn(object)
    this.#resourceVersion = version ?? this.#resourceVersion
    const key = keyIn(object)
    if (type === 'BOOKMARK' || key === undefined) return
    const known = this.#objects.get(key)
    if (known !== undefined && isOlder(version, known.metadata.resourceVersion)) return
    if (type === 'DELETED') this.#remove(key)
    else this.#take(key, object, known)
  }

  /** What is listed is true, even if its versions are smaller than before, as after a restored backup. */
  #replaceAll(objects: readonly unknown[], resourceVersion: string): void {
    const gone = new Set(this.#objects.keys())
    for (const key of this.#observed) {
      const known = this.#objects.get(key)
      if (known !== undefined && isOlder(resourceVersion, known.metadata.resourceVersion))
        gone.delete(key)
    }
    for (const object of objects) {
      const key = keyIn(object)
      if (key === undefined) continue
      gone.delete(key)
      const known = this.#objects.get(key)
      if (
        this.#observed.has(key) &&
        known !== undefined &&
        isOlder(versionIn(object), known.metadata.resourceVersion)
      )
        continue
      this.#take(key, object, known)
    }
    for (const key of gone) this.#remove(key)
  }

  /** Takes what the server says to be current. */
  #take(key: ObjectKey, object: unknown, known: T | undefined): void {
    if (known !== undefined && versionIn(object) === known.metadata.resourceVersion) return
    const parsed = this.#options.parse(object, known)
    if (parsed === undefined) this.#remove(key)
    else if (parsed !== known) this.#set(key, parsed)
  }

  #put(object: T): void {
    const key = keyOf(object)
    const known = this.#objects.get(key)
    if (
      known !== undefined &&
      (known === object ||
        isOlderOrSame(object.metadata.resourceVersion, known.metadata.resourceVersion))
    )
      return
    this.#set(key, object)
  }

  #set(key: ObjectKey, object: T): void {
    this.#objects.set(key, object)
    this.#tell(key)
  }

  #remove(key: ObjectKey): void {
    if (this.#objects.delete(key)) this.#tell(key)
  }

  #tell(key: ObjectKey): void {
    for (const listener of [...this.#listeners]) listener(key)
  }

  #backoff(): number {
    this.#failures++
    const ceiling = Math.min(CEILING_MS, INITIAL_BACKOFF_MS * 2 ** Math.min(this.#failures - 1, 20))
    return ceiling * (0.5 + this.#options.random() / 2)
  }
}

/** Aborts a watch on which nothing comes any more: a connection can be dead without an end. */
class Silence {
  readonly #clock: Clock
  readonly #ms: number
  readonly #outer: AbortSignal
  readonly #abort = new AbortController()
  readonly #onAbort = () => this.#abort.abort()
  #timer = new AbortController()
  broken = false

  constructor(clock: Clock, ms: number, outer: AbortSignal) {
    this.#clock = clock
    this.#ms = ms
    this.#outer = outer
    if (outer.aborted) this.#abort.abort()
    outer.addEventListener('abort', this.#onAbort, { once: true })
    this.broke()
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  /** Something came. */
  broke(): void {
    this.#timer.abort()
    const timer = new AbortController()
    this.#timer = timer
    this.#clock.sleep(this.#ms, timer.signal).then(
      () => {
        this.broken = true
        this.#abort.abort()
      },
      () => {
        // Something came in time.
      },
    )
  }

  end(): void {
    this.#timer.abort()
    this.#outer.removeEventListener('abort', this.#onAbort)
    this.#abort.abort()
  }
}

type Attempt<T> =
  | { readonly ok: true; readonly value: T }
  | { readonly ok: false; readonly error: unknown }

/** Only what the server does is caught: what listeners throw must not be taken for it. */
async function attempt<T>(work: () => Promise<T>): Promise<Attempt<T>> {
  try {
    return { ok: true, value: await work() }
  } catch (error) {
    return { ok: false, error }
  }
}

interface ListPage {
  readonly items: readonly unknown[]
  readonly metadata: { readonly resourceVersion: string; readonly continue?: string }
}

function listIn(page: unknown, path: string): ListPage {
  if (isRecord(page) && Array.isArray(page.items) && isRecord(page.metadata)) {
    const { resourceVersion, continue: next } = page.metadata
    if (typeof resourceVersion === 'string')
      return {
        items: page.items,
        metadata: { resourceVersion, ...(typeof next === 'string' ? { continue: next } : {}) },
      }
  }
  throw new ApiUnreachableError(`list ${path}: the answer is no list`)
}

function eventIn(line: string): { type: string; object: unknown } | undefined {
  try {
    const event: unknown = JSON.parse(line)
    return isRecord(event) && typeof event.type === 'string'
      ? { type: event.type, object: event.object }
      : undefined
  } catch {
    return undefined
  }
}

function metadataOf(object: unknown): Record<string, unknown> {
  return isRecord(object) && isRecord(object.metadata) ? object.metadata : {}
}

function keyIn(object: unknown): ObjectKey | undefined {
  const { namespace = '', name } = metadataOf(object)
  return typeof name === 'string' && typeof namespace === 'string'
    ? keyOf({ metadata: { namespace, name } })
    : undefined
}

function versionIn(object: unknown): string | undefined {
  const { resourceVersion } = metadataOf(object)
  return typeof resourceVersion === 'string' ? resourceVersion : undefined
}

/**
 * Versions of one kind of object are numbers that grow, where they are numbers (guaranteed since Kubernetes 1.35, and so
 * with etcd ever since). Of others nothing can be said, and the later message counts.
 */
function isOlder(version: string | undefined, than: string | undefined): boolean {
  return isNumber(version) && isNumber(than) && BigInt(version) < BigInt(than)
}

function isOlderOrSame(version: string | undefined, than: string | undefined): boolean {
  return version !== undefined && (version === than || isOlder(version, than))
}

function isNumber(version: string | undefined): version is string {
  return version !== undefined && /^\d+$/.test(version)
}
