import {
  INSTANCES,
  type Instance,
  isShownAsShared,
  isShownByNode,
  isUnlabelled,
  labelPatch,
  missingFields,
  nodeSelector,
  nodesOf,
  parseInstanceObject,
  SHARED_SELECTOR,
  UNLABELLED_SELECTOR,
} from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  keyOf,
  listObjects,
  type NodeName,
  type ObjectKey,
  Reflector,
  Resource,
} from '@akrijs/kube'
import { Backoff, type Clock, type Logger } from '@akrijs/runtime'

interface WatchedInstancesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
  /** The path of the collection. */
  readonly path: string
  /** The time limit of one answer, in milliseconds: the kubelet waits for a claim. */
  readonly answerMs: number
  onError(error: unknown, retryInMs: number): void
}

const LIST_BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** Between two reads of a stray Instance, in milliseconds; at random up to half longer. */
const READ_MS = 60_000

/**
 * The Instances of an API server that a node sees. Watches show those of the node and the shared
 * ones, by labels. Strays are those that no watch shows: Instances without labels, of programs that
 * write none, and local Instances of other nodes that hold a name which this node needs.
 */
export class WatchedInstances {
  readonly api: Resource
  /** With the strays. */
  readonly cache: Reflector<Instance>
  readonly answerMs: number
  readonly #options: WatchedInstancesOptions
  #hasWarned = false

  constructor(options: WatchedInstancesOptions) {
    const { client, node, answerMs } = options
    this.#options = options
    this.answerMs = answerMs
    this.api = new Resource(client, INSTANCES)
    this.cache = new Reflector<Instance>({
      ...options,
      parts: [
        {
          query: { labelSelector: nodeSelector(node) },
          has: (instance) => isShownByNode(instance, node),
        },
        {
          query: { labelSelector: SHARED_SELECTOR },
          has: (instance) => !isShownByNode(instance, node) && isShownAsShared(instance),
        },
      ],
      parse: parseInstanceObject,
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    // First: a cache that is synced has the Instances of agents of earlier versions too.
    await this.#listUnlabelled(signal)
    await Promise.all([this.cache.run(signal), this.#readStrays(signal)])
  }

  /**
   * Reads an Instance, also one that no watch shows, and adds what programs of early versions do
   * not write: fields, and the labels of an Instance that this node may see. An Instance that
   * cannot be written stays as it is.
   */
  async read(key: ObjectKey, signal?: AbortSignal): Promise<Instance | undefined> {
    const { node, log } = this.#options
    const { api, cache, answerMs: timeoutMs } = this
    const object = await api.get(key, { timeoutMs, signal })
    if (object === undefined) cache.forget(key)
    const instance = cache.observe(object)
    if (instance === undefined) return undefined
    const { metadata, spec } = instance
    const isToLabel = isUnlabelled(instance) && (spec.shared || spec.nodes.includes(node))
    const missing = missingFields(object)
    if (!isToLabel && missing === undefined) return instance
    const added = isToLabel ? labelPatch(instance) : { metadata: { uid: metadata.uid } }
    const patch = { ...added, spec: missing }
    try {
      return cache.observe(await api.patch(key, 'merge', patch, { timeoutMs, signal }))
    } catch (error) {
      if (!ApiError.is(error)) throw error
      const fields = { instance: metadata.name, patch, err: error }
      log[this.#hasWarned ? 'debug' : 'warn'](fields, 'labels or fields of Instance not written')
      this.#hasWarned = true
      return instance
    }
  }

  /** The Instances of this node that an agent of an earlier version has made. */
  async #listUnlabelled(signal: AbortSignal): Promise<void> {
    const { client, path, clock, node, log } = this.#options
    const query = { labelSelector: UNLABELLED_SELECTOR }
    const waits = new Backoff(LIST_BACKOFF)
    while (!signal.aborted) {
      try {
        const { objects } = await listObjects({ client, path, query }, signal)
        for (const object of objects) {
          const instance = parseInstanceObject(object)
          if (instance !== undefined && nodesOf(instance).has(node)) this.cache.observe(object)
        }
        return
      } catch (error) {
        if (signal.aborted) return
        const retryInMs = Math.round(waits.next())
        log.warn({ err: error, retryInMs }, 'unlabelled Instances not listed')
        await clock.sleep(retryInMs, signal).catch(() => undefined)
      }
    }
  }

  async #readStrays(signal: AbortSignal): Promise<void> {
    const { clock, log } = this.#options
    while (!signal.aborted) {
      for (const key of this.cache.list().map(keyOf)) {
        if (signal.aborted) return
        if (!this.cache.isStray(key)) continue
        await this.read(key, signal).catch((error: unknown) => {
          if (!signal.aborted) log.debug({ instance: key, err: error }, 'Instance not read')
        })
      }
      await clock.sleep(READ_MS * (1 + Math.random() / 2), signal).catch(() => undefined)
    }
  }
}
