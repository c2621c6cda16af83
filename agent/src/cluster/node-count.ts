import type { Configuration, Instance } from '@akrijs/api'
import { keyOf, type ObjectKey } from '@akrijs/kube/objects'
import type { Clock } from '@akrijs/runtime'
import type { ObjectCache } from './cluster.js'

interface NodeCountOptions {
  readonly clock: Pick<Clock, 'monotonicMs'>
  readonly instances: Pick<ObjectCache<Instance>, 'list'>
  readonly configurations: Pick<ObjectCache<Configuration>, 'list'>
}

/**
 * The least time between two counts that look at all objects, in milliseconds. A number that is too
 * high meanwhile only makes waits longer.
 */
const COUNT_MS = 60_000

/**
 * How many nodes the cluster has at least: the most that one Instance or one Configuration shows.
 * A larger number counts at once, a smaller one with the next count.
 */
export class NodeCount {
  readonly #options: NodeCountOptions
  /** The nodes that report on each Configuration: the cache does not follow the status. */
  readonly #reporting = new Map<ObjectKey, number>()
  #most = 1
  #countedAt: number

  constructor(options: NodeCountOptions) {
    this.#options = options
    this.#countedAt = options.clock.monotonicMs()
  }

  instanceSeen({ spec }: Instance): void {
    this.#most = Math.max(this.#most, spec.nodes.length)
  }

  configurationSeen(key: ObjectKey, reporting: number): void {
    this.#reporting.set(key, reporting)
    this.#most = Math.max(this.#most, reporting)
  }

  get most(): number {
    const { clock, instances, configurations } = this.#options
    const now = clock.monotonicMs()
    if (now < this.#countedAt + COUNT_MS) return this.#most
    this.#countedAt = now
    this.#most = 1
    for (const instance of instances.list()) this.instanceSeen(instance)
    const present = new Set(configurations.list().map(keyOf))
    for (const [key, reporting] of this.#reporting)
      if (present.has(key)) this.configurationSeen(key, reporting)
      else this.#reporting.delete(key)
    return this.#most
  }
}
