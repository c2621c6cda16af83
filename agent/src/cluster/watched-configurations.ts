import {
  type Configuration,
  packedConfiguration,
  parseConfigurationObject,
  parseObjectMeta,
} from '@akrijs/api'
import { type ApiClient, keyIn, type ObjectKey, Reflector } from '@akrijs/kube'
import { type Clock, type Logger, valueAt } from '@akrijs/runtime'
import type { InvalidConfiguration } from '../report/report-content.js'

interface WatchedConfigurationsOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  /** The path of the collection. */
  readonly path: string
  onError(error: unknown, retryInMs: number): void
  /** Called after a Configuration became invalid, or is so no more. */
  invalidChanged(): void
}

/**
 * The Configurations of an API server. An invalid version leaves the last valid one of the same
 * object in the cache.
 */
export class WatchedConfigurations {
  readonly cache: Reflector<Configuration>
  /** The nodes that report on each Configuration: the cache does not follow the status. */
  readonly reporting = new Map<ObjectKey, number>()
  /** Those whose newest version is invalid. */
  readonly invalid = new Map<ObjectKey, InvalidConfiguration>()
  readonly #options: WatchedConfigurationsOptions

  constructor(options: WatchedConfigurationsOptions) {
    this.#options = options
    this.cache = new Reflector({
      ...options,
      reduce: packedConfiguration,
      parse: (object, known) => this.#parse(object, known),
      deleted: (key) => {
        this.reporting.delete(key)
        this.#valid(key)
      },
    })
  }

  #parse(object: unknown, known: Configuration | undefined): Configuration | undefined {
    const key = keyIn(object)
    if (key === undefined) return undefined
    const { log, invalidChanged } = this.#options
    this.reporting.set(key, reportingNodes(object))
    const metadata = parseObjectMeta(object)
    // A deleted Configuration leaves nothing to the next of its name.
    const valid = known?.metadata.uid === metadata?.uid ? known : undefined
    if (isStatusChange(metadata, (this.invalid.get(key) ?? valid)?.metadata)) return valid
    const parsed = parseConfigurationObject(object)
    if (parsed.ok) {
      this.#valid(key)
      return withoutBrokers(parsed.configuration)
    }
    if (parsed.found === undefined) return known
    const problems = parsed.problems.map(({ path, message }) =>
      path === '' ? message : `${path}: ${message}`,
    )
    log.warn({ configuration: key, problems }, 'configuration refused')
    this.invalid.set(key, { metadata: parsed.found.metadata, problem: problems.join('; ') })
    invalidChanged()
    return valid
  }

  #valid(key: ObjectKey): void {
    if (this.invalid.delete(key)) this.#options.invalidChanged()
  }
}

type Metadata = ReturnType<typeof parseObjectMeta>

/**
 * Whether only the status or the labels differ: an agent reads neither, and the controller writes
 * the status often.
 */
function isStatusChange(metadata: Metadata, known: Metadata): boolean {
  return (
    metadata?.uid === known?.uid &&
    metadata?.generation === known?.generation &&
    metadata?.deletionTimestamp === known?.deletionTimestamp &&
    // A server without generations counts no changes of the spec.
    metadata !== undefined &&
    metadata.generation > 0
  )
}

/** How many nodes report on a Configuration. */
function reportingNodes(object: unknown): number {
  const reporting = valueAt(object, 'status', 'nodeCounts', 'reporting')
  return typeof reporting === 'number' ? reporting : 0
}

/** The agent checks the specs of brokers and of Services, and keeps none of them in memory. */
function withoutBrokers({ spec, ...configuration }: Configuration): Configuration {
  const { brokerSpec: _, instanceServiceSpec: __, configurationServiceSpec: ___, ...kept } = spec
  return { ...configuration, spec: kept }
}
