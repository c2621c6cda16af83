import { setMaxListeners } from 'node:events'
import { AkriError, type Clock, every, type Logger, messageOf } from '@akrijs/sdk'
import { FairQueue, plainAddress, SenderBudget } from '@akrijs/sdk/network'
import type { CameraFacts } from '../device/camera.js'
import { RefusedCredentials } from '../device/refused-credentials.js'
import { OnvifReplyError, OnvifUnreachableError } from '../errors.js'
import type { NetworkPolicy } from '../network-policy.js'
import { type Camera, CameraSet, type CameraSetOptions, type Reading } from './camera-set.js'
import { ChangeSignal } from './change-signal.js'
import { type ServiceUrlOptions, serviceUrls } from './service-urls.js'
import { type Heard, WsDiscovery } from './ws-discovery.js'

/** Where a camera is to be asked. */
export interface CameraPlace {
  readonly url: string
  readonly uuid: string
  /** The interface through which a link-local address is reached. */
  readonly zone: string | undefined
  /** The credentials that are not to be tried again yet. */
  readonly refused: RefusedCredentials
}

export interface CameraDiscoveryOptions
  extends Pick<CameraSetOptions, 'identity' | 'refreshMs' | 'wanted'>,
    ServiceUrlOptions {
  readonly interfaces?: readonly string[] | undefined
  readonly probeAddresses: readonly string[]
  /** Which addresses may be spoken to, as things are now: the machine's own networks change. */
  readonly policyNow: () => NetworkPolicy
  /** Asks a camera who it is. @throws AkriError where there is none */
  readonly read: (
    place: CameraPlace,
    policy: NetworkPolicy,
    signal: AbortSignal,
  ) => Promise<CameraFacts>
  /** How long a round probes, in milliseconds. */
  readonly windowMs: number
  /** From one round to the next, in milliseconds. */
  readonly intervalMs: number
  readonly clock: Clock
  readonly log: Logger
  readonly signal: AbortSignal
}

/** Cameras that are asked at once, and of those that one address has told us of. */
const AT_ONCE = { atOnce: 16, perKey: 2 }
/** How many known cameras are asked anew after one round, and how many that did not answer. */
const ASKED_AGAIN_PER_ROUND = 16
/** How long the first list waits for cameras that are slow to answer, in milliseconds: who is not in a list is gone. */
const FIRST_LIST_MS = 10_000
/** What changes within so many milliseconds is told at once. */
const GATHER_MS = 100
/** Devices that say Hello without saying where they are, which are asked in one round. */
const HELLOS = { perSender: 1, senders: 64, pool: 'family', round: 'renewed' } as const
/** Addresses whose cameras cannot be spoken to, which are told of. */
const MAX_TOLD = 1000

/** Finds cameras and keeps track of them: yields all that are there whenever something may have changed. */
export async function* discoverCameras(
  options: CameraDiscoveryOptions,
): AsyncGenerator<readonly Camera[], void, void> {
  const stop = new AbortController()
  // Each camera that is asked, and each Probe that is to be repeated, waits for it.
  setMaxListeners(0, stop.signal)
  const onAbort = () => stop.abort(options.signal.reason)
  options.signal.addEventListener('abort', onAbort, { once: true })
  if (options.signal.aborted) onAbort()
  const discovery = new CameraDiscovery({ ...options, signal: stop.signal })
  const running = discovery.run()
  try {
    for await (const _ of discovery.changes) {
      await options.clock.sleep(GATHER_MS, stop.signal).catch(() => undefined)
      if (stop.signal.aborted) return
      yield discovery.cameras
    }
  } finally {
    options.signal.removeEventListener('abort', onAbort)
    stop.abort()
    await running
  }
}

interface Answer {
  readonly url: string
  readonly facts: CameraFacts
}

class CameraDiscovery {
  readonly changes = new ChangeSignal()
  readonly #options: CameraDiscoveryOptions
  readonly #set: CameraSet
  readonly #discovery: WsDiscovery
  readonly #queue = new FairQueue(AT_ONCE)
  readonly #hellos = new SenderBudget(HELLOS)
  readonly #refused: RefusedCredentials
  readonly #told = new Set<string>()
  #policy: NetworkPolicy
  #listed = false

