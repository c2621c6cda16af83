import { parseObjectMeta } from '@akrijs/api'
import {
  ApiError,
  type ApiObject,
  type DeleteOptions,
  keyOf,
  type ObjectKey,
  objectKey,
  type Reflector,
  type Resource,
} from '@akrijs/kube'
import type { NamedObject } from './brokers/broker-template.js'
import type { Collection } from './collection.js'
import { NameTakenError } from './errors.js'
import type { KubernetesObject } from './kubernetes-objects.js'
import { alternativeName, belongsTo } from './labels.js'
import { FIELD_MANAGER } from './managed-fields.js'

interface Creation<T> {
  readonly namespace: string
  readonly name: string
  /** Identifies what the object is for: part of the other name if the first name is taken. */
  readonly purpose: string
  make(name: string): object
  /** Whether an object that has the name is the object that was to be created. */
  isSame(object: T): boolean
}

/**
 * The objects of one kind that Configurations and Instances own. The controller changes no other
 * object, whatever name or label it has.
 */
export class OwnedObjects<T extends ApiObject & KubernetesObject> implements Collection<T> {
  readonly cache: Reflector<T>
  readonly api: Resource
  /** The uids of objects whose deletion was requested, until the cache has dropped them. */
  readonly #deleted = new Map<ObjectKey, string>()

  constructor({ cache, api }: Collection<T>, signal: AbortSignal) {
    this.cache = cache
    this.api = api
    cache.onChange((key) => {
      const uid = this.#deleted.get(key)
      if (uid !== undefined && cache.get(key)?.metadata.uid !== uid) this.#deleted.delete(key)
    }, signal)
  }

  /** The object, with a deletion timestamp as soon as its deletion was requested. */
  withDeletion(object: T): T {
    const { metadata } = object
    if (metadata.deletionTimestamp !== undefined || !this.#isDeleted(object)) return object
    return {
      ...object,
      metadata: { ...metadata, deletionTimestamp: metadata.creationTimestamp },
    }
  }

  /**
   * Creates the object; under another name if the name is taken.
   * @returns false if the object exists already, and the cache has not yet received it
   * @throws ApiError, ApiUnreachableError; NameTakenError if the other name is taken as well
   */
  async create(
    { namespace, name, purpose, make, isSame }: Creation<T>,
    signal: AbortSignal,
  ): Promise<boolean> {
    for (const candidate of [name, alternativeName(name, purpose)]) {
      try {
        this.cache.observe(await this.api.create(namespace, make(candidate), { signal }))
        return true
      } catch (error) {
        if (!ApiError.is(error, 409)) throw error
        const found = await this.api.get(objectKey(namespace, candidate), { signal })
        // The object was deleted meanwhile, or another write of the same quota caused the
        // conflict. No watch event follows, so only a retry helps.
        if (found === undefined) throw error
        const parsed = this.cache.observe(found)
        if (parsed !== undefined && isSame(parsed)) return false
      }
    }
    throw new NameTakenError(`${name} in ${namespace} and its other name belong to another owner`)
  }

  /**
   * Applies the object, and keeps fields of other managers: server-side apply.
   * @throws NameTakenError if an object of another owner has this name
   */
  async apply(object: NamedObject, ownerUid: string, signal: AbortSignal): Promise<void> {
    const { name, namespace } = object.metadata
    const key = objectKey(namespace, name)
    // The cache leaves out objects without the controller's label.
    const found = this.cache.get(key) ?? (await this.#find(key, signal))
    if (found !== undefined && !belongsTo(found, ownerUid))
      throw new NameTakenError(`${name} in ${namespace} belongs to another owner`)
    this.cache.observe(await this.api.apply(key, object, FIELD_MANAGER, { signal }))
  }

  /** Deletes the object with this uid, and no later object of the same name. */
  async remove(
    { metadata }: KubernetesObject,
    options: DeleteOptions & { readonly signal: AbortSignal },
  ): Promise<void> {
    if (metadata.deletionTimestamp !== undefined || this.#isDeleted({ metadata })) return
    const key = keyOf({ metadata })
    try {
      const found = await this.api.delete(key, { uid: metadata.uid }, options)
      // The watch event can arrive before the answer, and arrives once.
      if (found && this.cache.get(key)?.metadata.uid === metadata.uid)
        this.#deleted.set(key, metadata.uid)
    } catch (error) {
      // Another object has the name: the watch is about to report that object.
      if (!ApiError.is(error, 409)) throw error
    }
  }

  #isDeleted({ metadata }: KubernetesObject): boolean {
    return this.#deleted.get(keyOf({ metadata })) === metadata.uid
  }

  async #find(key: ObjectKey, signal: AbortSignal): Promise<KubernetesObject | undefined> {
    const metadata = parseObjectMeta(await this.api.get(key, { signal }))
    return metadata && { metadata }
  }
}
