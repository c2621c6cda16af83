import { isDeepStrictEqual } from 'node:util'
import { type KeyedData, READABLE_FROM_ANNOTATION } from '@akrijs/api'
import {
  type ApiClient,
  ApiError,
  CONFIG_MAPS,
  keyParts,
  Reflector,
  Resource,
  SECRETS,
} from '@akrijs/kube'
import { Backoff, type Clock, type Logger, messageOf, runAfter, TokenBucket } from '@akrijs/runtime'
import { PropertyForbiddenError, PropertyUnreadableError } from '../errors.js'
import { type DataReference, MAX_OBJECT_BYTES, type ReferencedData } from './property-references.js'

interface DataWatchOptions {
  readonly client: ApiClient
  readonly clock: Clock
  readonly log: Logger
  readonly random: () => number
  readonly reference: DataReference
  /** Whether a Configuration may use the object. */
  isUsable(object: ReferencedData): boolean
  /** Called after the object, or the right to read it, changed. */
  onChange(): void
}

const KINDS = { Secret: SECRETS, ConfigMap: CONFIG_MAPS } as const

/** The longest wait for the first answer of the API server, in milliseconds. */
const ANSWER_MS = 10_000
/**
 * Between two reads of an object that the API server refuses, in milliseconds. The first wait is
 * short: an API server that has just started can refuse a right that the agent has.
 */
const RECHECK = { initialMs: 2000, ceilingMs: 60_000 }
/**
 * The changes of an object that are reported: a burst, then one in 5 s. A program that writes a
 * Secret without a pause must not restart discoveries without a pause.
 */
const CHANGES = { burst: 10, refillMs: 5000 }

/**
 * The watch of one Secret or ConfigMap. An object that no Configuration may use counts as absent:
 * the agent keeps nothing of it.
 */
export class DataWatch {
  readonly #options: DataWatchOptions
  readonly #stop = new AbortController()
  readonly #running: Promise<void>
  readonly #changes: TokenBucket
  /** Resolves after the first answer of the API server, its first failure, or some time. */
  readonly #settled: Promise<void>
  #isSettled = false
  #onSettled: () => void = () => {}
  /** Whether the server has shown the object or its absence, or refused the read. */
  #isKnown = false
  #object: ReferencedData | undefined
  /** Whether the server refuses the object, or no Configuration could use it when it was read. */
  isWithheld = false
  /** Why the API server refuses the read. */
  #refusal: string | undefined
  /** The last failure of a read, and its time. */
  #failure: { readonly message: string; readonly at: number } | undefined
  #reflector: Reflector<never> | undefined
  /** Ends the present list or watch. */
  #watch = new AbortController()
  #isReporting = false

