import { type ConfigurationName, GROUP, possibleOwner } from '@akrijs/api'
import { type Clock, type Logger, TokenBucket } from '@akrijs/runtime'
import type { ResourceNameBounds } from '../limits.js'

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

/** A resource that asks for its name. */
export interface NameRequest {
  readonly name: string
  readonly configuration: ConfigurationName
  /** How many resources this agent offers for the Configuration. */
  readonly offered: number
  /** Whether the Node had the name before, for example by an Instance of this node. */
  readonly isKnown: boolean
}

/** `full`: the Node has no room for the name. `soon`: the budget has room later. */
export type NameRefusal = { readonly why: 'full' | 'soon'; readonly retryInMs: number }

/**
 * Admits names of resources. A name that the Node has is free: the same device has the same name
 * again. New names are bounded, because nothing but an operator removes them. A Configuration whose
 * devices always change leaves room for others: it has at most as many old names as the Node has
 * room for more.
 */
export class ResourceNames {
  readonly #options: ResourceNamesOptions
  /** The new names that each Configuration may have. */
  readonly #newNames = new Map<ConfigurationName, TokenBucket>()
  /** Those that the Node has, and those that were admitted. */
  readonly #names = new Set<string>()
  /** How many of them belong to each Configuration. */
  readonly #counts = new Map<string, number>()
  #readAt = 0

  constructor(options: ResourceNamesOptions) {
    this.#options = options
  }

  /** @returns undefined if the name is admitted */
  admit({ name, configuration, offered, isKnown }: NameRequest): NameRefusal | undefined {
    const resource = `${GROUP}/${name}`
    if (this.#names.has(resource)) return undefined
    const refusal = isKnown ? undefined : this.#refusal(configuration, offered)
    if (refusal === undefined) this.#add(resource)
    // An operator may have removed names.
    else if (this.#options.clock.monotonicMs() >= this.#readAt + READ_MS) void this.read()
    return refusal
  }

  /** Reads the names of the Node. Never fails: without them, all names count as new. */
  async read(): Promise<void> {
    const { clock, read, offered, log } = this.#options
    this.#readAt = clock.monotonicMs()
    try {
      const all = [...((await read()) ?? [])].filter((name) => name.startsWith(`${GROUP}/`))
      this.#names.clear()
      this.#counts.clear()
      for (const name of new Set([...all, ...offered()])) this.#add(name)
    } catch (error) {
      log.warn({ err: error }, 'names of the resources of the Node not read')
    }
  }

  #refusal(configuration: ConfigurationName, offered: number): NameRefusal | undefined {
    const { clock, bounds } = this.#options
    const old = (this.#counts.get(`${GROUP}/${configuration}`) ?? 0) - offered
    if (old >= bounds.most - this.#names.size) return { why: 'full', retryInMs: READ_MS }
    const refillMs = Math.ceil(3_600_000 / bounds.perHour)
    const bucket =
      this.#newNames.get(configuration) ??
      new TokenBucket({ clock, burst: bounds.atOnce, refillMs })
    this.#newNames.set(configuration, bucket)
    const retryInMs = Math.min(bucket.take(), READ_MS)
    return retryInMs > 0 ? { why: 'soon', retryInMs } : undefined
  }

  #add(resource: string): void {
    // The resource of the Configuration to which the name belongs.
    const owner = possibleOwner(resource) ?? resource
    this.#names.add(resource)
    this.#counts.set(owner, (this.#counts.get(owner) ?? 0) + 1)
  }
}
