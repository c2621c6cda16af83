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
  /** The accepted Configurations. */
  readonly configurations: Pick<ObjectCache<Configuration>, 'get' | 'list' | 'onChange'>
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
  readonly #options: PropertySourcesOptions
  readonly #bounds: SourceBounds
  readonly #random: () => number
  /** The Configurations that use an object. A Configuration uses all its objects, or none. */
  readonly #users = new Map<string, Set<ObjectKey>>()
  readonly #sources = new Map<string, DataWatch>()
  readonly #ending = new Set<Promise<void>>()
  readonly #stop = new AbortController()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #restarts: TokenBucket
  /** Configurations that have not heard of the last change of their properties. */
  readonly #untold = new Set<ObjectKey>()
  /** Configurations that have changed since their objects were compared. */
  readonly #changed = new Set<ObjectKey>()

  /** @param bounds and random, for tests */
  constructor(
    options: PropertySourcesOptions,
    { bounds = SOURCE_BOUNDS, random = Math.random } = {},
  ) {
    this.#options = options
    this.#bounds = bounds
    this.#random = random
    this.#restarts = new TokenBucket({ clock: options.clock, ...RESTARTS })
  }

  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async run(signal: AbortSignal): Promise<void> {
    const { configurations } = this.#options
    for (const configuration of configurations.list()) this.#changed.add(keyOf(configuration))
    configurations.onChange((key) => {
      // A list brings many Configurations at once: the oldest of them come first.
      if (this.#changed.size === 0) setImmediate(() => this.#update())
      this.#changed.add(key)
    }, signal)
    await aborted(signal)
    this.#stop.abort()
    for (const object of [...this.#sources.keys()]) this.#end(object)
    await Promise.all(this.#ending)
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
    const isUsed = () => this.#users.get(object)?.has(key) === true
    // There may be room by now.
    const refusal = isUsed() ? undefined : this.#follow(key)
    if (refusal !== undefined) throw new PropertyRefusedError(refusal)
    if (!isUsed())
      throw new MissingPropertyError(`Configuration ${key} no longer refers to ${object}`)
    const source = this.#sources.get(object) ?? this.#begin(object, reference)
    return source.look()
  }

  #begin(object: string, reference: DataReference): DataWatch {
    const source = new DataWatch({
      ...this.#options,
      random: this.#random,
      reference,
      isUsable: (found) =>
        [...(this.#users.get(object) ?? [])].some((key) => {
          const user = keyParts(key).namespace
          if (user === keyParts(reference.key).namespace) return true
          return found !== undefined && isReadableFrom(found.readableFrom, user)
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

  /** Takes over the Configurations that have changed, the oldest first. */
  #update(): void {
    if (this.#changed.size === 0) return
    const { configurations } = this.#options
    const age = (key: ObjectKey) => {
      const { creationTimestamp = '', uid = '' } = configurations.get(key)?.metadata ?? {}
      return `${creationTimestamp} ${uid}`
    }
    // Those that are gone leave room: they have no age.
    const changed = [...this.#changed].sort((a, b) => (age(a) < age(b) ? -1 : 1))
    this.#changed.clear()
    for (const key of changed) this.#follow(key)
  }

  /** Takes over the objects of a Configuration. @returns why there is no room for them */
  #follow(key: ObjectKey): string | undefined {
    const configuration = this.#options.configurations.get(key)
    const isGone = configuration?.metadata.deletionTimestamp !== undefined
    const references = configuration === undefined || isGone ? [] : referencesOf(configuration)
    const after = new Set(references.map(referenceText))
    const before = [...this.#users].filter(([, users]) => users.delete(key))
    const refusal = this.#refusal(key, after)
    for (const object of refusal === undefined ? after : [])
      this.#users.set(object, (this.#users.get(object) ?? new Set()).add(key))
    for (const object of new Set([...before.map(([object]) => object), ...after])) {
      const source = this.#sources.get(object)
      const isUsed = this.#users.get(object)?.size
      if (!isUsed) this.#users.delete(object)
      // The next look reads an object at once that the Configuration may be allowed to use now.
      if (!isUsed || (after.has(object) && source?.isUnusable === true)) this.#end(object)
      else source?.review()
    }
    return refusal
  }

  /** Why there is no room for these objects beside those of the other Configurations. */
  #refusal(key: ObjectKey, objects: ReadonlySet<string>): string | undefined {
    const { perAgent, perNamespace } = this.#bounds
    // Most agents use few objects.
    if (this.#users.size + objects.size <= Math.min(perAgent, perNamespace)) return undefined
    const { namespace } = keyParts(key)
    const others = [...this.#users].filter(([name, { size }]) => size > 0 && !objects.has(name))
    const ofNamespace = others.filter(([, users]) =>
      [...users].some((user) => keyParts(user).namespace === namespace),
    )
    const beyond = (users: string, most: number) =>
      `with this one, ${users} would use more than ${most} Secrets and ConfigMaps, which is a ` +
      'bound; refer to fewer objects'
    if (ofNamespace.length + objects.size > perNamespace)
      return beyond(`the Configurations of namespace ${namespace}`, perNamespace)
    if (others.length + objects.size > perAgent)
      return beyond('all Configurations of this agent', perAgent)
    return undefined
  }

  #end(object: string): void {
    const closing = this.#sources.get(object)?.close()
    this.#sources.delete(object)
    if (closing === undefined) return
    this.#ending.add(closing)
    void closing.finally(() => this.#ending.delete(closing))
  }
}