  constructor(options: DataWatchOptions) {
    this.#options = options
    this.#changes = new TokenBucket({ clock: options.clock, ...CHANGES })
    this.#settled = new Promise((resolve) => {
      this.#onSettled = resolve
    })
    runAfter(options.clock, ANSWER_MS, this.#stop.signal, () => this.#settle())
    this.#running = this.#run()
  }

  /**
   * Waits for the first answer of the API server.
   * @returns undefined if there is no such object, or no Configuration may use it
   * @throws PropertyForbiddenError, PropertyUnreadableError if the object cannot be read
   */
  async look(): Promise<ReferencedData | undefined> {
    await this.#settled
    const { kind, key } = this.#options.reference
    if (this.#refusal !== undefined)
      throw new PropertyForbiddenError(
        `${kind} ${key} cannot be read: ${this.#refusal}; the agent needs the Role ` +
          `akri-agent-read-secrets in namespace ${keyParts(key).namespace}`,
      )
    // An outage keeps the last value. Only an answer shows that the object does not exist.
    if (this.#object === undefined && this.#outage !== undefined)
      throw new PropertyUnreadableError(`${kind} ${key} cannot be read: ${this.#outage}`)
    return this.#object
  }

  /** To be called after the Configurations that refer to the object changed. */
  review(): void {
    if (this.#object !== undefined) this.#take(this.#object)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    this.#settle()
    await this.#running
  }

  async #run(): Promise<void> {
    const { clock, random } = this.#options
    const { signal } = this.#stop
    const waits = new Backoff({ ...RECHECK, random })
    while (!signal.aborted) {
      const reflector = this.#newReflector()
      this.#reflector = reflector
      this.#watch = new AbortController()
      await reflector.run(AbortSignal.any([signal, this.#watch.signal]))
      if (reflector.lastContact !== undefined) waits.reset()
      await clock.sleep(waits.next(), signal).catch(() => undefined)
    }
  }

  /** The reflector keeps no data: each version goes through `isUsable`. */
  #newReflector(): Reflector<never> {
    const { client, clock, random, reference } = this.#options
    const { namespace, name } = keyParts(reference.key)
    let isThere = false
    const reflector = new Reflector<never>(
      {
        client,
        clock,
        path: new Resource(client, KINDS[reference.kind]).path(namespace),
        query: { fieldSelector: `metadata.name=${name}` },
        // A consent that was withdrawn must not come back.
        listsNewest: true,
        parse: (object) => {
          isThere = true
          return this.#take(parseData(reference.kind, object))
        },
        deleted: () => this.#take(undefined),
        onError: (error, retryInMs) => this.#failed(error, retryInMs),
      },
      { random },
    )
    void reflector.synced.then(() => isThere || this.#take(undefined))
    return reflector
  }

  #take(object: ReferencedData | undefined): undefined {
    this.isWithheld = object !== undefined && !this.#options.isUsable(object)
    this.#become(this.isWithheld ? undefined : object)
  }

  #failed(error: unknown, retryInMs: number): void {
    const { clock, reference, log } = this.#options
    const message = messageOf(error)
    const fields = { kind: reference.kind, object: reference.key, err: error, retryInMs }
    log[message === this.#outage ? 'debug' : 'warn'](fields, 'property not read')
    // An outage keeps the last value. A right that was withdrawn does not.
    if (ApiError.is(error, 401) || ApiError.is(error, 403)) {
      this.isWithheld = true
      this.#become(undefined, message)
      this.#watch.abort()
    }
    this.#failure = { message, at: clock.monotonicMs() }
    this.#settle()
  }

  /** The failure of the last read, unless the server has answered since. */
  get #outage(): string | undefined {
    const { message = 'no answer', at = Number.NEGATIVE_INFINITY } = this.#failure ?? {}
    return (this.#reflector?.lastContact ?? at) <= at ? message : undefined
  }

  #become(object: ReferencedData | undefined, refusal?: string): void {
    const isSame = refusal === this.#refusal && isDeepStrictEqual(object, this.#object)
    const isChanged = !this.#isKnown || !isSame
    this.#isKnown = true
    this.#object = object
    this.#refusal = refusal
    // The first look waits for the first answer.
    if (isChanged && this.#isSettled && !this.#isReporting) this.#report()
    this.#settle()
  }

  #settle(): void {
    this.#isSettled = true
    this.#onSettled()
  }

  #report(): void {
    const { clock, onChange } = this.#options
    const wait = this.#changes.take()
    this.#isReporting = wait > 0
    if (wait === 0) onChange()
    else runAfter(clock, wait, this.#stop.signal, () => this.#report())
  }
}

/**
 * `data` of a ConfigMap is text and wins over `binaryData`. The latter and all data of a Secret are
 * base64.
 */
function parseData(kind: KeyedData['kind'], object: unknown): ReferencedData {
  const { metadata, data, binaryData } = object as {
    metadata: { annotations?: Readonly<Record<string, string>> }
    data?: Readonly<Record<string, string>>
    binaryData?: Readonly<Record<string, string>>
  }
  const values = new Map<string, Uint8Array>()
  for (const [key, value] of Object.entries(binaryData ?? {}))
    values.set(key, Buffer.from(value, 'base64'))
  for (const [key, value] of Object.entries(data ?? {}))
    values.set(key, Buffer.from(value, kind === 'Secret' ? 'base64' : 'utf8'))
  const readableFrom = metadata.annotations?.[READABLE_FROM_ANNOTATION]
  const bytes = [...values.values()].reduce((sum, { length }) => sum + length, 0)
  const isTooLarge = bytes > MAX_OBJECT_BYTES
  return {
    ...(readableFrom !== undefined && { readableFrom }),
    data: isTooLarge ? new Map() : values,
    ...(isTooLarge && { isTooLarge }),
  }
}
