import { keyParts, type ObjectKey } from '@akrijs/kube/objects'

/** How many Secrets and ConfigMaps are sources of properties. */
export interface SourceBounds {
  readonly perAgent: number
  /** For all Configurations of one namespace, whichever namespaces the objects are in. */
  readonly perNamespace: number
}

/** The agent and the API server keep a connection for each watched object, for each node. */
export const SOURCE_BOUNDS: SourceBounds = { perAgent: 500, perNamespace: 100 }

export type SourceRefusal = keyof SourceBounds

/** A Configuration that takes properties from objects. */
export interface Referrer {
  readonly key: ObjectKey
  /** Texts in the order of age, the same on all nodes. */
  readonly age: string
  /** The objects, each once. */
  readonly objects: readonly string[]
}

/**
 * Decides which Configurations may read the objects that they refer to: all of them, or none. A
 * Configuration that has its objects keeps them. The others get theirs by age, as far as they fit.
 * Pure.
 */
export class SourceAdmission {
  readonly #bounds: SourceBounds
  readonly #admitted = new Map<ObjectKey, Referrer>()
  /** The refused Configurations, the oldest first. */
  readonly #waiting: Referrer[] = []
  readonly #refused = new Map<ObjectKey, { referrer: Referrer; refusal: SourceRefusal }>()
  /** The admitted Configurations, by object and by their namespace. */
  readonly #users = new Map<string, Map<string, Set<ObjectKey>>>()
  /** How many objects the admitted Configurations of a namespace use. */
  readonly #used = new Map<string, number>()
  #isFreed = false

  constructor(bounds: SourceBounds = SOURCE_BOUNDS) {
    this.#bounds = bounds
  }

  /** Whether places became free that {@link admitWaiting} may give to Configurations. */
  get isDue(): boolean {
    return this.#isFreed
  }

  /** Undefined for a Configuration that is admitted, or unknown. */
  refusal(key: ObjectKey): SourceRefusal | undefined {
    return this.#refused.get(key)?.refusal
  }

  isUser(object: string, key: ObjectKey): boolean {
    return this.#users.get(object)?.get(keyParts(key).namespace)?.has(key) === true
  }

  /** The admitted Configurations that refer to the object. */
  *usersOf(object: string): Iterable<ObjectKey> {
    for (const users of this.#users.get(object)?.values() ?? []) yield* users
  }

  /** The namespaces of these Configurations. */
  namespacesOf(object: string): Iterable<string> {
    return this.#users.get(object)?.keys() ?? []
  }

  /**
   * Takes over Configurations that appeared, changed or, with undefined, disappeared.
   * @returns those that were changed: their objects, or their admission
   */
  update(changes: ReadonlyMap<ObjectKey, Referrer | undefined>): readonly ObjectKey[] {
    const changed: ObjectKey[] = []
    const before: Referrer[] = []
    const others: Referrer[] = []
    for (const [key, referrer] of changes) {
      const referrerBefore = this.#admitted.get(key) ?? this.#refused.get(key)?.referrer
      if (isSame(referrerBefore, referrer)) continue
      changed.push(key)
      const wasAdmitted = this.#forget(key, referrerBefore)
      if (referrer !== undefined)
        (wasAdmitted && referrerBefore?.age === referrer.age ? before : others).push(referrer)
    }
    for (const referrer of before.sort(byAge)) this.#admit(referrer)
    // A free place belongs to the oldest Configuration that waits.
    const mustWait = this.#isFreed
    for (const referrer of others.sort(byAge)) this.#admit(referrer, mustWait)
    return changed
  }

  /**
   * Gives places that became free to Configurations that wait. The time grows with their number.
   * @returns those that were admitted
   */
  admitWaiting(): readonly ObjectKey[] {
    this.#isFreed = false
    const waiting = this.#waiting.splice(0)
    for (const referrer of waiting) this.#admit(referrer)
    return waiting.flatMap(({ key }) => (this.#admitted.has(key) ? key : []))
  }

  #forget(key: ObjectKey, known: Referrer | undefined): boolean {
    if (known === undefined) return false
    if (this.#refused.delete(key)) this.#waiting.splice(this.#waiting.indexOf(known), 1)
    if (!this.#admitted.delete(key)) return false
    const { namespace } = keyParts(key)
    for (const object of known.objects) {
      const byNamespace = this.#users.get(object)
      const users = byNamespace?.get(namespace)
      users?.delete(key)
      if (users?.size !== 0) continue
      byNamespace?.delete(namespace)
      this.#used.set(namespace, (this.#used.get(namespace) ?? 0) - 1)
      if (this.#used.get(namespace) === 0) this.#used.delete(namespace)
      if (byNamespace?.size === 0) this.#users.delete(object)
      this.#isFreed ||= this.#waiting.length > 0
    }
    return true
  }

  #admit(referrer: Referrer, mustWait = false): void {
    const { key, objects } = referrer
    const { namespace } = keyParts(key)
    const refusal = this.#refusalOf(referrer, namespace) ?? (mustWait ? 'perAgent' : undefined)
    if (refusal !== undefined) {
      this.#refused.set(key, { referrer, refusal })
      this.#wait(referrer)
      return
    }
    this.#refused.delete(key)
    this.#admitted.set(key, referrer)
    for (const object of objects) {
      const byNamespace = this.#users.get(object) ?? new Map<string, Set<ObjectKey>>()
      this.#users.set(object, byNamespace)
      const users = byNamespace.get(namespace) ?? new Set<ObjectKey>()
      if (users.size === 0) this.#used.set(namespace, (this.#used.get(namespace) ?? 0) + 1)
      byNamespace.set(namespace, users.add(key))
    }
  }

  #refusalOf({ objects }: Referrer, namespace: string): SourceRefusal | undefined {
    let ofAgent = this.#users.size
    let ofNamespace = this.#used.get(namespace) ?? 0
    for (const object of objects) {
      const users = this.#users.get(object)
      if (users === undefined) ofAgent++
      if (users?.has(namespace) !== true) ofNamespace++
      if (ofNamespace > this.#bounds.perNamespace) return 'perNamespace'
      if (ofAgent > this.#bounds.perAgent) return 'perAgent'
    }
    return undefined
  }

  /** Mostly at the end: new Configurations are young. */
  #wait(referrer: Referrer): void {
    const place = this.#waiting.findLastIndex((each) => byAge(each, referrer) < 0)
    this.#waiting.splice(place + 1, 0, referrer)
  }
}

function byAge(a: Referrer, b: Referrer): number {
  return a.age === b.age ? 0 : a.age < b.age ? -1 : 1
}

function isSame(a: Referrer | undefined, b: Referrer | undefined): boolean {
  if (a === undefined || b === undefined) return a === b
  return (
    a.age === b.age &&
    a.objects.length === b.objects.length &&
    a.objects.every((object, index) => object === b.objects[index])
  )
}
