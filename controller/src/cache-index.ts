import type { ApiObject, ObjectKey, Reflector } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'

/** Finds the objects of a cache by a value of theirs, such as a label, without a full scan. */
export class CacheIndex<T extends ApiObject, Value extends string = string> {
  readonly #indexedBy: (object: T) => Value | undefined
  readonly #cache: Reflector<T>
  readonly #keys = new Map<Value, Set<ObjectKey>>()
  readonly #values = new Map<ObjectKey, Value>()
  readonly #listeners = new Listeners<[value: Value]>()

  /** @param indexedBy gives undefined for an object that the index leaves out */
  constructor(
    cache: Reflector<T>,
    indexedBy: (object: T) => Value | undefined,
    signal: AbortSignal,
  ) {
    this.#cache = cache
    this.#indexedBy = indexedBy
    cache.onChange((key) => this.#changed(key), signal)
  }

  get(value: Value): T[] {
    // A list replaces all objects before the index follows.
    return [...(this.#keys.get(value) ?? [])]
      .flatMap((key) => this.#cache.get(key) ?? [])
      .filter((object) => this.#indexedBy(object) === value)
  }

  /** Calls back after an object with the value was added, changed or removed. */
  onChange(listener: (value: Value) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  #changed(key: ObjectKey): void {
    const object = this.#cache.get(key)
    const value = object && this.#indexedBy(object)
    const before = this.#values.get(key)
    if (value !== before) {
      this.#remove(key, before)
      this.#add(key, value)
      if (before !== undefined) this.#listeners.tell(before)
    }
    if (value !== undefined) this.#listeners.tell(value)
  }

  #remove(key: ObjectKey, value: Value | undefined): void {
    if (value === undefined) return
    const keys = this.#keys.get(value)
    keys?.delete(key)
    if (keys?.size === 0) this.#keys.delete(value)
    this.#values.delete(key)
  }

  #add(key: ObjectKey, value: Value | undefined): void {
    if (value === undefined) return
    this.#values.set(key, value)
    const keys = this.#keys.get(value) ?? new Set()
    this.#keys.set(value, keys.add(key))
  }
}
