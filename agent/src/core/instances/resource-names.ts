import { GROUP } from '@akrijs/api'
import { type Clock, type Logger, TokenBucket } from '@akrijs/runtime'

/** How many names of resources the agent puts on its Node. */
export interface ResourceNameBounds {
  /** The names of `akri.sh/…` in the status of the Node, with those that nothing offers any more. */
  readonly most: number
  /** New names at once, and then in an hour. */
  readonly atOnce: number
  readonly perHour: number
}

/**
 * A Node keeps each name for ever. With 63 characters in each name, kubelets could write no status
 * any more at 9,000 names (1.5 MB); from 4,000 on, the Node had no `managedFields`.
 */
export const RESOURCE_NAME_BOUNDS: ResourceNameBounds = { most: 4000, atOnce: 2000, perHour: 500 }

/** Starts of plugins: a burst, then one in 100 ms. A handler must not start them without a pause. */
const STARTS = { burst: 4000, refillMs: 100 }
/** How often the Node is read again while its names are at a bound, in milliseconds. */
const READ_MS = 60_000

export interface ResourceNamesOptions {
  readonly bounds: ResourceNameBounds
  readonly clock: Clock
  readonly log: Logger
  /** The names of all resources of the Node; undefined if there is no Node. */
  read(): Promise<ReadonlySet<string> | undefined>
  /** The names that this agent offers. */
  offered(): Iterable<string>
}

/** `full`: the Node has as many names as it may have. `soon`: the budget has room later. */
export type NameRefusal = { readonly why: 'full' | 'soon'; readonly retryInMs: number }

/**
 * Admits names of resources. A name that the Node has is free: the same device has the same name
 * again. New names are bounded, because nothing but an operator removes them.
 */
export class ResourceNames {
  readonly #options: ResourceNamesOptions
  readonly #newNames: TokenBucket
  readonly #starts: TokenBucket
  #names: ReadonlySet<string> = new Set()
  readonly #admitted = new Set<string>()
  #readAt = 0
  #reading: Promise<void> | undefined

  constructor(options: ResourceNamesOptions) {
    this.#options = options
    const { clock, bounds } = options
    const refillMs = Math.ceil(3_600_000 / bounds.perHour)
    this.#newNames = new TokenBucket({ clock, burst: bounds.atOnce, refillMs })
    this.#starts = new TokenBucket({ clock, ...STARTS })
  }

  /**
   * Asks for a plugin of this name.
   * @param known whether the Node had the name before, for example by an Instance of this node
   * @returns undefined if the name is admitted
   */
  admit(name: string, known = false): NameRefusal | undefined {
    const resource = `${GROUP}/${name}`
    if (!known && !this.#has(resource)) {
      if (this.#size >= this.#options.bounds.most) {
        this.#readAgain()
        return { why: 'full', retryInMs: READ_MS }
      }
      const retryInMs = this.#newNames.take()
      if (retryInMs > 0) {
        this.#readAgain()
        return { why: 'soon', retryInMs: Math.min(retryInMs, READ_MS) }
      }
    }
    if (!this.#names.has(resource)) this.#admitted.add(resource)
    const retryInMs = this.#starts.take()
    return retryInMs > 0 ? { why: 'soon', retryInMs } : undefined
  }

  /** Reads the names of the Node. Never fails: without them, all names count as new. */
  read(): Promise<void> {
    this.#readAt = this.#options.clock.monotonicMs()
    this.#reading ??= this.#read().finally(() => {
      this.#reading = undefined
    })
    return this.#reading
  }

  #has(resource: string): boolean {
    return this.#names.has(resource) || this.#admitted.has(resource)
  }

  get #size(): number {
    return this.#names.size + this.#admitted.size
  }

  /** An operator may have removed names. */
  #readAgain(): void {
    if (this.#options.clock.monotonicMs() >= this.#readAt + READ_MS) void this.read()
  }

  async #read(): Promise<void> {
    const { read, offered, log } = this.#options
    try {
      const all = await read()
      const names = new Set([...(all ?? [])].filter((name) => name.startsWith(`${GROUP}/`)))
      this.#names = names
      this.#admitted.clear()
      for (const name of offered()) if (!names.has(name)) this.#admitted.add(name)
    } catch (error) {
      log.warn({ err: error }, 'names of the resources of the Node not read')
    }
  }
}
