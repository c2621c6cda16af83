import { type Configuration, READABLE_FROM_ANNOTATION } from '@akrijs/api'
import {
  type ApiClient,
  CONFIG_MAPS,
  keyOf,
  keyParts,
  type ObjectKey,
  Reflector,
  Resource,
  SECRETS,
} from '@akrijs/kube'
import { aborted, type Clock, Listeners, type Logger, messageOf } from '@akrijs/runtime'
import {
  type DataReference,
  type ReferencedData,
  referencesOf,
  referenceText,
} from '../core/discovery/property-references.js'
import { MissingPropertyError } from '../errors.js'
import type { ObjectCache } from '../ports/cluster.js'

interface PropertySourcesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly configurations: Pick<ObjectCache<Configuration>, 'list' | 'onChange'>
}

/** The data of a Secret or ConfigMap. */
interface DataObject extends ReferencedData {
  readonly metadata: {
    readonly namespace: string
    readonly name: string
    readonly resourceVersion: string
  }
}

interface Source {
  readonly reflector: Reflector<DataObject>
  readonly stop: AbortController
  readonly running: Promise<void>
  /** The last failure and its time. */
  failure: { readonly message: string; readonly at: number } | undefined
  readonly settled: Promise<void>
}

const KINDS = { Secret: SECRETS, ConfigMap: CONFIG_MAPS } as const

/** The longest wait for the first answer of the API server, in milliseconds. */
const ANSWER_MS = 10_000

/**
 * The Secrets and ConfigMaps of Configurations, each with its own watch: the agent reads no other
 * objects.
 */
export class PropertySources {
  readonly #options: PropertySourcesOptions
  readonly #sources = new Map<string, Source>()
  readonly #listeners = new Listeners<[configuration: ObjectKey]>()
  readonly #ending = new Set<Promise<void>>()

  constructor(options: PropertySourcesOptions) {
    this.#options = options
  }

  onChange(listener: (configuration: ObjectKey) => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  async run(signal: AbortSignal): Promise<void> {
    const { configurations } = this.#options
    configurations.onChange(() => this.#dropUnused(), signal)
    await aborted(signal)
    for (const name of [...this.#sources.keys()]) this.#end(name)
    await Promise.all(this.#ending)
  }

  /**
   * @returns undefined if there is no such object
   * @throws MissingPropertyError if the object cannot be read
   */
  async look(reference: DataReference): Promise<ReferencedData | undefined> {
    const { clock } = this.#options
    const source = this.#sources.get(referenceText(reference)) ?? this.#begin(reference)
    const deadline = new AbortController()
    await Promise.race([
      source.settled,
      clock.sleep(ANSWER_MS, deadline.signal).catch(() => undefined),
    ])
    deadline.abort()
    const found = source.reflector.get(reference.key)
    const { failure, reflector } = source
    // Only an answer of the server shows that the object does not exist.
    if (
      found === undefined &&
      failure !== undefined &&
      (reflector.lastContact ?? Number.NEGATIVE_INFINITY) <= failure.at
    )
      throw new MissingPropertyError(
        `${reference.kind} ${reference.key} cannot be read: ${failure.message}`,
      )
    return found
  }

  #begin(reference: DataReference): Source {
    const { client, clock, log } = this.#options
    const { namespace, name } = keyParts(reference.key)
    const stop = new AbortController()
    let settle = () => {}
    const settled = new Promise<void>((resolve) => {
      settle = resolve
    })
    const reflector = new Reflector<DataObject>({
      client,
      clock,
      path: new Resource(client, KINDS[reference.kind]).path(namespace),
      query: { fieldSelector: `metadata.name=${name}` },
      parse: (object) => parseData(reference.kind, object),
      onError: (error, retryInMs) => {
        source.failure = { message: messageOf(error), at: clock.monotonicMs() }
        log.warn(
          { kind: reference.kind, object: reference.key, err: error, retryInMs },
          'property not read',
        )
        settle()
      },
    })
    reflector.onChange(() => this.#changed(reference), stop.signal)
    const source: Source = {
      reflector,
      stop,
      running: reflector.run(stop.signal),
      failure: undefined,
      settled,
    }
    void reflector.synced.then(() => {
      settle()
      this.#changed(reference)
    })
    this.#sources.set(referenceText(reference), source)
    return source
  }

  #changed(reference: DataReference): void {
    for (const configuration of this.#options.configurations.list()) {
      if (
        referencesOf(configuration).some((used) => referenceText(used) === referenceText(reference))
      )
        this.#listeners.tell(keyOf(configuration))
    }
  }

  #dropUnused(): void {
    const used = new Set(
      this.#options.configurations
        .list()
        .flatMap((configuration) => referencesOf(configuration).map(referenceText)),
    )
    for (const name of [...this.#sources.keys()]) if (!used.has(name)) this.#end(name)
  }

  #end(name: string): void {
    const source = this.#sources.get(name)
    if (source === undefined) return
    this.#sources.delete(name)
    source.stop.abort()
    this.#ending.add(source.running)
    void source.running.finally(() => this.#ending.delete(source.running))
  }
}

/**
 * `data` of a ConfigMap is text and wins over `binaryData`. The latter and all data of a Secret are
 * base64.
 */
function parseData(kind: DataReference['kind'], object: unknown): DataObject | undefined {
  const { metadata, data, binaryData } = object as {
    metadata: {
      namespace: string
      name: string
      resourceVersion: string
      annotations?: Readonly<Record<string, string>>
    }
    data?: Readonly<Record<string, string>>
    binaryData?: Readonly<Record<string, string>>
  }
  const values = new Map<string, Uint8Array>()
  for (const [key, value] of Object.entries(binaryData ?? {}))
    values.set(key, Buffer.from(value, 'base64'))
  for (const [key, value] of Object.entries(data ?? {}))
    values.set(key, kind === 'Secret' ? Buffer.from(value, 'base64') : Buffer.from(value))
  const { namespace, name, resourceVersion, annotations } = metadata
  const readableFrom = annotations?.[READABLE_FROM_ANNOTATION]
  return {
    metadata: { namespace, name, resourceVersion },
    ...(readableFrom !== undefined && { readableFrom }),
    data: values,
  }
}
