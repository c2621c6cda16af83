import { isDeepStrictEqual } from 'node:util'
import { type KeyedData, READABLE_FROM_ANNOTATION } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  type ApiObject,
  CONFIG_MAPS,
  keyParts,
  Reflector,
  Resource,
  SECRETS,
} from '@akrijs/kube'
import {
  aborted,
  Backoff,
  type Clock,
  type Logger,
  messageOf,
  runAfter,
  TokenBucket,
} from '@akrijs/runtime'
import { PropertyForbiddenError, PropertyUnreadableError } from '../errors.js'
import { type DataReference, MAX_OBJECT_BYTES, type ReferencedData } from './property-references.js'

interface DataWatchOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
  /** Whether a Configuration may use the object. */
  isUsable(object: ReferencedData): boolean
  /** Called after the object, or the right to read it, changed. */
  onChange(): void
}

/** An object in the cache of its watch. */
type WatchedData = ReferencedData & ApiObject

const KINDS = { Secret: SECRETS, ConfigMap: CONFIG_MAPS } as const

/** The longest wait for the first answer of the API server, in milliseconds. */
const ANSWER_MS = 10_000
/**
 * Between two reads of an object that the API server refuses, in milliseconds. The first wait is
 * short: an API server that has just started can refuse a right that the agent has.
 */
const RECHECK = { initialMs: 2000, ceilingMs: 60_000 }
/**
 * The changes of an object that are reported: a burst, then one in 5 s. Each ends the discoveries
 * of its Configurations, and a handler may need seconds for the first list of the next: with an
 * object that changes each second, no list would ever come.
 */
const CHANGES = { burst: 10, refillMs: 5000 }

/**
 * The watch of one Secret or ConfigMap. An object that no Configuration may use counts as absent:
 * the agent keeps nothing of it.
 */
export class DataWatch {
  readonly reference: DataReference
  readonly #options: DataWatchOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  readonly #changes: TokenBucket
  #isReporting = false
  /** Aborted after the first answer of the API server, its first failure, or some time. */
  readonly #first = new AbortController()
  readonly #settled = aborted(this.#first.signal)
  /** Undefined while the API server refuses the read, between two attempts. */
  #reflector: Reflector<WatchedData> | undefined
  /** Why the API server refuses the read. */
  #refusal: string | undefined
  /** Whether no Configuration could use the object when it was read. */
  #isUnusable = false
  /** The last failure of a read, and its time. */
  #failure: { readonly message: string; readonly at: number } | undefined

