import {
  INSTANCES,
  type Instance,
  instanceLabels,
  isUnlabelled,
  labelPatch,
  missingFields,
  nodesOf,
  parseInstanceObject,
  UNLABELLED_SELECTOR,
} from '@akrijs/api'
import {
  type ApiClient,
  keyOf,
  listObjects,
  type NodeName,
  type ObjectKey,
  type Reflector,
  type Resource,
} from '@akrijs/kube'
import { Backoff, type Clock, type Logger } from '@akrijs/runtime'

interface StrayInstancesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
  readonly api: Resource
  readonly cache: Pick<Reflector<Instance>, 'get' | 'list' | 'observe' | 'forget' | 'isStray'>
}

const LIST_BACKOFF = { initialMs: 500, ceilingMs: 30_000 }
/** Between two reads of a stray Instance, in milliseconds; at random up to half longer. */
const READ_MS = 60_000

/**
 * The Instances that no watch of the agent shows: those without labels, of programs that write
 * none, and local Instances of other nodes that hold a name which this node needs. The agent reads
 * them now and then, and labels what its node is in.
 */
export class StrayInstances {
  /** Resolves after the first list. */
  readonly listed: Promise<void>
  readonly #options: StrayInstancesOptions
  readonly #random: () => number
  #onListed: () => void = () => {}
  #hasWarned = false

  constructor(options: StrayInstancesOptions, { random = Math.random } = {}) {
    this.#options = options
    this.#random = random
    this.listed = new Promise((resolve) => {
      this.#onListed = resolve
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, cache } = this.#options
    await this.#listOnce(signal)
    while (!signal.aborted) {
      await clock.sleep(READ_MS * (1 + this.#random() / 2), signal).catch(() => undefined)
      for (const instance of cache.list()) {
        if (signal.aborted) return
        if (cache.isStray(keyOf(instance))) await this.#retry(keyOf(instance), signal)
      }
    }
  }

  /** Reads an Instance that is not in the cache, and labels it if no program has. */
  async adopt(key: ObjectKey, signal?: AbortSignal): Promise<void> {
    const { api, cache } = this.#options
    const object = await api.get(key, { signal })
    if (object === undefined) return cache.forget(key)
    const instance = cache.observe(object)
    if (instance !== undefined) await this.#label(instance, object, signal)
  }

  /** The Instances of this node that an agent of an earlier version has made. */
  async #listOnce(signal: AbortSignal): Promise<void> {
    const { client, clock, api, cache, node, log } = this.#options
    const waits = new Backoff({ ...LIST_BACKOFF, random: this.#random })
    while (!signal.aborted) {
      try {
        const query = { labelSelector: UNLABELLED_SELECTOR }
        const { objects } = await listObjects({ client, path: api.path(), query }, signal)
        const ofNode = objects.filter((object) => {
          const instance = parseInstanceObject(object)
          return instance !== undefined && nodesOf(instance).has(node)
        })
        const read = ofNode.map((object) => [cache.observe(object), object] as const)
        this.#onListed()
        for (const [instance, object] of read)
          if (instance !== undefined) await this.#label(instance, object, signal)
        return
      } catch (error) {
        if (signal.aborted) return
        const retryInMs = Math.round(waits.next())
        log.warn({ err: error, retryInMs }, 'unlabelled Instances not listed')
        await clock.sleep(retryInMs, signal).catch(() => undefined)
      }
    }
  }

  async #retry(key: ObjectKey, signal: AbortSignal): Promise<void> {
    await this.adopt(key, signal).catch((error: unknown) => {
      if (!signal.aborted)
        this.#options.log.debug({ instance: key, err: error }, 'Instance not read')
    })
  }

  /**
   * An Instance that cannot be labelled stays in the cache, and is read now and then.
   * @param object as the API server returns it
   */
  async #label(instance: Instance, object: unknown, signal?: AbortSignal): Promise<void> {
    const { api, cache, node, log } = this.#options
    const isOwn = instance.spec.shared || instance.spec.nodes.includes(node)
    if (!isUnlabelled(instance) || !isOwn) return
    const patch = { ...labelPatch(instance), spec: missingFields(object) }
    try {
      cache.observe(await api.patch(keyOf(instance), 'merge', patch, { signal }))
    } catch (error) {
      if (signal?.aborted) return
      const fields = {
        instance: instance.metadata.name,
        labels: instanceLabels(instance.spec),
        err: error,
      }
      if (this.#hasWarned) log.debug(fields, 'Instance not labelled')
      else log.warn(fields, `label of ${INSTANCES.plural} not written`)
      this.#hasWarned = true
    }
  }
}
