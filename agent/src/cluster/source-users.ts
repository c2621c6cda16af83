import { keyParts, type ObjectKey } from '@akrijs/kube/objects'
import type { SourceBounds } from '../limits.js'

export type SourceRefusal = keyof SourceBounds

/**
 * Which Configurations use which Secrets and ConfigMaps. A Configuration uses all objects that it
 * refers to, or none if a bound has no room for them. Pure.
 */
export class SourceUsers {
  readonly #bounds: SourceBounds
  readonly #objects = new Map<ObjectKey, readonly string[]>()
  /** The Configurations that use an object, by their namespace. */
  readonly #users = new Map<string, Map<string, Set<ObjectKey>>>()

  constructor(bounds: SourceBounds) {
    this.#bounds = bounds
  }

  /** The objects that the Configuration uses. */
  objectsOf(key: ObjectKey): readonly string[] {
    return this.#objects.get(key) ?? []
  }

  isUser(object: string, key: ObjectKey): boolean {
    return this.#users.get(object)?.get(keyParts(key).namespace)?.has(key) === true
  }

  /** The Configurations that use the object. */
  *usersOf(object: string): Iterable<ObjectKey> {
    for (const users of this.#users.get(object)?.values() ?? []) yield* users
  }

  /** The namespaces of these Configurations. */
  namespacesOf(object: string): Iterable<string> {
    return this.#users.get(object)?.keys() ?? []
  }

  /**
   * Lets a Configuration use these objects in place of those before.
   * @param objects each once
   * @returns the bound without room for them; then the Configuration uses none
   */
  use(key: ObjectKey, objects: readonly string[]): SourceRefusal | undefined {
    this.#release(key)
    const { namespace } = keyParts(key)
    const used = [...this.#users.values()].filter((users) => users.has(namespace)).length
    const others = objects.filter((object) => !this.#users.has(object))
    const further = objects.filter((object) => this.#users.get(object)?.has(namespace) !== true)
    if (used + further.length > this.#bounds.perNamespace) return 'perNamespace'
    if (this.#users.size + others.length > this.#bounds.perAgent) return 'perAgent'
    if (objects.length > 0) this.#objects.set(key, objects)
    for (const object of objects) {
      const users = this.#users.get(object) ?? new Map<string, Set<ObjectKey>>()
      this.#users.set(object, users)
      users.set(namespace, (users.get(namespace) ?? new Set()).add(key))
    }
    return undefined
  }

  #release(key: ObjectKey): void {
    const { namespace } = keyParts(key)
    for (const object of this.objectsOf(key)) {
      const users = this.#users.get(object)
      users?.get(namespace)?.delete(key)
      if (users?.get(namespace)?.size === 0) users.delete(namespace)
      if (users?.size === 0) this.#users.delete(object)
    }
    this.#objects.delete(key)
  }
}