  constructor(reference: DataReference, options: DataWatchOptions) {
    this.reference = reference
    this.#options = options
    this.#changes = new TokenBucket({ clock: options.clock, ...CHANGES })
    runAfter(options.clock, ANSWER_MS, this.#first.signal, () => this.#first.abort())
    this.#running = this.#run()
  }

  /**
   * Waits for the first answer of the API server.
   * @returns undefined if there is no such object, or no Configuration may use it
   * @throws PropertyForbiddenError, PropertyUnreadableError if the object cannot be read
   */
  async look(): Promise<ReferencedData | undefined> {
    await this.#settled
    const { kind, key } = this.reference
    if (this.#refusal !== undefined)
      throw new PropertyForbiddenError(
        `${kind} ${key} cannot be read: ${this.#refusal}; the agent needs the Role ` +
          `akri-agent-read-secrets in namespace ${keyParts(key).namespace}`,
      )
    // An outage keeps the last value. Only an answer shows that the object does not exist.
    const object = this.#reflector?.get(key)
    if (object === undefined && this.#outage !== undefined)
      throw new PropertyUnreadableError(`${kind} ${key} cannot be read: ${this.#outage}`)
    return object
  }

  /**
   * Whether the Configurations that refer to the object now need another watch.
   * @param hasNew whether one of them is new: it may be allowed to use what was withheld
   */
  isOutdated(hasNew: boolean): boolean {
    const object = this.#reflector?.get(this.reference.key)
    if (object !== undefined) return !this.#options.isUsable(object)
    return hasNew && (this.#isUnusable || this.#refusal !== undefined)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#first.abort()
    await this.#running
  }

  async #run(): Promise<void> {
    const { client, clock, random } = this.#options
    const { namespace, name } = keyParts(this.reference.key)
    const path = new Resource(client, KINDS[this.reference.kind]).path(namespace)
    const query = { fieldSelector: `metadata.name=${name}` }
    const { signal } = this.#stop
    const waits = new Backoff({ ...RECHECK, random })
    while (!signal.aborted) {
      const refused = new AbortController()
      const over = AbortSignal.any([signal, refused.signal])
      const reflector = new Reflector<WatchedData>(
        {
          ...{ client, clock, path, query },
          // A consent that was withdrawn must not come back.
          listsNewest: true,
          parse: (object, cached) => this.#read(object, cached),
          onError: (error, retryInMs) => this.#failed(error, retryInMs, refused),
        },
        { random },
      )
      void reflector.synced.then(() => {
        this.#refusal = undefined
        reflector.onChange(() => this.#report(), over)
        this.#answered()
      })
      this.#reflector = reflector
      await reflector.run(over)
      this.#reflector = undefined
      if (reflector.lastContact !== undefined) waits.reset()
      await clock.sleep(waits.next(), signal).catch(() => undefined)
    }
  }

  #read(object: unknown, cached: WatchedData | undefined): WatchedData | undefined {
    const data = parseData(this.reference.kind, object)
    this.#isUnusable = !this.#options.isUsable(data)
    if (this.#isUnusable) return undefined
    return isDeepStrictEqual({ ...data, metadata: cached?.metadata }, cached) ? cached : data
  }

  #failed(error: unknown, retryInMs: number, refused: AbortController): void {
    const { clock, log } = this.#options
    const { kind, key } = this.reference
    const message = messageOf(error)
    const fields = { kind, object: key, err: error, retryInMs }
    log[message === this.#outage ? 'debug' : 'warn'](fields, 'property not read')
    this.#failure = { message, at: clock.monotonicMs() }
    // An outage keeps the last value. A right that was withdrawn does not.
    if (ApiError.is(error, 401) || ApiError.is(error, 403)) {
      refused.abort()
      const isSame = this.#refusal === message
      this.#refusal = message
      if (!isSame) this.#answered()
    }
    this.#first.abort()
  }

  /** The failure of the last read, unless the server has answered since. */
  get #outage(): string | undefined {
    const { message = 'no answer', at = Number.NEGATIVE_INFINITY } = this.#failure ?? {}
    return (this.#reflector?.lastContact ?? at) <= at ? message : undefined
  }

  #answered(): void {
    // The first look waits for the first answer.
    if (this.#first.signal.aborted) this.#report()
    this.#first.abort()
  }

  #report(): void {
    if (this.#isReporting) return
    const { clock, onChange } = this.#options
    const waitMs = this.#changes.take()
    if (waitMs === 0) {
      onChange()
      return
    }
    this.#isReporting = true
    runAfter(clock, waitMs, this.#stop.signal, () => {
      this.#isReporting = false
      this.#report()
    })
  }
}

/**
 * `data` of a ConfigMap is text and wins over `binaryData`. The latter and all data of a Secret are
 * base64.
 */
function parseData(kind: KeyedData['kind'], object: unknown): WatchedData {
  const { metadata, data, binaryData } = object as {
    metadata: ApiObject['metadata'] & { annotations?: Readonly<Record<string, string>> }
    data?: Readonly<Record<string, string>>
    binaryData?: Readonly<Record<string, string>>
  }
  const values = new Map<string, Uint8Array>()
  for (const [key, value] of Object.entries(binaryData ?? {}))
    values.set(key, Buffer.from(value, 'base64'))
  for (const [key, value] of Object.entries(data ?? {}))
    values.set(key, Buffer.from(value, kind === 'Secret' ? 'base64' : 'utf8'))
  const { namespace, name, resourceVersion, annotations } = metadata
  const readableFrom = annotations?.[READABLE_FROM_ANNOTATION]
  const bytes = [...values.values()].reduce((sum, { length }) => sum + length, 0)
  return {
    metadata: { namespace, name, resourceVersion },
    ...(readableFrom !== undefined && { readableFrom }),
    ...(bytes <= MAX_OBJECT_BYTES && { data: values }),
  }
}
