import {
  type ApiClient,
  type ApiObject,
  type ObjectKey,
  Reflector,
  Resource,
  type ResourceKind,
} from '@akrijs/kube'
import type { Clock, Logger } from '@akrijs/runtime'
import type { UiKey } from '@akrijs/ui'

interface WatchedObjectsOptions<T> {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly kind: ResourceKind
  /** Empty for all namespaces, and for objects of the cluster. */
  readonly namespace: string
  readonly query: { readonly labelSelector?: string; readonly fieldSelector?: string }
  parse(object: unknown): T | undefined
  /** The items of the page that show something of an object. */
  itemsOf(object: T): readonly UiKey[]
  /** Hears of items that show something else now. */
  onChange(items: Iterable<UiKey>): void
  /** Hears that the watch has failed, or goes on. */
  onOutage(): void
}

/** The objects of one kind as a cluster has them, and the items of the page that show them. */
export class WatchedObjects<T extends ApiObject> {
  /** Resolves when the objects are read for the first time, or cannot be read. */
  readonly begun: Promise<void>
  /** Why the watch fails; undefined while the server answers. */
  failure: unknown
  /** Whether the objects have ever been read. */
  isRead = false
  readonly #cache: Reflector<T>
  readonly #options: WatchedObjectsOptions<T>
  /** The items that show an object, and the objects that an item shows. */
  readonly #items = new Map<ObjectKey, readonly UiKey[]>()
  readonly #objects = new Map<UiKey, Set<ObjectKey>>()

  constructor(options: WatchedObjectsOptions<T>) {
    this.#options = options
    const { client, clock, log, kind, namespace, query, parse, onOutage } = options
    const path = new Resource(client, kind).path(namespace)
    let onFailure = () => {}
    const failed = new Promise<void>((resolve) => {
      onFailure = resolve
    })
    this.#cache = new Reflector<T>({
      ...{ client, clock, path, query, parse },
      onError: (error) => {
        if (this.failure === undefined) log.warn({ path, err: error }, 'watch failed')
        this.failure = error
        onFailure()
        onOutage()
      },
      onContact: () => {
        if (this.failure === undefined) return
        this.failure = undefined
        log.info({ path }, 'watch goes on')
        onOutage()
      },
    })
    const read = this.#cache.synced.then(() => {
      this.isRead = true
      onOutage()
    })
    this.begun = Promise.race([read, failed])
  }

  async run(signal: AbortSignal): Promise<void> {
    this.#cache.onChange((key) => this.#follow(key), signal)
    await this.#cache.run(signal)
  }

  get(key: ObjectKey): T | undefined {
    return this.#cache.get(key)
  }

  list(): readonly T[] {
    return this.#cache.list()
  }

  /** The items that show an object. */
  get shown(): Iterable<UiKey> {
    return this.#objects.keys()
  }

  /** The objects that an item shows. */
  of(item: UiKey): T[] {
    return [...(this.#objects.get(item) ?? [])].flatMap((key) => this.get(key) ?? [])
  }

  #follow(key: ObjectKey): void {
    const object = this.get(key)
    const before = this.#items.get(key) ?? []
    const items = object === undefined ? [] : this.#options.itemsOf(object)
    for (const item of before) {
      const objects = this.#objects.get(item)
      objects?.delete(key)
      if (objects?.size === 0) this.#objects.delete(item)
    }
    for (const item of items) {
      const objects = this.#objects.get(item) ?? new Set()
      this.#objects.set(item, objects.add(key))
    }
    if (object === undefined) this.#items.delete(key)
    else this.#items.set(key, items)
    this.#options.onChange(new Set([...before, ...items]))
  }
}
