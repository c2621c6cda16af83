import { parseObjectMeta } from '@akrijs/api'
import {
  ApiError,
  type ApiObject,
  type DeleteOptions,
  keyOf,
  type ObjectKey,
  objectKey,
} from '@akrijs/kube'
import { FIELD_MANAGER } from './applied-fields.js'
import type { NamedObject } from './brokers/broker-template.js'
import type { Kind } from './cluster-state.js'
import { NameTakenError } from './errors.js'
import { alternativeName, belongsTo } from './labels.js'
import type { KubernetesObject } from './objects.js'

export interface Creation<T> {
  readonly namespace: string
  readonly name: string
  /** What the object is for, and no other: part of its name where another one has the first. */
  readonly of: string
  make(name: string): object
  /** Whether an object of the name is the one that was to be made. */
  isIt(object: T): boolean
}

/**
 * Makes, changes and removes objects of one kind, and only those that belong to an object of ours: a name or a label that
 * somebody else has used is no reason to touch what is his.
 */
export class ObjectWriter<T extends ApiObject & KubernetesObject> {
  readonly #kind: Kind<T>
  /** The uids of objects that are being deleted, until they have gone from the cache. */
  readonly #leaving = new Map<ObjectKey, string>()

  constructor(kind: Kind<T>, signal: AbortSignal) {
    this.#kind = kind
    kind.cache.onChange((key) => this.#changed(key), signal)
  }

  /** Whether it is on its way out, by what the server said or by what was asked of it. */
  isLeaving({ metadata }: KubernetesObject): boolean {
    return (
      metadata.deletionTimestamp !== undefined ||
      this.#leaving.get(keyOf({ metadata })) === metadata.uid
    )
  }

  /**
   * Creates the object; where another one has its name, by another name.
   * @returns false where it was there already, and the cache has not yet heard of it
   * @throws ApiError, ApiUnreachableError; NameTakenError where the other name is taken as well
   */
  async create(
    { namespace, name, of, make, isIt }: Creation<T>,
    signal: AbortSignal,
  ): Promise<boolean> {
    for (const candidate of [name, alternativeName(name, of)]) {
      try {
        this.#kind.cache.observe(
          await this.#kind.api.create(namespace, make(candidate), { signal }),
        )
        return true
      } catch (error) {
        if (!ApiError.is(error, 409)) throw error
        const found = await this.#kind.api.get(objectKey(namespace, candidate), { signal })
        // Gone meanwhile; or it never was there, and a quota was written to at the same moment. Nothing else would bring it back.
        if (found === undefined) throw error
        const known = this.#kind.cache.observe(found)
        if (known !== undefined && isIt(known)) return false
      }
    }
    throw new NameTakenError(
      `${name} in ${namespace} belongs to somebody else, and so does the name that would do instead`,
    )
  }

  /**
   * Makes the object as it is given, and leaves what others wrote into it: server-side apply.
   * @throws NameTakenError where somebody else has made one of this name
   */
  async apply(object: NamedObject, ownerUid: string, signal: AbortSignal): Promise<void> {
    const { name, namespace } = object.metadata
    const key = objectKey(namespace, name)
    const { cache, api } = this.#kind
    // What does not carry our label is not in the cache.
    const there = cache.get(key) ?? (await this.#find(key, signal))
    if (there !== undefined && !belongsTo(there, ownerUid))
      throw new NameTakenError(`${name} in ${namespace} belongs to somebody else`)
    cache.observe(await api.apply(key, object, FIELD_MANAGER, { signal }))
  }

  /** Deletes this very object, not one that has its name by now. */
  async remove(
    { metadata }: KubernetesObject,
    options: DeleteOptions & { readonly signal: AbortSignal },
  ): Promise<void> {
    if (this.isLeaving({ metadata })) return
    const key = keyOf({ metadata })
    try {
      const asked = await this.#kind.api.delete(key, { uid: metadata.uid }, options)
      // The watch may have been faster than the answer, and says it once.
      if (asked && this.#kind.cache.get(key)?.metadata.uid === metadata.uid)
        this.#leaving.set(key, metadata.uid)
    } catch (error) {
      // Another one has its name: the cache is about to hear of it.
      if (!ApiError.is(error, 409)) throw error
    }
  }

  async #find(key: ObjectKey, signal: AbortSignal): Promise<KubernetesObject | undefined> {
    const metadata = parseObjectMeta(await this.#kind.api.get(key, { signal }))
    return metadata && { metadata }
  }

  #changed(key: ObjectKey): void {
    const uid = this.#leaving.get(key)
    if (uid !== undefined && this.#kind.cache.get(key)?.metadata.uid !== uid)
      this.#leaving.delete(key)
  }
}
