import { CONFIGURATIONS, GROUP, INSTANCES, type Problem, possibleOwner } from '@akrijs/api'
import {
  type ApiClient,
  type ApiObject,
  ApiUnreachableError,
  Reflector,
  Resource,
  type ResourceKind,
} from '@akrijs/kube'
import { type Clock, type Logger, valueAt } from '@akrijs/runtime'

/**
 * The time limit of the API server, in milliseconds: the server waits for the review in the
 * meantime.
 */
const ANSWER_LIMIT_MS = 2000
/**
 * A watch without an answer for so long shows nothing current, in milliseconds. The watch itself
 * is opened again after 90 s of silence.
 */
const SILENCE_MS = 100_000
/** For so long the watch may not show a Configuration that was reviewed, in milliseconds. */
const LAG_MS = 5000
/** The most names that are remembered for that time. */
const MAX_RECENT = 1000

/** Finds the owner of the resource `akri.sh/<name>`, which must be unique in the cluster. */
export interface NamesInUse {
  /**
   * @returns the problems of a new Configuration of this name.
   * @throws if the names cannot be read
   */
  problems(namespace: string, name: string): Promise<Problem[]>
}

interface ClusterNamesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
}

/**
 * The names of the cluster. A watch shows the names of Configurations, so that most reviews need no
 * request. The API server is asked for the rare names that an Instance could have, and where the
 * watch may be too old.
 */
export class ClusterNamesInUse implements NamesInUse {
  readonly #client: ApiClient
  readonly #clock: Clock
  readonly #configurations: Reflector<ApiObject>
  #isSynced = false
  /** The last review of a name, which the watch may not show yet; the oldest first. */
  readonly #recent = new Map<string, { readonly namespace: string; readonly at: number }>()

  constructor({ client, clock, log }: ClusterNamesOptions) {
    this.#client = client
    this.#clock = clock
    this.#configurations = new Reflector({
      client,
      clock,
      path: new Resource(client, CONFIGURATIONS).path(),
      reduce: nameOf,
      parse: nameOf,
      onError: (err, retryInMs) =>
        log.warn({ err, retryInMs: Math.round(retryInMs) }, 'watch of Configurations failed'),
    })
    void this.#configurations.synced.then(() => {
      this.#isSynced = true
    })
  }

  /** Follows the names until the signal is aborted. Without this call, each review asks. */
  run(signal: AbortSignal): Promise<void> {
    return this.#configurations.run(signal)
  }

  async problems(namespace: string, name: string): Promise<Problem[]> {
    const resource = `${GROUP}/${name}`
    const refuse = (claim: string) => [
      {
        path: 'metadata.name',
        message:
          `its resource ${resource} ${claim}; write another name; it is ` +
          `${JSON.stringify(name)}`,
      },
    ]
    const owner = possibleOwner(name)
    const [namesakes, instances, owners] = await Promise.all([
      owner === undefined ? this.#namesakes(namespace, name) : this.#named(CONFIGURATIONS, name),
      owner === undefined ? [] : this.#named(INSTANCES, name),
      owner === undefined ? [] : this.#named(CONFIGURATIONS, owner),
    ])
    // Any program can ask for reviews: the answers name no namespace.
    if (namesakes.some((home) => home !== namespace))
      return refuse('is that of a Configuration in another namespace already')
    if (instances.length > 0) return refuse('is that of an Instance already')
    if (owners.length > 0) return refuse(`could be that of an Instance of a Configuration ${owner}`)
    return []
  }

  /** The namespaces that have a Configuration of this name. */
  #namesakes(namespace: string, name: string): readonly string[] | Promise<string[]> {
    const before = this.#recent.get(name)
    const now = this.#clock.monotonicMs()
    this.#recent.delete(name)
    this.#recent.set(name, { namespace, at: now })
    const [oldest] = this.#recent.keys()
    if (this.#recent.size > MAX_RECENT && oldest !== undefined) this.#recent.delete(oldest)
    const isYoung = before !== undefined && now - before.at < LAG_MS
    const isCurrent = this.#isSynced && now - (this.#configurations.lastContact ?? 0) < SILENCE_MS
    if (!isCurrent || (isYoung && before.namespace !== namespace))
      return this.#named(CONFIGURATIONS, name)
    return this.#configurations
      .list()
      .filter(({ metadata }) => metadata.name === name)
      .map(({ metadata }) => metadata.namespace)
  }

  /** The namespaces that have an object of this name, by the API server. */
  async #named(kind: ResourceKind, name: string): Promise<string[]> {
    const list = await this.#client.request({
      method: 'GET',
      path: new Resource(this.#client, kind).path(),
      query: { fieldSelector: `metadata.name=${name}` },
      timeoutMs: ANSWER_LIMIT_MS,
    })
    const items = valueAt(list, 'items')
    if (!Array.isArray(items))
      throw new ApiUnreachableError(`list ${kind.plural}: the answer is no list`)
    return items.map((item) => String(valueAt(item, 'metadata', 'namespace')))
  }
}

/** Of a Configuration, only its name is kept. */
function nameOf(object: unknown): ApiObject | undefined {
  const [namespace, name, resourceVersion] = ['namespace', 'name', 'resourceVersion'].map((field) =>
    valueAt(object, 'metadata', field),
  )
  return typeof namespace === 'string' &&
    typeof name === 'string' &&
    typeof resourceVersion === 'string'
    ? { metadata: { namespace, name, resourceVersion } }
    : undefined
}
