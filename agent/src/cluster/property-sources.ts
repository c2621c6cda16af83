import { type Configuration, isReadableFrom } from '@akrijs/api'
import { type ApiClient, keyOf, keyParts, type ObjectKey } from '@akrijs/kube'
import { aborted, type Clock, Listeners, type Logger, runAfter, TokenBucket } from '@akrijs/runtime'
import { MissingPropertyError, PropertyRefusedError } from '../errors.js'
import { SOURCE_BOUNDS, type SourceBounds } from '../limits.js'
import type { ObjectCache } from './cluster.js'
import { DataWatch } from './data-watch.js'
import {
  type DataReference,
  type ReferencedData,
  referencesOf,
  referenceText,
} from './property-references.js'

interface PropertySourcesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly configurations: Pick<ObjectCache<Configuration>, 'list' | 'onChange'>
  /** @default {@link SOURCE_BOUNDS} */
  readonly bounds?: SourceBounds
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

/**
 * The Configurations that hear of changes: a burst, then one in 50 ms. Each opens its discoveries
 * again, and sends up to 2.5 MB to each handler, and a thousand of them can use one object.
 */
const RESTARTS = { burst: 200, refillMs: 50 }

/**
 * The Secrets and ConfigMaps of Configurations, each with its own watch: the agent reads no other
 * objects, and an operator can grant the right to read single objects.
 */
export class PropertySources {
  readonly #options: Required<PropertySourcesOptions>
  /** The Configurations that use an object. A Configuration uses all its objects, or none. */
  #users = new Map<string, Set<ObjectKey>>()
  /** Why there is no room for the objects of a Configuration. */
  readonly #refusals = new Map<ObjectKey, string>()
  /** Whether Configurations have changed since then. */
  #isStale = true
  readonly #sources = new Map<string, DataWatch>()
  /** Of the sources that are not needed any more. */
  #ended: Promise<unknown> = Promise.resolve()
  readonly #stop = new AbortController()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #restarts: TokenBucket
  /** Configurations that have not heard of the last change of their properties. */
  readonly #untold = new Set<ObjectKey>()

  constructor(options: PropertySourcesOptions) {
    this.#options = { bounds: SOURCE_BOUNDS, random: Math.random, ...options }
    this.#restarts = new TokenBucket({ clock: options.clock, ...RESTARTS })
  }

  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async run(signal: AbortSignal): Promise<void> {
    this.#options.configurations.onChange(() => {
      // A list brings many Configurations at once.
      if (!this.#isStale) setImmediate(() => this.#update())
      this.#isStale = true
    }, signal)
    await aborted(signal)
    this.#stop.abort()
    for (const object of [...this.#sources.keys()]) this.#end(object)
    await this.#ended
  }

  /**
   * @returns undefined if there is no such object, or no Configuration may use it
   * @throws PropertyForbiddenError, PropertyUnreadableError if the object cannot be read
   * @throws PropertyRefusedError if the Configuration is beyond a bound
   */
  async look(
    configuration: Configuration,
    reference: DataReference,
  ): Promise<ReferencedData | undefined> {
    this.#update()
    const key = keyOf(configuration)
    const object = referenceText(reference)
    const refusal = this.#refusals.get(key)
    if (refusal !== undefined) throw new PropertyRefusedError(refusal)
    if (this.#users.get(object)?.has(key) !== true)
      throw new MissingPropertyError(`Configuration ${key} no longer refers to ${object}`)
    const source = this.#sources.get(object) ?? this.#begin(object, reference)
    return source.look()
  }

  #begin(object: string, reference: DataReference): DataWatch {
    const source = new DataWatch(reference, {
      ...this.#options,
      isUsable: (found) =>
        [...(this.#users.get(object) ?? [])].some((key) => {
          const [from, to] = [keyParts(reference.key).namespace, keyParts(key).namespace]
          return from === to || isReadableFrom(found.readableFrom, to)
        }),
      onChange: () => {
        const isTelling = this.#untold.size > 0
        for (const key of this.#users.get(object) ?? []) this.#untold.add(key)
        if (!isTelling) this.#tell()
      },
    })
    this.#sources.set(object, source)
    return source
  }

  #tell(): void {
    for (const key of this.#untold) {
      const waitMs = this.#restarts.take()
      if (waitMs > 0) {
        runAfter(this.#options.clock, waitMs, this.#stop.signal, () => this.#tell())
        return
      }
      this.#untold.delete(key)
      this.#listeners.tell(key)
    }
  }

  /** Finds out which Configurations use which objects, within the bounds. */
  #update(): void {
    if (!this.#isStale) return
    this.#isStale = false
    const { perAgent, perNamespace } = this.#options.bounds
    const before = this.#users
    const users = new Map<string, Set<ObjectKey>>()
    const byNamespace = new Map<string, Set<string>>()
    this.#refusals.clear()
    for (const { key, namespace, objects } of this.#inOrder()) {
      const ofNamespace = new Set([...(byNamespace.get(namespace) ?? []), ...objects])
      const added = objects.filter((object) => !users.has(object)).length
      if (ofNamespace.size > perNamespace)
        this.#refuse(key, `the Configurations of namespace ${namespace}`, perNamespace)
      else if (users.size + added > perAgent)
        this.#refuse(key, 'all Configurations of this agent', perAgent)
      else {
        byNamespace.set(namespace, ofNamespace)
        for (const object of objects) users.set(object, (users.get(object) ?? new Set()).add(key))
      }
    }
    this.#users = users
    for (const [object, source] of [...this.#sources]) {
      const keys = [...(users.get(object) ?? [])]
      const hasNew = keys.some((key) => !before.get(object)?.has(key))
      if (keys.length > 0 && !source.isOutdated(hasNew)) continue
      this.#end(object)
      if (keys.length > 0) this.#begin(object, source.reference)
    }
  }

  /** The Configurations that refer to objects: those that have all of them, then the oldest. */
  #inOrder() {
    return this.#options.configurations
      .list()
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined)
      .map((configuration) => {
        const { namespace, creationTimestamp, uid } = configuration.metadata
        const key = keyOf(configuration)
        const objects = [...new Set(referencesOf(configuration).map(referenceText))]
        const turn = objects.every((object) => this.#users.get(object)?.has(key)) ? 0 : 1
        return { key, namespace, objects, order: `${turn} ${creationTimestamp} ${uid}` }
      })
      .filter(({ objects }) => objects.length > 0)
      .sort((a, b) => (a.order < b.order ? -1 : 1))
  }

  #refuse(configuration: ObjectKey, users: string, most: number): void {
    this.#refusals.set(
      configuration,
      `with this one, ${users} would use more than ${most} Secrets and ConfigMaps, which is a ` +
        'bound; refer to fewer objects',
    )
  }

  #end(object: string): void {
    const [source, before] = [this.#sources.get(object), this.#ended]
    this.#ended = Promise.resolve(source?.close()).then(() => before)
    this.#sources.delete(object)
  }
}
