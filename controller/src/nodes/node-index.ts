import { type ApiObject, keyOf, type NodeName, type ObjectKey, type Reflector } from '@akrijs/kube'

/**
 * Finds the objects of a cache that name a node, without a scan of all objects. Listeners that the
 * cache had before the index hear of a change before the index does.
 */
export class NodeIndex<T extends ApiObject> {
  readonly #cache: Pick<Reflector<T>, 'get'>
  readonly #nodesIn: (object: T) => Iterable<NodeName>
  readonly #keys = new Map<NodeName, Set<ObjectKey>>()
  /** The objects as the index shows them. */
  readonly #known = new Map<ObjectKey, T>()

  constructor(
    cache: Pick<Reflector<T>, 'get' | 'list' | 'onChange'>,
    nodesIn: (object: T) => Iterable<NodeName>,
    signal: AbortSignal,
  ) {
    this.#cache = cache
    this.#nodesIn = nodesIn
    for (const object of cache.list()) this.#update(keyOf(object))
    cache.onChange((key) => this.#update(key), signal)
  }

  get(node: NodeName): T[] {
    return [...(this.#keys.get(node) ?? [])].flatMap((key) => this.#cache.get(key) ?? [])
  }

  has(node: NodeName): boolean {
    return this.#keys.has(node)
  }

  #update(key: ObjectKey): void {
    const before = this.#nodesOf(this.#known.get(key))
    const object = this.#cache.get(key)
    const after = this.#nodesOf(object)
    // An object without nodes takes no room.
    if (object === undefined || after.size === 0) this.#known.delete(key)
    else this.#known.set(key, object)
    for (const node of before) if (!after.has(node)) this.#remove(node, key)
    for (const node of after) if (!before.has(node)) this.#add(node, key)
  }

  #nodesOf(object: T | undefined): ReadonlySet<NodeName> {
    return new Set(object === undefined ? [] : this.#nodesIn(object))
  }

  #add(node: NodeName, key: ObjectKey): void {
    const keys = this.#keys.get(node) ?? new Set()
    this.#keys.set(node, keys.add(key))
  }

  #remove(node: NodeName, key: ObjectKey): void {
    const keys = this.#keys.get(node)
    keys?.delete(key)
    if (keys?.size === 0) this.#keys.delete(node)
  }
}
