import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import { Listeners } from '@akrijs/runtime'
import type { ObjectCache } from './cluster.js'

interface StoredObject {
  readonly metadata: { readonly namespace: string; readonly name: string }
}

/** The objects of one kind in this process. Objects are frozen: each change makes a new object. */
export class ObjectStore<T extends StoredObject> implements ObjectCache<T> {
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
    this.#objects.set(keyOf(object), deepFreeze(object))
    this.#listeners.tell(keyOf(object))
  }

  remove(key: ObjectKey): void {
    if (this.#objects.delete(key)) this.#listeners.tell(key)
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value)
    for (const inner of Object.values(value)) deepFreeze(inner)
  }
  return value
}
