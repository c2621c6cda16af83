import type { ApiObject, ObjectKey, Reflector } from '@akrijs/kube'

/** The objects of a cache by something that they have, so that what belongs together is found without looking at all. */
export class ObjectIndex<T extends ApiObject, Entry extends string = string> {
  readonly #of: (object: T) => Entry | undefined
  readonly #cache: Reflector<T>
  readonly #entries = new Map<Entry, Set<ObjectKey>>()
  readonly #entryOf = new Map<ObjectKey, Entry>()
  readonly #listeners = new Set<(entry: Entry) => void>()

  /** @param of what an object is found by; undefined for one that is not in the index */
  constructor(cache: Reflector<T>, of: (object: T) => Entry | undefined, signal: AbortSignal) {
    this.#cache = cache
    this.#of = of
    cache.onChange((key) => this.#changed(key), signal)
  }

  get(entry: Entry): T[] {
    return [...(this.#entries.get(entry) ?? [])].flatMap((key) => this.#cache.get(key) ?? [])
  }

  /** Calls back after something of an entry came, changed or went. */
  onChange(listener: (entry: Entry) => void, signal: AbortSignal): void {
    if (signal.aborted) return
    this.#listeners.add(listener)
    signal.addEventListener('abort', () => this.#listeners.delete(listener), { once: true })
  }

  #changed(key: ObjectKey): void {
    const object = this.#cache.get(key)
    const entry = object && this.#of(object)
    const before = this.#entryOf.get(key)
    if (entry !== before) {
      this.#takeOut(key, before)
      this.#putIn(key, entry)
      this.#tell(before)
    }
    this.#tell(entry)
  }

  #takeOut(key: ObjectKey, entry: Entry | undefined): void {
    if (entry === undefined) return
    const keys = this.#entries.get(entry)
    keys?.delete(key)
    if (keys?.size === 0) this.#entries.delete(entry)
    this.#entryOf.delete(key)
  }

  #putIn(key: ObjectKey, entry: Entry | undefined): void {
    if (entry === undefined) return
    this.#entryOf.set(key, entry)
    const keys = this.#entries.get(entry) ?? new Set()
    this.#entries.set(entry, keys.add(key))
  }

  #tell(entry: Entry | undefined): void {
    if (entry !== undefined) for (const listener of [...this.#listeners]) listener(entry)
  }
}
