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
  /** Hears of a deleted object, also of one that the cache has left out. */
  deleted?(key: ObjectKey): void
}

/** Any version that the server remembers, as the least version of a list. */
export const ANY_VERSION = '0'

/**
 * The objects of one collection as lists, watches and answers to writes show them. Synchronous,
 * without effects: each method that changes the cache returns, or yields, the keys that changed.
 */
export class ObjectCache<T extends ApiObject> {
  readonly #parser: ObjectParser<T>
  readonly #objects = new Map<ObjectKey, T>()
  readonly #parts: CachePart<T>[] = []

  constructor(parser: ObjectParser<T>) {
    this.#parser = parser
  }

  /**
   * A part of the collection with a list and a watch of its own.
   * @param has whether that list shows an object. No two parts show the same object
   * @default all objects
   */
  part(has: (object: T) => boolean = () => true): CachePart<T> {
    const part = new CachePart(this, has)
    this.#parts.push(part)
    return part
  }

  get(key: ObjectKey): T | undefined {
    return this.#objects.get(key)
  }

  list(): readonly T[] {
    return [...this.#objects.values()]
  }

  entries(): Iterable<readonly [ObjectKey, T]> {
    return this.#objects
  }

  /** Whether no list or watch shows this cached object: the cache learns by answers alone. */
  isStray(key: ObjectKey): boolean {
    const object = this.#objects.get(key)
    return object !== undefined && !this.#parts.some((part) => part.has(object))
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
    const parsed = isCached(cached, object) ? cached : this.#parser.parse(object, cached)
    if (parsed === undefined) return undefined
    const { resourceVersion } = parsed.metadata
    const part = this.#parts.find((each) => each.has(parsed))
    // The watch has passed this version and shows no such object: the object was deleted before the
    // answer came.
    if (cached === undefined && part?.hasPassed(versionIn(object)) === true)
      return { parsed, changed: [] }
    part?.observed(key, versionIn(object))
    const isCurrent =
      cached === parsed || isOlderOrSame(resourceVersion, cached?.metadata.resourceVersion)
    return { parsed, changed: isCurrent ? [] : this.#set(key, parsed) }
  }

  /** Removes a stray object that is no longer on the server. */
  forget(key: ObjectKey): readonly ObjectKey[] {
    return this.isStray(key) ? this.#remove(key) : []
  }

  /** Takes over an object of a list or a watch. */
  take(key: ObjectKey, object: unknown): readonly ObjectKey[] {
    const cached = this.#objects.get(key)
    if (isCached(cached, object)) return []
    const parsed = this.#parser.parse(object, cached)
    if (parsed === undefined) return this.#remove(key)
    return parsed === cached ? [] : this.#set(key, parsed)
  }

  /** Removes an object that a list or a watch does not show any more. */
  deleted(key: ObjectKey): readonly ObjectKey[] {
    this.#parser.deleted?.(key)
    return this.#remove(key)
  }

  #set(key: ObjectKey, object: T): readonly ObjectKey[] {
    this.#objects.set(key, object)
    return [key]
  }

  #remove(key: ObjectKey): readonly ObjectKey[] {
    return this.#objects.delete(key) ? [key] : []
  }
}

/** The objects of a cache that one list and its watch show. */
class CachePart<T extends ApiObject> {
  readonly has: (object: T) => boolean
  readonly #cache: ObjectCache<T>
  /** The version of the newest list or event. */
  #version: string | undefined
  /** The newest version of a list, an event or an answer; undefined if versions are no numbers. */
  #newest: string | undefined = ANY_VERSION
  /** Whether the current list is the newest, which is true whatever its versions are. */
  #listsNewest = false
  /**
   * Keys of writes that were answered after the current list was requested, until it is taken over:
   * the list may be older than the writes.
   */
  readonly #observed = new Set<ObjectKey>()
  #isListing = false
  /** The keys of objects that the cache has left out. */
  readonly #leftOut = new Set<ObjectKey>()

  constructor(cache: ObjectCache<T>, has: (object: T) => boolean) {
    this.#cache = cache
    this.has = has
  }

  /**
   * The least version of a list that does not go back in time: any version before the first list.
   * Undefined if versions cannot be compared: only the newest list is good enough.
   */
  get notOlderThan(): string | undefined {
    return this.#newest
  }

  /**
   * A list is requested: writes that were answered before are in it.
   * @param isNewest whether the newest list is requested. Otherwise the list has {@link
   * notOlderThan} at least
   */
  beginList(isNewest: boolean): void {
    this.#observed.clear()
    this.#isListing = true
    this.#listsNewest = isNewest
    // Versions may be smaller from now on, for example after a backup was restored.
    if (isNewest) this.#version = undefined
  }

