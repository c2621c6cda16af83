import { type Configuration, isReadableFrom } from '@akrijs/api'
import { type ApiClient, keyOf, keyParts, type ObjectKey } from '@akrijs/kube'
import { aborted, type Clock, type Logger, runAfter } from '@akrijs/runtime'
import {
  type DataReference,
  type ReferencedData,
  referencesOf,
  referenceText,
} from '../core/discovery/property-references.js'
import {
  type Referrer,
  SOURCE_BOUNDS,
  SourceAdmission,
  type SourceBounds,
} from '../core/discovery/source-admission.js'
import { MissingPropertyError, PropertyRefusedError } from '../errors.js'
import type { ObjectCache } from '../ports/cluster.js'
import { PropertyChanges } from './property-changes.js'
import { PropertySource } from './property-source.js'

interface PropertySourcesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  /** The accepted Configurations. */
  readonly configurations: Pick<ObjectCache<Configuration>, 'get' | 'list' | 'onChange'>
}

/** Between two divisions of places that became free, in milliseconds. */
const DIVIDE_MS = 1000
/** With more unusable objects, each is read less often: all of them take one read in this time. */
const RECHECK_MS = 1000

/**
 * The Secrets and ConfigMaps of Configurations, each with its own watch: the agent reads no other
 * objects, and an operator can grant the right to read single objects.
 */
export class PropertySources {
  readonly #options: PropertySourcesOptions
  readonly #bounds: SourceBounds
  readonly #random: () => number
  readonly #admission: SourceAdmission
  readonly #sources = new Map<string, PropertySource>()
  readonly #ending = new Set<Promise<void>>()
  readonly #stop = new AbortController()
  readonly #changes: PropertyChanges
  /** Configurations that have changed since the last update of the admission. */
  readonly #changed = new Set<ObjectKey>()
  #isDividing = false

  /** @param bounds and random, for tests */
  constructor(
    options: PropertySourcesOptions,
    { bounds = SOURCE_BOUNDS, random = Math.random } = {},
  ) {
    this.#options = options
    this.#bounds = bounds
    this.#random = random
    this.#admission = new SourceAdmission(bounds)
    this.#changes = new PropertyChanges(options.clock, this.#stop.signal)
  }

  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#changes.onChange(listener, signal)
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
    const refusal = this.#admission.refusal(key)
    if (refusal !== undefined) {
      const users =
        refusal === 'perNamespace'
          ? `the Configurations of namespace ${configuration.metadata.namespace}`
          : 'all Configurations of this agent'
      throw new PropertyRefusedError(
        `with this one, ${users} would use more than ${this.#bounds[refusal]} ` +
          'Secrets and ConfigMaps, which is a bound; refer to fewer objects',
      )
    }
    const object = referenceText(reference)
    if (!this.#admission.isUser(object, key))
      throw new MissingPropertyError(`Configuration ${key} no longer refers to ${object}`)
    const source = this.#sources.get(object) ?? this.#begin(object, reference)
    return source.look()
  }

  #begin(object: string, reference: DataReference): PropertySource {
    const { namespace } = keyParts(reference.key)
    const source = new PropertySource({
      ...this.#options,
      random: this.#random,
      reference,
      isUsable: (found) => {
        for (const user of this.#admission.namespacesOf(object)) {
          if (user === namespace) return true
          if (found !== undefined && isReadableFrom(found.readableFrom, user)) return true
        }
        return false
      },
      spreadMs: () => {
        const idle = [...this.#sources.values()].filter(({ isIdle }) => isIdle)
        return idle.length * RECHECK_MS
      },
      onChange: () => {
        for (const key of [...this.#admission.usersOf(object)]) this.#changes.tell(key)
      },
    })
    this.#sources.set(object, source)
    return source
  }

  /** Takes over the Configurations that have changed. */
  #update(): void {
    if (this.#changed.size === 0) return
    const { configurations } = this.#options
    const changes = new Map<ObjectKey, Referrer | undefined>()
    for (const key of this.#changed) changes.set(key, referrerOf(configurations.get(key)))
    this.#changed.clear()
    this.#follow(this.#admission.update(changes))
    if (!this.#admission.isDue || this.#isDividing) return
    this.#isDividing = true
    runAfter(this.#options.clock, DIVIDE_MS, this.#stop.signal, () => {
      this.#isDividing = false
      const admitted = this.#admission.admitWaiting()
      this.#follow(admitted)
      for (const key of admitted) this.#changes.tell(key)
    })
  }

  /** Makes the sources follow the admission of Configurations that have changed. */
  #follow(changed: readonly ObjectKey[]): void {
    if (changed.length === 0) return
    for (const [object, source] of this.#sources) {
      const [user] = this.#admission.namespacesOf(object)
      if (user === undefined) this.#end(object)
      else source.review()
    }
    for (const key of changed) {
      const configuration = this.#options.configurations.get(key)
      for (const reference of configuration === undefined ? [] : referencesOf(configuration)) {
        const object = referenceText(reference)
        // The next look reads the object at once: the Configuration may be allowed to use it.
        if (this.#sources.get(object)?.isIdle === true) this.#end(object)
      }
    }
  }

  #end(object: string): void {
    const closing = this.#sources.get(object)?.close()
    this.#sources.delete(object)
    if (closing === undefined) return
    this.#ending.add(closing)
    void closing.finally(() => this.#ending.delete(closing))
  }
}

/** @returns undefined for a Configuration that refers to no object */
function referrerOf(configuration: Configuration | undefined): Referrer | undefined {
  if (configuration === undefined) return undefined
  const { creationTimestamp, uid, deletionTimestamp } = configuration.metadata
  const objects = [...new Set(referencesOf(configuration).map(referenceText))]
  return objects.length === 0 || deletionTimestamp !== undefined
    ? undefined
    : { key: keyOf(configuration), age: `${creationTimestamp} ${uid}`, objects }
}
