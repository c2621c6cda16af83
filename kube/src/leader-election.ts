import type { Clock } from '@akrijs/runtime'
import type { ApiClient } from './api-client.js'
import { Deadline } from './deadline.js'
import { ApiError } from './errors.js'
import { LEASES } from './kinds.js'
import { type Lease, leaseObject, leaseStep, parseLease, type SeenRenewal } from './lease.js'
import { LIST_WATCH_TIMING, listWatch } from './list-watch.js'
import { objectKey } from './objects.js'
import { Resource } from './resource.js'

interface LeaderElectionOptions {
  readonly client: ApiClient
  readonly clock: Clock
  /** The namespace and the name of the Lease. */
  readonly namespace: string
  readonly name: string
  /** Tells the candidates apart, for example the name of the Pod. */
  readonly identity: string
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  onError(error: unknown): void
}

/** How long other candidates wait for a leader that does not renew, in milliseconds. */
const LEASE_MS = 22_000
/** When a leader that could not renew gives up, in milliseconds: before another takes over. */
const RENEW_DEADLINE_MS = 17_000
/** The time between two renewals, in milliseconds. */
const RENEW_MS = 6500
/** The time after an attempt that failed, in milliseconds. */
const RETRY_MS = 2000
/** How long giving the Lease back may take, in milliseconds. */
const GIVE_BACK_MS = 2000
const GIVE_BACK_ATTEMPTS = 3

/**
 * `lost`: another candidate holds the Lease. `unknown`: no answer, or another write in the same
 * moment.
 */
interface Attempt {
  readonly state: 'held' | 'lost' | 'unknown'
  /** When its first request was sent, by the monotonic clock. */
  readonly since: number
}

/**
 * Lets one of several candidates lead at a time, by a Lease that the leader renews. Each
 * candidate measures by its own clock how long the Lease has not changed: clocks need not agree. A
 * leader that cannot renew stops leading before another candidate takes over, as long as `lead`
 * ends within five seconds after its signal is aborted.
 */
export class LeaderElection {
  readonly #options: Required<LeaderElectionOptions>
  readonly #leases: Resource
  #seen: SeenRenewal | undefined
  /** The Lease as this candidate wrote it last; undefined if it may have changed since. */
  #written: Lease | undefined
  /** Whether the Lease may be ours: also if the answer to a write was lost. */
  #mayHold = false
  #turn: Turn | undefined

  constructor(options: LeaderElectionOptions) {
    this.#options = { random: Math.random, ...options }
    this.#leases = new Resource(options.client, LEASES)
  }

  /** Whether this candidate leads now. */
  get leads(): boolean {
    return this.#turn?.signal.aborted === false
  }