  constructor(options: CameraDiscoveryOptions) {
    this.#options = options
    this.#policy = options.policyNow()
    this.#set = new CameraSet(options)
    this.#refused = new RefusedCredentials({ forMs: options.refreshMs, clock: options.clock })
    const { interfaces, probeAddresses, clock, log, signal } = options
    const asked = new Set(probeAddresses.map(plainAddress))
    this.#discovery = new WsDiscovery({
      interfaces,
      probeAddresses,
      clock,
      log,
      signal,
      allows: (address) => this.#policy.allows(address),
      camerasAt: (address) => this.#set.knownAt(address) + Number(asked.has(plainAddress(address))),
      onHeard: (heard) => this.#onHeard(heard),
      onFailure: (error) => this.changes.end(error),
    })
  }

  get cameras(): Camera[] {
    return this.#set.cameras
  }

  /** Goes on until the signal is aborted, or something is wrong that never should be. */
  async run(): Promise<void> {
    try {
      await this.#rounds()
      this.changes.end()
    } catch (error) {
      this.changes.end(error)
    } finally {
      this.#discovery.close()
      await this.#queue.idle()
    }
  }

  async #rounds(): Promise<void> {
    const { windowMs, intervalMs, clock, signal } = this.#options
    for await (const _ of every(intervalMs, { clock, signal })) {
      this.#policy = this.#options.policyNow()
      this.#hellos.renew()
      await this.#discovery.round(windowMs)
      if (!this.#listed) await this.#untilAsked()
      if (signal.aborted) return
      this.#set.endRound()
      this.#ask(ASKED_AGAIN_PER_ROUND)
      this.#listed = true
      this.changes.tell()
    }
  }

  /** Resolves when all have answered or failed, but waits for no one for ever. */
  async #untilAsked(): Promise<void> {
    const { clock, signal } = this.#options
    const enough = new AbortController()
    signal.addEventListener('abort', () => enough.abort(), { signal: enough.signal })
    await Promise.race([
      this.#queue.idle(),
      clock.sleep(FIRST_LIST_MS, enough.signal).catch(() => undefined),
    ])
    enough.abort()
  }

  #onHeard({ kind, announcement, source }: Heard): void {
    const { clock } = this.#options
    if (kind === 'Bye') {
      if (this.#set.saidGoodbye(announcement.uuid, source)) this.#changed()
    } else {
      const { urls, refused } = serviceUrls(announcement.xAddrs, this.#policy, this.#options)
      if (urls.length > 0) this.#set.heard(kind, { ...announcement, urls, source })
      else if (refused.length > 0) this.#tellOfPlace(announcement.uuid, source, refused)
      else if (kind === 'Hello' && this.#hellos.take(source, 1, clock.monotonicMs()))
        this.#discovery.probeAt(source)
    }
    this.#ask(0)
  }

  /** @param again how many of those that have been asked before are asked again, of either kind */
  #ask(again: number): void {
    for (const reading of this.#set.due(again))
      void this.#queue.run(reading.source, () => this.#read(reading))
  }

  async #read(reading: Reading): Promise<void> {
    const { id, uuid, urls, source } = reading
    const { log, signal } = this.#options
    const failed = new Map<string, Error>()
    try {
      const found = await this.#firstThatAnswers(reading, urls, failed)
      // Ids are made of URLs, and other nodes may have reached one that is before it: whoever just was not reached is asked again.
      const unreached = [...failed].flatMap(([url, error]) =>
        error instanceof OnvifUnreachableError ? [url] : [],
      )
      const better = found && (await this.#firstThatAnswers(reading, unreached, failed))
      if (found !== undefined) return this.#answered(id, better ?? found, [...failed.keys()])
    } catch (error) {
      return signal.aborted ? undefined : this.changes.end(error)
    }
    const reasons = [...failed.values()].map(messageOf)
    const failures = this.#set.failed(id)
    const tell = failures === 1 ? log.info : log.debug
    tell.call(
      log,
      { uuid, source, failures, reasons },
      'what is announced as a camera does not answer as one',
    )
    this.#changed()
  }

  /** @param failed where it is told why others do not @throws the signal's reason; what is wrong and never should be */
  async #firstThatAnswers(
    { id, uuid, source }: Reading,
    urls: readonly string[],
    failed: Map<string, Error>,
  ): Promise<Answer | undefined> {
    const { signal, read } = this.#options
    for (const url of urls) {
      try {
        const facts = await read(
          { url, uuid, zone: source.split('%')[1], refused: this.#refused },
          this.#policy,
          signal,
        )
        if (this.#set.isStill(id, url, facts)) return { url, facts }
        failed.set(url, new OnvifReplyError(`${url}: it is another camera`))
      } catch (error) {
        if (signal.aborted || !AkriError.is(error)) throw error
        failed.set(url, error)
      }
    }
    return undefined
  }

  #answered(id: string, { url, facts }: Answer, silent: readonly string[]): void {
    this.#set.answered(id, url, facts, silent)
    this.#changed()
  }

  #changed(): void {
    if (this.#listed) this.changes.tell()
  }

  #tellOfPlace(uuid: string, source: string, reasons: readonly string[]): void {
    if (this.#told.has(source) || this.#told.size >= MAX_TOLD) return
    this.#told.add(source)
    this.#options.log.info(
      { uuid, source, reasons },
      'no URL of what is announced as a camera may be asked',
    )
  }
}
