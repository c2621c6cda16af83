import { isRecord } from '@akrijs/runtime'
import { type ObjectKey, objectKey } from './objects.js'

/** The least that every object has. */
export interface ApiObject {
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    readonly resourceVersion: string
  }
}

export interface ObjectParser<T> {
  /**
   * Makes a typed object of an object of the server.
   * @param cached the object of this key in the cache
   * @returns undefined for an object that does not belong into the cache; `cached` to keep the
   * object that is there
   */
  parse(object: unknown, cached: T | undefined): T | undefined
}

/**
 * The objects of one collection as lists, watches and answers to writes show them. Synchronous,
 * without effects: each method that changes the cache returns the keys that changed.
 */
export class ObjectCache<T extends ApiObject> {
  readonly #parser: ObjectParser<T>
  readonly #objects = new Map<ObjectKey, T>()
  /** The version of the newest list or event. */
  #version: string | undefined
  /**
   * Keys of writes that were answered after the current list was requested: the list may be older
   * than the writes.
   */
  readonly #observed = new Set<ObjectKey>()

  constructor(parser: ObjectParser<T>) {
    this.#parser = parser
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key)
  }

  list(): readonly T[] {
    return [...this.#objects.values()]
  }

  /** A list is requested: writes that were answered before are in it. */
  beginList(): void {
    this.#observed.clear()
    // Versions may be smaller from now on, for example after a backup was restored.
    this.#version = undefined
  }

  /**
   * A list is true even if its versions are smaller than before, for example after a backup was
   * restored.
   */
  replace(objects: readonly unknown[], version: string): readonly ObjectKey[] {
    this.#version = version
    const absent = new Set(this.#objects.keys())
    const isNewer = (key: ObjectKey, listed: string | undefined) =>
      this.#observed.has(key) && isOlder(listed, this.#objects.get(key)?.metadata.resourceVersion)
    const changed: ObjectKey[] = []
    for (const object of objects) {
      const key = keyIn(object)
      if (key === undefined) continue
      absent.delete(key)
      if (!isNewer(key, versionIn(object))) changed.push(...this.#take(key, object))
    }
    for (const key of absent) if (!isNewer(key, version)) changed.push(...this.#remove(key))
    return changed
  }

  /** @param type the type of a watch event. A `BOOKMARK` tells a version alone */
  apply(type: string, object: unknown): readonly ObjectKey[] {
    const version = versionIn(object)
    this.#version = version ?? this.#version
    const key = keyIn(object)
    if (type === 'BOOKMARK' || key === undefined) return []
    if (isOlder(version, this.#objects.get(key)?.metadata.resourceVersion)) return []
    return type === 'DELETED' ? this.#remove(key) : this.#take(key, object)
  }

  /**
   * Takes over the answer to a write. Events of the watch that are older than the answer have no
   * effect.
   * @returns the parsed answer and whether the cache changed; undefined if the answer does not
   * belong into the cache
   */
  observe(
    object: unknown,
  ): { readonly parsed: T; readonly changed: readonly ObjectKey[] } | undefined {
    const key = keyIn(object)
    if (key === undefined) return undefined
    const cached = this.#objects.get(key)
    const parsed = this.#parser.parse(object, cached)
    if (parsed === undefined) return undefined
    const { resourceVersion } = parsed.metadata
    // The watch has passed this version and shows no such object: the object was deleted before the
    // answer came.
    const isDeleted = cached === undefined && isOlderOrSame(versionIn(object), this.#version)
    if (isDeleted) return { parsed, changed: [] }
    this.#observed.add(key)
    const isCurrent =
      cached === parsed || isOlderOrSame(resourceVersion, cached?.metadata.resourceVersion)
    return { parsed, changed: isCurrent ? [] : this.#set(key, parsed) }
  }

  #take(key: ObjectKey, object: unknown): ObjectKey[] {
    const cached = this.#objects.get(key)
    if (cached !== undefined && versionIn(object) === cached.metadata.resourceVersion) return []
    const parsed = this.#parser.parse(object, cached)
    if (parsed === undefined) return this.#remove(key)
    return parsed === cached ? [] : this.#set(key, parsed)
  }

  #set(key: ObjectKey, object: T): ObjectKey[] {
    this.#objects.set(key, object)
    return [key]
  }

  #remove(key: ObjectKey): ObjectKey[] {
    return this.#objects.delete(key) ? [key] : []
  }
}

export function versionIn(object: unknown): string | undefined {
  const { resourceVersion } = metadataIn(object)
  return typeof resourceVersion === 'string' ? resourceVersion : undefined
}

function keyIn(object: unknown): ObjectKey | undefined {
  const { namespace = '', name } = metadataIn(object)
  return typeof name === 'string' && typeof namespace === 'string'
    ? objectKey(namespace, name)
    : undefined
}

function metadataIn(object: unknown): Record<string, unknown> {
  return isRecord(object) && isRecord(object.metadata) ? object.metadata : {}
}

/**
 * Versions of one kind of object are numbers that grow, if they are numbers (guaranteed since
 * Kubernetes 1.35, and true of etcd before). Other versions cannot be compared: the later message
 * counts.
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
