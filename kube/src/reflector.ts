import { inTurns, Listeners } from '@akrijs/runtime'
import {
  LIST_WATCH_TIMING,
  type ListWatchOptions,
  type ListWatchTiming,
  listWatch,
  type Selectors,
} from './list-watch.js'
import { type ApiObject, type CachePart, ObjectCache, type ObjectParser } from './object-cache.js'
import type { ObjectKey } from './objects.js'

export interface ReflectorOptions<T extends ApiObject> extends ListWatchOptions, ObjectParser<T> {
  /**
   * Whether each list has the newest state, which the server reads from its store. Other lists come
   * from the memory of the server: they are cheap, but the first list can be old.
   * @default false
   */
  readonly listsNewest?: boolean
  /**
   * Parts of the collection, each with its own list and watch. The other objects are not in the
   * cache, except by {@link Reflector.observe}.
   * @default one part: the objects of `query`
   */
  readonly parts?: readonly ReflectedPart<T>[]
  /** Hears of each answer of the server, after failures too. */
  onContact?(): void
}

export interface ReflectedPart<T> {
  readonly query: Selectors
  /** Whether the query selects the object. No two parts select the same object. */
  has(object: T): boolean
}

interface FollowedPart<T extends ApiObject> {
  readonly query: Selectors
  readonly objects: CachePart<T>
}

/**
 * Keeps the objects of a collection as they are on the server: a cache that follows a list and a
 * watch. The reflector runs until its signal is aborted, whatever the server does. A listener that
 * throws ends `run`: the error is a bug.
 */
export class Reflector<T extends ApiObject> {
  /** Resolves after the first list of each part. */
  readonly synced: Promise<void>
  readonly #options: ReflectorOptions<T> & Required<ListWatchTiming>
  readonly #cache: ObjectCache<T>
  readonly #parts: readonly FollowedPart<T>[]
  readonly #listeners = new Listeners<[ObjectKey]>()
  #onSynced: () => void = () => {}
  #lastContact: number | undefined
  readonly #begunAt: number

  constructor(options: ReflectorOptions<T>, timing: ListWatchTiming = {}) {
    this.#options = { ...LIST_WATCH_TIMING, ...options, ...timing }
    this.#begunAt = options.clock.monotonicMs()
    this.#cache = new ObjectCache(options)
    const { query = {}, parts = [{ query, has: () => true }] } = options
    this.#parts = parts.map(({ query, has }) => ({ query, objects: this.#cache.part(has) }))
    this.synced = new Promise((resolve) => {
      this.#onSynced = resolve
    })
  }

  get(key: ObjectKey): T | undefined {
    return this.#cache.get(key)
  }

  list(): readonly T[] {
    return this.#cache.list()
  }

  /** Calls back after an object came, changed or went. */
  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  /**
   * The time of the last answer of the server, by the clock's `monotonicMs`; undefined before the
   * first answer.
   */
  get lastContact(): number | undefined {
    return this.#lastContact
  }

  /**
   * Milliseconds since the last answer of the server; before the first answer, since the reflector
   * was made.
   */
  get silentForMs(): number {
    return this.#options.clock.monotonicMs() - (this.#lastContact ?? this.#begunAt)
  }

  /**
   * Takes over the answer to a read or a write, so that the next reader sees it.
   * @returns the parsed answer; undefined if it does not belong into the cache
   */
  observe(object: unknown): T | undefined {
    const observed = this.#cache.observe(object)
    this.#tell(observed?.changed ?? [])
    return observed?.parsed
  }

  /** Whether no watch shows this cached object: the cache knows the object by answers alone. */
  isStray(key: ObjectKey): boolean {
    return this.#cache.isStray(key)
  }

  /** Removes an object that no watch shows, after the server has answered that it is gone. */
  forget(key: ObjectKey): void {
    this.#tell(this.#cache.forget(key))
  }

  async run(signal: AbortSignal): Promise<void> {
    const stop = new AbortController()
    const onAbort = () => stop.abort()
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    let missing = this.#parts.length
    const onListed = () => {
      if (--missing === 0) this.#onSynced()
    }
    const followed = this.#parts.map(async (part) => {
      try {
        await this.#follow(part, onListed, stop.signal)
      } finally {
        // A bug in a listener ends all parts.
        onAbort()
      }
    })
    const results = await Promise.allSettled(followed)
    signal.removeEventListener('abort', onAbort)
    for (const result of results) if (result.status === 'rejected') throw result.reason
  }

  async #follow(
    { query, objects: part }: FollowedPart<T>,
    onListed: () => void,
    signal: AbortSignal,
  ): Promise<void> {
    const options = { ...this.#options, query }
    const { listsNewest = false } = options
    const notOlderThan = () => (listsNewest ? undefined : part.notOlderThan)
    const onContact = () => {
      this.#lastContact = options.clock.monotonicMs()
      options.onContact?.()
    }
    let isListed = false
    for await (const event of listWatch(options, signal, notOlderThan, onContact)) {
      if (event.kind === 'listing') part.beginList(event.isNewest)
      else if (event.kind === 'listed') {
        for await (const changed of inTurns(part.replace(event.objects, event.version)))
          this.#tell(changed)
        if (!isListed) onListed()
        isListed = true
      } else this.#tell(part.apply(event.type, event.object))
    }
  }

  #tell(keys: readonly ObjectKey[]): void {
    for (const key of keys) this.#listeners.tell(key)
  }
}