  /**
   * Waits for the Lease, leads, and waits again after the Lease was lost, until the signal is
   * aborted. The signal of `lead` ends its turn. The Lease is renewed until `lead` has returned,
   * and is given back then.
   */
  async run(signal: AbortSignal, lead: (turn: AbortSignal) => Promise<void>): Promise<void> {
    const { clock, random } = this.#options
    const pause = (ms: number, until: AbortSignal) => clock.sleep(ms, until).catch(() => undefined)
    try {
      while (this.#turn !== undefined || !signal.aborted) {
        const turn: Turn | undefined = this.#turn
        const attempt = await this.#tryToHold(turn?.returned ?? signal)
        const { state, since } = attempt
        if (turn !== undefined) turn.update(attempt)
        else if (state === 'held' && !signal.aborted) {
          const next = new Turn(clock, since, signal)
          if (next.isInTime) this.#turn = next.begin(lead)
        }
        if (this.#turn !== undefined) {
          const restMs = since + RENEW_MS - clock.monotonicMs()
          await pause(state === 'held' ? Math.max(0, restMs) : RETRY_MS, this.#turn.returned)
        }
        if (this.#turn?.returned.aborted) {
          const { result } = this.#turn
          this.#turn = undefined
          await this.#giveBack()
          await result
        }
        if (this.#turn !== undefined) continue
        if (state === 'lost') await this.#untilFree(signal)
        // At random, so that candidates do not ask in the same moment.
        else await pause(RETRY_MS * (1 + random() * 0.2), signal)
      }
    } finally {
      await this.#giveBack()
    }
  }

  /** Takes the Lease, or renews it. A request that hangs leaves time for another attempt. */
  async #tryToHold(signal: AbortSignal): Promise<Attempt> {
    const { identity, onError, clock } = this.#options
    // Other candidates count from when they see the renewal, which is never before it was sent.
    const since = clock.monotonicMs()
    const endMs = this.#turn?.endsAt ?? since + RENEW_DEADLINE_MS
    const deadline = new Deadline(clock, () => since + (endMs - since) / 2, signal)
    try {
      if (await this.#renew(deadline.signal)) return { state: 'held', since }
      const lease = await this.#read(deadline.signal)
      if (lease !== undefined && lease.holder !== identity) this.#mayHold = false
      const step = leaseStep(lease, identity, this.#seen, clock.monotonicMs())
      if (step.do === 'wait') {
        this.#seen = step.seen
        return { state: 'lost', since }
      }
      this.#mayHold = true
      await this.#write(lease, identity, deadline.signal)
      return { state: 'held', since }
    } catch (error) {
      // 409: another candidate was faster.
      if (!ApiError.is(error, 409) && !signal.aborted) onError(error)
      return { state: 'unknown', since }
    } finally {
      deadline.end()
    }
  }

  /**
   * Renews without a read: the version of the Lease makes the write fail if the Lease has changed.
   * @returns false if the Lease has to be read
   */
  async #renew(signal: AbortSignal): Promise<boolean> {
    const lease = this.#written
    if (lease === undefined) return false
    this.#written = undefined
    try {
      await this.#write(lease, this.#options.identity, signal)
      return true
    } catch (error) {
      if (ApiError.is(error, 409) || ApiError.is(error, 404)) return false
      throw error
    }
  }

  async #read(signal: AbortSignal): Promise<Lease | undefined> {
    const { namespace, name } = this.#options
    return parseLease(await this.#leases.get(objectKey(namespace, name), { signal }))
  }

  /** @param lease the Lease that is replaced; undefined if there is none */
  async #write(lease: Lease | undefined, holder: string, signal: AbortSignal): Promise<void> {
    const { namespace, name, clock } = this.#options
    const now = new Date(clock.wallMs())
    const object = leaseObject(lease, holder, { namespace, name, durationMs: LEASE_MS, now })
    const written =
      lease === undefined
        ? await this.#leases.create(namespace, object, { signal })
        : await this.#leases.replace(objectKey(namespace, name), object, { signal })
    this.#written = parseLease(written)
  }

  /**
   * Resolves when the Lease was given back or deleted, or has not been renewed for its duration. A
   * watch that fails delays what it would have shown until then.
   */
  async #untilFree(signal: AbortSignal): Promise<void> {
    const { client, clock, namespace, name, identity, onError, random } = this.#options
    const expiry = () => (this.#seen?.seenAt ?? 0) + (this.#seen?.durationMs ?? 0)
    const expired = new Deadline(clock, expiry, signal)
    const watched = {
      ...LIST_WATCH_TIMING,
      random,
      client,
      clock,
      path: this.#leases.path(namespace),
      query: { fieldSelector: `metadata.name=${name}` },
      onError,
    }
    try {
      // Only the newest Lease counts.
      const newest = () => undefined
      for await (const event of listWatch(watched, expired.signal, newest, () => {})) {
        if (event.kind === 'listing') continue
        if (event.kind === 'event' && event.type === 'BOOKMARK') continue
        const isGone = event.kind === 'event' && event.type === 'DELETED'
        const object = event.kind === 'event' ? event.object : event.objects[0]
        const lease = isGone ? undefined : parseLease(object)
        const step = leaseStep(lease, identity, this.#seen, clock.monotonicMs())
        if (step.do === 'write') return
        this.#seen = step.seen
      }
    } catch (error) {
      // The answer was no Lease.
      onError(error)
      await clock.sleep(RETRY_MS, signal).catch(() => undefined)
    } finally {
      expired.end()
    }
  }

  async #giveBack(): Promise<void> {
    if (!this.#mayHold) return
    const { onError, clock } = this.#options
    const end = clock.monotonicMs() + GIVE_BACK_MS
    const deadline = new Deadline(clock, () => end)
    try {
      // A renewal of ours may still be under way, and arrive between reading and writing.
      for (let attempt = 0; this.#mayHold && attempt < GIVE_BACK_ATTEMPTS; attempt++)
        await this.#release(deadline.signal)
    } catch (error) {
      // The Lease runs out without us.
      onError(error)
    } finally {
      deadline.end()
    }
  }

  async #release(signal: AbortSignal): Promise<void> {
    this.#written = undefined
    try {
      const lease = await this.#read(signal)
      if (lease?.holder === this.#options.identity) await this.#write(lease, '', signal)
      this.#mayHold = false
    } catch (error) {
      if (!ApiError.is(error, 409)) throw error
    }
  }
}

/** One time of leading: from a held Lease until `lead` has returned. */
class Turn {
  readonly #deadline: Deadline
  readonly #returned = new AbortController()
  #renewedAt: number
  /** What `lead` came to. */
  result: Promise<void> = Promise.resolve()

  /** @param since when the request was sent that took the Lease */
  constructor(clock: Clock, since: number, signal: AbortSignal) {
    this.#renewedAt = since
    // Beside the renewals, because a renewal may hang.
    this.#deadline = new Deadline(clock, () => this.endsAt, signal)
  }

  /** When the turn ends without a further renewal, by the monotonic clock. */
  get endsAt(): number {
    return this.#renewedAt + RENEW_DEADLINE_MS
  }

  /** Ends the turn. */
  get signal(): AbortSignal {
    return this.#deadline.signal
  }

  /** Whether other candidates cannot take over soon. */
  get isInTime(): boolean {
    return !this.#deadline.signal.aborted
  }

  /** Is aborted when `lead` has returned. */
  get returned(): AbortSignal {
    return this.#returned.signal
  }

  begin(lead: (turn: AbortSignal) => Promise<void>): this {
    this.result = lead(this.signal).finally(() => {
      this.#deadline.end()
      this.#returned.abort()
    })
    // The loop of the election awaits the result, after it has given the Lease back.
    this.result.catch(() => undefined)
    return this
  }

  update({ state, since }: Attempt): void {
    if (state === 'held') this.#renewedAt = since
    else if (state === 'lost') this.#deadline.end()
  }
}
