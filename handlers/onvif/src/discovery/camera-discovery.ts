import { setMaxListeners } from 'node:events'
import { AkriError, type Clock, every, Latest, type Logger, messageOf } from '@akrijs/sdk'
import { FairQueue, plainAddress, SenderBudget } from '@akrijs/sdk/network'
import type { CameraFacts, CameraRequest } from '../device/camera.js'
import { RefusedCredentials } from '../device/refused-credentials.js'
import { OnvifReplyError, OnvifUnreachableError } from '../errors.js'
import type { NetworkPolicy } from '../network-policy.js'
import { type Camera, type CameraQuery, CameraSet, type CameraSetOptions } from './camera-set.js'
import { type ServiceUrlOptions, serviceUrls } from './service-urls.js'
import { type DiscoveryEvent, WsDiscovery, type WsDiscoveryOptions } from './ws-discovery.js'

export interface CameraDiscoveryOptions
  extends Pick<CameraSetOptions, 'identity' | 'refreshMs' | 'accepts'>,
    Pick<WsDiscoveryOptions, 'interfaces' | 'probeAddresses'>,
    ServiceUrlOptions {
  /** The addresses that the handler may call now: the networks of the machine change. */
  readonly currentPolicy: () => NetworkPolicy
  /** Reads the facts of a camera. @throws AkriError if there is no camera at the URL */
  readonly read: (
    request: Pick<CameraRequest, 'url' | 'uuid' | 'zone' | 'refused' | 'signal'>,
    policy: NetworkPolicy,
  ) => Promise<CameraFacts>
  /** How long a round waits for answers, in milliseconds. */
  readonly windowMs: number
  /** From the start of a round to the start of the next, in milliseconds. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Logger
  readonly signal: AbortSignal
}

/** Queries at a time: in all, and of cameras that one address announced. */
const QUERY_LIMITS = { atOnce: 16, perKey: 2 }
/**
 * After a round, this many known cameras are queried again, and this many candidates that did not
 * answer before.
 */
const REQUERIES_PER_ROUND = 16
/**
 * How long the first list waits for queries, in milliseconds: a device that is not in a list is
 * gone.
 */
const FIRST_LIST_MS = 10_000
/** Changes within this time make one list, in milliseconds. */
const GATHER_MS = 100
/** Hellos without a URL that are answered by a Probe, in one round. */
const HELLO_LIMITS = { perSender: 1, senders: 64, pool: 'family', round: 'renewed' } as const
/** Addresses whose refused URLs are logged. */
const MAX_LOGGED_SOURCES = 1000

/** Finds cameras and follows them: yields all cameras that are present, after each change. */
export async function* discoverCameras(
  options: CameraDiscoveryOptions,
): AsyncGenerator<readonly Camera[], void, void> {
  const stop = new AbortController()
  const signal = AbortSignal.any([options.signal, stop.signal])
  // Each query and each repetition of a Probe listens to this signal.
  setMaxListeners(0, signal)
  const discovery = new CameraDiscovery({ ...options, signal })
  const running = discovery.run()
  try {
    for await (const _ of discovery.changes) {
      await options.clock.sleep(GATHER_MS, signal).catch(() => undefined)
      if (signal.aborted) return
      yield discovery.cameras
    }
  } finally {
    stop.abort()
    await running
  }
}

class CameraDiscovery {
  readonly changes = new Latest<void>()
  readonly #options: CameraDiscoveryOptions
  readonly #set: CameraSet
  readonly #discovery: WsDiscovery
  readonly #queries = new FairQueue(QUERY_LIMITS)
  readonly #hellos = new SenderBudget(HELLO_LIMITS)
  readonly #refused: RefusedCredentials
  readonly #loggedSources = new Set<string>()
  #policy: NetworkPolicy
  #isListed = false

  constructor(options: CameraDiscoveryOptions) {
    this.#options = options
    this.#policy = options.currentPolicy()
    this.#set = new CameraSet(options)
    this.#refused = new RefusedCredentials({ forMs: options.refreshMs, clock: options.clock })
    const { interfaces, probeAddresses, clock, log, signal } = options
    const probed = new Set(probeAddresses.map(plainAddress))
    this.#discovery = new WsDiscovery({
      interfaces,
      probeAddresses,
      clock,
      log,
      signal,
      allows: (address) => this.#policy.allows(address),
      camerasAt: (address) =>
        this.#set.camerasAt(address) + Number(probed.has(plainAddress(address))),
      onEvent: (event) => this.#onEvent(event),
      onFailure: (error) => this.changes.end(error),
    })
  }

  get cameras(): Camera[] {
    return this.#set.cameras
  }

  /** Runs until the signal is aborted, or a bug ends the discovery. */
  async run(): Promise<void> {
    try {
      await this.#runRounds()
      this.changes.end()
    } catch (error) {
      this.changes.end(error)
    } finally {
      this.#discovery.close()
      await this.#queries.idle()
    }
  }

  async #runRounds(): Promise<void> {
    const { windowMs, intervalMs, clock, signal } = this.#options
    for await (const _ of every(intervalMs, { clock, signal })) {
      this.#policy = this.#options.currentPolicy()
      this.#hellos.renew()
      await this.#discovery.round(windowMs)
      if (!this.#isListed) await this.#queriesDone()
      if (signal.aborted) return
      this.#set.endRound()
      this.#startQueries(REQUERIES_PER_ROUND)
      this.#isListed = true
      this.changes.push()
    }
  }

  /** Resolves when no query is under way, and after FIRST_LIST_MS at the latest. */
  async #queriesDone(): Promise<void> {
    const { clock, signal } = this.#options
    const done = new AbortController()
    const over = AbortSignal.any([signal, done.signal])
    await Promise.race([
      this.#queries.idle(),
      clock.sleep(FIRST_LIST_MS, over).catch(() => undefined),
    ])
    done.abort()
  }

  #onEvent({ kind, announcement, source }: DiscoveryEvent): void {
    const { clock } = this.#options
    if (kind === 'Bye') {
      if (this.#set.bye(announcement.uuid, source)) this.#onChange()
    } else {
      const { urls, refused } = serviceUrls(announcement.xAddrs, this.#policy, this.#options)
      if (urls.length > 0) this.#set.heard(kind, { ...announcement, urls, source })
      else if (refused.length > 0) this.#logRefusedUrls(announcement.uuid, source, refused)
      else if (kind === 'Hello' && this.#hellos.take(source, 1, clock.monotonicMs()))
        this.#discovery.probeAt(source)
    }
    this.#startQueries(0)
  }

  #startQueries(limit: number): void {
    for (const query of this.#set.due(limit))
      void this.#queries.run(query.source, () => this.#run(query))
  }

  async #run(query: CameraQuery): Promise<void> {
    const { log, signal } = this.#options
    const { id, uuid, source, urls } = query
    const failures = new Map<string, AkriError>()
    try {
      let answer = await this.#firstAnswer(query, urls, failures)
      // Ids are made of URLs, and another node may have reached an earlier URL: a lost packet must
      // not decide.
      const unreached = urls.filter((url) => OnvifUnreachableError.is(failures.get(url)))
      if (answer !== undefined)
        answer = (await this.#firstAnswer(query, unreached, failures)) ?? answer
      if (answer === undefined) {
        const count = this.#set.failed(id)
        const level = count === 1 ? 'info' : 'debug'
        log[level]({ uuid, source, failures: count, err: joined(failures) }, 'camera query failed')
      } else this.#set.answered(id, { ...answer, silentUrls: [...failures.keys()] })
      this.#onChange()
    } catch (error) {
      if (!signal.aborted) this.changes.end(error)
    }
  }

  /**
   * @param failures gets the error of each URL that does not answer @throws the signal's reason; a
   * bug
   */
  async #firstAnswer(
    { id, uuid, source }: CameraQuery,
    urls: readonly string[],
    failures: Map<string, AkriError>,
  ): Promise<{ readonly url: string; readonly facts: CameraFacts } | undefined> {
    const { signal, read } = this.#options
    const request = { uuid, zone: source.split('%')[1], refused: this.#refused, signal }
    for (const url of urls) {
      try {
        const facts = await read({ ...request, url }, this.#policy)
        if (this.#set.isSameCamera(id, url, facts)) return { url, facts }
        failures.set(url, new OnvifReplyError(`${url}: another camera answered`))
      } catch (error) {
        if (signal.aborted || !AkriError.is(error) || error.kind === 'bug') throw error
        failures.set(url, error)
      }
    }
    return undefined
  }

  #onChange(): void {
    if (this.#isListed) this.changes.push()
  }

  #logRefusedUrls(uuid: string, source: string, reasons: readonly string[]): void {
    if (this.#loggedSources.has(source) || this.#loggedSources.size >= MAX_LOGGED_SOURCES) return
    this.#loggedSources.add(source)
    this.#options.log.info({ uuid, source, reasons }, 'camera URLs refused')
  }
}

/** The errors of several URLs as one error for the log. */
function joined(failures: ReadonlyMap<string, Error>): Error {
  const errors = [...failures.values()]
  const [first] = errors
  return first !== undefined && errors.length === 1
    ? first
    : new AggregateError(errors, errors.map(messageOf).join('; '))
}
