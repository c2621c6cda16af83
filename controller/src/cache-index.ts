import { type ApiObject, keyOf, type ObjectKey, type Reflector } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'

/**
 * Finds the objects of a cache by a value of theirs, such as a label or a node, without a scan of
 * all. Listeners that the cache had before the index hear of a change before the index does.
 */
export class CacheIndex<T extends ApiObject, Value extends string = string> {
  readonly #cache: Pick<Reflector<T>, 'get'>
  readonly #valuesIn: (object: T) => Value | readonly Value[] | ReadonlySet<Value> | undefined
  readonly #keys = new Map<Value, Set<ObjectKey>>()
  /** The objects as the index shows them. */
  readonly #known = new Map<ObjectKey, T>()
  readonly #listeners = new Listeners<[value: Value]>()

  /** @param valuesIn gives a value, or several; undefined for an object that is left out */
  constructor(
    cache: Pick<Reflector<T>, 'get' | 'list' | 'onChange'>,
    valuesIn: (object: T) => Value | readonly Value[] | ReadonlySet<Value> | undefined,
    signal: AbortSignal,
  ) {
    this.#cache = cache
    this.#valuesIn = valuesIn
    for (const object of cache.list()) this.#update(keyOf(object))
    cache.onChange((key) => this.#update(key), signal)
  }

  get(value: Value): T[] {
    // The cache may have changed an object of a list, and not yet called back.
    return [...(this.#keys.get(value) ?? [])]
      .flatMap((key) => this.#cache.get(key) ?? [])
      .filter((object) => this.#valuesOf(object).has(value))
  }

  has(value: Value): boolean {
    return this.#keys.has(value)
  }

  /** Calls back after an object with the value was added, changed or removed. */
  onChange(listener: (value: Value) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  #update(key: ObjectKey): void {
    const before = this.#valuesOf(this.#known.get(key))
    const object = this.#cache.get(key)
    const after = this.#valuesOf(object)
    // An object without values takes no room.
    if (object === undefined || after.size === 0) this.#known.delete(key)
    else this.#known.set(key, object)
    const removed = [...before].filter((value) => !after.has(value))
    for (const value of removed) {
      const keys = this.#keys.get(value)
      keys?.delete(key)
      if (keys?.size === 0) this.#keys.delete(value)
    }
    for (const value of after)
      this.#keys.set(value, (this.#keys.get(value) ?? new Set<ObjectKey>()).add(key))
    for (const value of [...removed, ...after]) this.#listeners.tell(value)
  }

  #valuesOf(object: T | undefined): ReadonlySet<Value> {
    const values = object && this.#valuesIn(object)
    return new Set(typeof values === 'string' ? [values] : values)
  }
}
