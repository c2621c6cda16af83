import { type Configuration, type Instance, parseObjectMeta } from '@akrijs/api'
import {
  ApiError,
  type DeleteOptions,
  keyOf,
  type ObjectKey,
  objectKey,
  type Reflector,
  type Resource,
} from '@akrijs/kube'
import type { Clock } from '@akrijs/runtime'
import { CacheIndex } from './cache-index.js'
import type { Collection } from './collection.js'
import { NameTakenError } from './errors.js'
import { isDeleted, type KubernetesObject } from './kubernetes-objects.js'
import { alternativeName, LABELS } from './labels.js'
import { appliedFields, FIELD_MANAGER, type NamedObject } from './managed-fields.js'
import { controllerOf, isOwned, type OwnerKind } from './owners.js'

/** The kinds that a label can name. */
type LabelledKind = 'Instance' | 'Configuration'
type Owner = Instance | Configuration

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
export class OwnedObjects<T extends KubernetesObject> implements Collection<T> {
  readonly cache: Reflector<T>
  readonly api: Resource
  readonly #clock: Clock
  /** By the kind and the key of the object that a label, or the owner reference, names. */
  readonly #byOwner: CacheIndex<T>
  /** The uids of objects whose deletion was requested, until the cache has dropped them. */
  readonly #deleted = new Map<ObjectKey, string>()

  constructor({ cache, api }: Collection<T>, clock: Clock, signal: AbortSignal) {
    this.cache = cache
    this.#clock = clock
    this.api = api
    cache.onChange((key) => {
      const uid = this.#deleted.get(key)
      if (uid !== undefined && cache.get(key)?.metadata.uid !== uid) this.#deleted.delete(key)
    }, signal)
    this.#byOwner = new CacheIndex(cache, ownersIn, signal)
  }

  ownedBy(kind: OwnerKind, owner: KubernetesObject): T[] {
    return this.#byOwner
      .get(ownerName(kind, keyOf(owner)))
      .filter((object) => isOwned(object, kind, owner))
      .map((object) => this.#withDeletion(object))
  }

  /** The object of this name, if the owner has it. */
  named(name: string, owner: Owner): T | undefined {
    const found = this.cache.get(objectKey(owner.metadata.namespace, name))
    return found && isOwned(found, owner.kind, owner) ? found : undefined
  }

  /** The objects with the label of an Instance, or of a Configuration. */
  labelled(kind: LabelledKind, key: ObjectKey): T[] {
    return this.#byOwner
      .get(ownerName(kind, key))
      .filter((object) => labelledKey(object, kind) === key)
      .map((object) => this.#withDeletion(object))
  }

  /**
   * Calls back with an Instance, or a Configuration, after an object changed that has its label, or
   * names it as owner: users edit labels.
   */
  onChangeOf(kind: LabelledKind, listener: (owner: ObjectKey) => void, signal: AbortSignal): void {
    const prefix = ownerName(kind, '')
    this.#byOwner.onChange((owner) => {
      if (owner.startsWith(prefix)) listener(owner.slice(prefix.length) as ObjectKey)
    }, signal)
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
    const other = alternativeName(name, purpose)
    throw new NameTakenError(
      `${name} and ${other} in ${namespace} belong to another owner: delete or rename one of them`,
    )
  }

  /**
   * Applies the object, and keeps fields of other managers: server-side apply.
   * @throws NameTakenError if an object of another owner has this name
   */
  async apply(object: NamedObject, owner: Owner, signal: AbortSignal): Promise<void> {
    const { name, namespace } = object.metadata
    const key = objectKey(namespace, name)
    const cached = this.cache.get(key)
    const isTaken =
      cached === undefined
        ? isForeign(await this.api.get(key, { signal }), owner)
        : !isOwned(cached, owner.kind, owner)
    if (isTaken)
      throw new NameTakenError(
        `${name} in ${namespace} belongs to another owner: delete or rename that object`,
      )
    this.cache.observe(await this.api.apply(key, object, FIELD_MANAGER, { signal }))
  }

  /** Deletes the object with this uid, and no later object of the same name. */
  async remove(
    object: KubernetesObject,
    options: DeleteOptions & { readonly signal: AbortSignal },
  ): Promise<void> {
    if (isDeleted(object) || this.#isDeletionRequested(object)) return
    const { metadata } = object
    const key = keyOf(object)
    try {
      await this.api.delete(key, { uid: metadata.uid }, options)
      // The watch event can arrive before the answer, and arrives once.
      if (this.cache.get(key)?.metadata.uid === metadata.uid) this.#deleted.set(key, metadata.uid)
    } catch (error) {
      // Another object has the name: the watch is about to report that object.
      if (!ApiError.is(error, 409)) throw error
    }
  }

  /**
   * Reads the object again, for example after a deletion without an answer. If it has gone or is
   * being deleted, its deletion shows at once, whatever the cache has.
   */
  async refresh({ metadata }: KubernetesObject, signal: AbortSignal): Promise<void> {
    const key = keyOf({ metadata })
    const answer = await this.api.get(key, { signal })
    if (answer !== undefined) this.cache.observe(answer)
    const found = parseObjectMeta(answer)
    const stays = found?.uid === metadata.uid && found.deletionTimestamp === undefined
    if (!stays && this.cache.get(key)?.metadata.uid === metadata.uid)
      this.#deleted.set(key, metadata.uid)
  }

  /** The object, with a deletion timestamp as soon as its deletion was requested. */
  #withDeletion(object: T): T {
    const { metadata } = object
    if (isDeleted(object) || !this.#isDeletionRequested(object)) return object
    // The time is shown in messages alone.
    const deletionTimestamp = new Date(this.#clock.wallMs()).toISOString()
    return { ...object, metadata: { ...metadata, deletionTimestamp } }
  }

  #isDeletionRequested(object: KubernetesObject): boolean {
    return this.#deleted.get(keyOf(object)) === object.metadata.uid
  }
}

/**
 * Whether an object that the cache leaves out belongs to another owner. An object without the
 * controller's label belongs to the owner only if the controller has applied it before: a person
 * removed the label.
 */
function isForeign(found: unknown, owner: Owner): boolean {
  if (found === undefined) return false
  const metadata = parseObjectMeta(found)
  const wasApplied = Object.keys(appliedFields(found)).length > 0
  return metadata === undefined || !isOwned({ metadata }, owner.kind, owner) || !wasApplied
}

const ownerName = (kind: string, key: string) => `${kind} ${key}`

function ownersIn(object: KubernetesObject): string[] {
  const owner = controllerOf(object.metadata)
  const labelled = (['Instance', 'Configuration'] as const).flatMap((kind) => {
    const key = labelledKey(object, kind)
    return key === undefined ? [] : ownerName(kind, key)
  })
  if (owner === undefined) return labelled
  return [...labelled, ownerName(owner.kind, objectKey(object.metadata.namespace, owner.name))]
}

/**
 * The key of the object that a label names, in the same namespace. Names of Configurations and
 * Instances are never too long for a label.
 */
function labelledKey({ metadata }: KubernetesObject, kind: LabelledKind): ObjectKey | undefined {
  const name = metadata.labels?.[kind === 'Instance' ? LABELS.instance : LABELS.configuration]
  return name === undefined ? undefined : objectKey(metadata.namespace, name)
}
