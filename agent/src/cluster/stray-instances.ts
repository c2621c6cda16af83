import { type Instance, nodesOf, parseInstanceObject, UNLABELLED_SELECTOR } from '@akrijs/api'
import {
  type ApiClient,
  keyOf,
  listObjects,
  type NodeName,
  type Reflector,
  type Resource,
} from '@akrijs/kube'
import { Backoff, type Clock, type Logger } from '@akrijs/runtime'
import type { CompareAndSwap } from './compare-and-swap.js'

interface StrayInstancesOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly node: NodeName
  readonly api: Resource
  readonly cache: Pick<Reflector<Instance>, 'list' | 'observe' | 'isStray'>
  readonly writer: Pick<CompareAndSwap, 'read' | 'complete'>
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
  #onListed: () => void = () => {}

  constructor(options: StrayInstancesOptions) {
    this.#options = options
    this.listed = new Promise((resolve) => {
      this.#onListed = resolve
    })
  }

  async run(signal: AbortSignal): Promise<void> {
    const { clock, cache, writer, log } = this.#options
    await this.#listOnce(signal)
    while (!signal.aborted) {
      await clock.sleep(READ_MS * (1 + Math.random() / 2), signal).catch(() => undefined)
      for (const key of cache.list().map(keyOf)) {
        if (signal.aborted) return
        if (!cache.isStray(key)) continue
        await writer.read(key, signal).catch((error: unknown) => {
          if (!signal.aborted) log.debug({ instance: key, err: error }, 'Instance not read')
        })
      }
    }
  }

  /** The Instances of this node that an agent of an earlier version has made. */
  async #listOnce(signal: AbortSignal): Promise<void> {
    const { client, clock, api, cache, node, writer, log } = this.#options
    const waits = new Backoff(LIST_BACKOFF)
    while (!signal.aborted) {
      try {
        const query = { labelSelector: UNLABELLED_SELECTOR }
        const { objects } = await listObjects({ client, path: api.path(), query }, signal)
        const ofNode = objects.filter((object) => {
          const instance = parseInstanceObject(object)
          return instance !== undefined && nodesOf(instance).has(node)
        })
        for (const object of ofNode) cache.observe(object)
        this.#onListed()
        for (const object of ofNode) await writer.complete(object, signal)
        return
      } catch (error) {
        if (signal.aborted) return
        const retryInMs = Math.round(waits.next())
        log.warn({ err: error, retryInMs }, 'unlabelled Instances not listed')
        await clock.sleep(retryInMs, signal).catch(() => undefined)
      }
    }
  }
}
