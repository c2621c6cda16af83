import { Listeners } from '@akrijs/runtime'
import {
  LIST_WATCH_TIMING,
  type ListWatchOptions,
  type ListWatchTiming,
  listWatch,
} from './list-watch.js'
import { type ApiObject, ObjectCache, type ObjectParser } from './object-cache.js'
import type { ObjectKey } from './objects.js'

export interface ReflectorOptions<T extends ApiObject> extends ListWatchOptions, ObjectParser<T> {}

/**
 * Keeps the objects of a collection as they are on the server: a cache that follows a list and a
 * watch. The reflector runs until its signal is aborted, whatever the server does. A listener that
 * throws ends `run`: the error is a bug.
 */
export class Reflector<T extends ApiObject> {
  /** Resolves after the first list. */
  readonly synced: Promise<void>
  readonly #options: ListWatchOptions & Required<ListWatchTiming>
  readonly #cache: ObjectCache<T>
  readonly #listeners = new Listeners<[ObjectKey]>()
  #onSynced: () => void = () => {}
  #lastContact: number | undefined

  constructor(options: ReflectorOptions<T>, timing: ListWatchTiming = {}) {
    this.#options = { ...LIST_WATCH_TIMING, ...options, ...timing }
    this.#cache = new ObjectCache(options)
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
   * Takes over the answer to a write, so that the next reader sees the write.
   * @returns the parsed answer; undefined if it does not belong into the cache
   */
  observe(object: unknown): T | undefined {
    const observed = this.#cache.observe(object)
    this.#tell(observed?.changed ?? [])
    return observed?.parsed
  }

  async run(signal: AbortSignal): Promise<void> {
    const onContact = () => {
      this.#lastContact = this.#options.clock.monotonicMs()
    }
    for await (const event of listWatch(this.#options, signal, onContact)) {
      if (event.kind === 'listing') this.#cache.beginList()
      else if (event.kind === 'listed') {
        this.#tell(this.#cache.replace(event.objects, event.version))
        this.#onSynced()
      } else this.#tell(this.#cache.apply(event.type, event.object))
    }
  }

  #tell(keys: readonly ObjectKey[]): void {
    for (const key of keys) this.#listeners.tell(key)
  }
}