  /**
   * Takes over a list, an object at a time: a long list is read in turns with other work. Objects
   * that are not in the list go last.
   *
   * A list is true even if its versions are smaller than before, for example after a backup was
   * restored.
   */
  *replace(objects: readonly unknown[], version: string): Generator<readonly ObjectKey[]> {
    if (this.#listsNewest) this.#newest = this.#newestObserved()
    this.#reached(version)
    const absent = new Set(this.#leftOut)
    for (const [key, object] of this.#cache.entries()) if (this.has(object)) absent.add(key)
    const isNewer = (key: ObjectKey, listed: string | undefined) => {
      const cached = this.#cache.get(key)
      const isFromElsewhere = this.#observed.has(key) || (cached && !this.has(cached))
      return isFromElsewhere && isOlder(listed, cached?.metadata.resourceVersion)
    }
    for (const object of objects) {
      const key = keyIn(object)
      if (key === undefined) continue
      absent.delete(key)
      if (!isNewer(key, versionIn(object))) yield this.#take(key, object)
    }
    for (const key of absent) {
      const cached = this.#cache.get(key)
      // The object may have moved to another part meanwhile.
      if (cached === undefined || (this.has(cached) && !isNewer(key, version)))
        yield this.#deleted(key)
    }
    this.#isListing = false
    this.#observed.clear()
  }

  /** @param type the type of a watch event. A `BOOKMARK` tells a version alone */
  apply(type: string, object: unknown): readonly ObjectKey[] {
    const version = versionIn(object)
    if (version !== undefined) this.#reached(version)
    const key = keyIn(object)
    if (type === 'BOOKMARK' || key === undefined) return []
    const cached = this.#cache.get(key)
    if (isOlder(version, cached?.metadata.resourceVersion)) return []
    if (type !== 'DELETED') return this.#take(key, object)
    // The object may have moved to another part, whose watch was faster.
    return cached === undefined || this.has(cached) ? this.#deleted(key) : []
  }

  /** Whether the list or the watch shows all changes until this version. */
  hasPassed(version: string | undefined): boolean {
    return isOlderOrSame(version, this.#version)
  }

  observed(key: ObjectKey, version: string | undefined): void {
    if (this.#isListing) this.#observed.add(key)
    this.#newest = newerOf(this.#newest, version)
  }

  #take(key: ObjectKey, object: unknown): readonly ObjectKey[] {
    const changed = this.#cache.take(key, object)
    if (this.#cache.get(key) === undefined) this.#leftOut.add(key)
    else this.#leftOut.delete(key)
    return changed
  }

  #deleted(key: ObjectKey): readonly ObjectKey[] {
    this.#leftOut.delete(key)
    return this.#cache.deleted(key)
  }

  #newestObserved(): string | undefined {
    let newest: string | undefined = ANY_VERSION
    for (const key of this.#observed)
      newest = newerOf(newest, this.#cache.get(key)?.metadata.resourceVersion ?? ANY_VERSION)
    return newest
  }

  #reached(version: string): void {
    this.#version = version
    this.#newest = newerOf(this.#newest, version)
  }
}

export type { CachePart }

/** A watch may show a write before its answer comes: no version is parsed twice. */
function isCached<T extends ApiObject>(cached: T | undefined, object: unknown): boolean {
  return cached !== undefined && versionIn(object) === cached.metadata.resourceVersion
}

export function versionIn(object: unknown): string | undefined {
  const { resourceVersion } = metadataIn(object)
  return typeof resourceVersion === 'string' ? resourceVersion : undefined
}

/** The key of an object of a server; undefined if it has no name. */
export function keyIn(object: unknown): ObjectKey | undefined {
  const { namespace = '', name } = metadataIn(object)
  return typeof name === 'string' && typeof namespace === 'string'
    ? objectKey(namespace, name)
    : undefined
}

export function metadataIn(object: unknown): Record<string, unknown> {
  return isRecord(object) && isRecord(object.metadata) ? object.metadata : {}
}

/**
 * Versions of one kind of object are numbers that grow, if they are numbers (guaranteed since
 * Kubernetes 1.35, and true of etcd before). Other versions cannot be compared: the later message
 * counts.
 */
export function isOlder(version: string | undefined, than: string | undefined): boolean {
  return isNumber(version) && isNumber(than) && BigInt(version) < BigInt(than)
}

function isOlderOrSame(version: string | undefined, than: string | undefined): boolean {
  return version !== undefined && (version === than || isOlder(version, than))
}

/** Undefined if the versions cannot be compared. */
function newerOf(version: string | undefined, other: string | undefined): string | undefined {
  if (!isNumber(version) || !isNumber(other)) return undefined
  return isOlder(version, other) ? other : version
}

function isNumber(version: string | undefined): version is string {
  return version !== undefined && /^\d+$/.test(version)
}
