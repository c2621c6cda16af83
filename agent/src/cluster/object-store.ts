import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { ObjectCache } from './cluster.js'

/** The objects of one kind in this process. Each change makes a new object. */
export class ObjectStore<T extends Parameters<typeof keyOf>[0]> implements ObjectCache<T> {
  readonly synced = Promise.resolve()
  readonly #objects = new Map<ObjectKey, T>()
  readonly #listeners = new Listeners<[key: ObjectKey]>()

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key)
  }

  list(): readonly T[] {
    return [...this.#objects.values()]
  }

  onChange(listener: (key: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  put(object: T): void {
    this.#objects.set(keyOf(object), object)
    this.#listeners.tell(keyOf(object))
  }

  remove(key: ObjectKey): void {
    if (this.#objects.delete(key)) this.#listeners.tell(key)
  }
}
