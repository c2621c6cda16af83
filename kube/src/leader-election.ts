import type { Clock } from '@akrijs/runtime'
import type { ApiClient } from './api-client.js'
import { Deadline } from './deadline.js'
import { ApiError } from './errors.js'
import { LEASES } from './kinds.js'
import { type Lease, leaseObject, leaseStep, parseLease, type SeenRenewal } from './lease.js'
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
  onError(error: unknown): void
}

interface LeaderElectionTiming {
  /**
   * How long other candidates wait for a leader that does not renew, in milliseconds.
   * @default 15000
   */
  readonly leaseMs?: number
  /**
   * When a leader that could not renew gives up, in milliseconds; less than `leaseMs`.
   * @default 10000
   */
  readonly renewDeadlineMs?: number
  /** The time between two attempts, in milliseconds. @default 2000 */
  readonly retryMs?: number
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
}

/** How long giving the Lease back may take, in milliseconds. */
const GIVE_BACK_MS = 2000
const GIVE_BACK_ATTEMPTS = 3

/**
 * `lost`: another candidate holds the Lease. `unknown`: no answer, or another write in the same
 * moment.
 */
type Attempt =
  | { readonly state: 'held'; readonly since: number }
  | { readonly state: 'lost' | 'unknown' }

/**
 * Lets one of several candidates lead at a time, by a Lease that the leader renews. Each
 * candidate measures by its own clock how long the Lease has not changed: clocks need not agree. A
 * leader that cannot renew stops leading before another candidate takes over, as long as `lead`
 * ends within `leaseMs - renewDeadlineMs` after its signal is aborted.
 */
export class LeaderElection {
  readonly #options: LeaderElectionOptions & Required<LeaderElectionTiming>
  readonly #leases: Resource
  #seen: SeenRenewal | undefined
  /** Whether the Lease may be ours: also if the answer to a write was lost. */
  #mayHold = false
  #turn: Turn | undefined

  constructor(options: LeaderElectionOptions, timing: LeaderElectionTiming = {}) {
    this.#options = {
      leaseMs: 15_000,
      renewDeadlineMs: 10_000,
      retryMs: 2000,
      random: Math.random,
      ...options,
      ...timing,
    }
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
    const { clock, retryMs, renewDeadlineMs, random } = this.#options
    const pause = (ms: number, until: AbortSignal) => clock.sleep(ms, until).catch(() => undefined)
    try {
      while (this.#turn !== undefined || !signal.aborted) {
        const turn: Turn | undefined = this.#turn
        const attempt = await this.#tryToHold(turn?.returned ?? signal)
        if (turn !== undefined) turn.update(attempt)
        else if (attempt.state === 'held' && !signal.aborted) {
          const next = new Turn(clock, attempt.since, renewDeadlineMs, signal)
          if (next.isInTime) this.#turn = next.begin(lead)
        }
        if (this.#turn !== undefined) await pause(retryMs, this.#turn.returned)
        if (this.#turn?.returned.aborted) {
          const { result } = this.#turn
          this.#turn = undefined
          await this.#giveBack()
          await result
        }
        // At random, so that candidates do not ask in the same moment.
        if (this.#turn === undefined) await pause(retryMs * (1 + random() * 0.2), signal)
      }
    } finally {
      await this.#giveBack()
    }
  }

  /** Takes the Lease, or renews it. A request that hangs leaves time for another attempt. */
  async #tryToHold(signal: AbortSignal): Promise<Attempt> {
    const { namespace, name, identity, onError, renewDeadlineMs, clock } = this.#options
    // Other candidates count from when they see the renewal, which is never before it was sent.
    const since = clock.monotonicMs()
    const deadline = new Deadline(clock, () => since + renewDeadlineMs / 2, signal)
    const options = { signal: deadline.signal }
    const key = objectKey(namespace, name)
    try {
      const lease = parseLease(await this.#leases.get(key, options))
      const step = leaseStep(lease, identity, this.#seen, clock.monotonicMs())
      if (lease !== undefined && lease.holder !== identity) this.#mayHold = false
      if (step.do === 'wait') {
        this.#seen = step.seen
        return { state: 'lost' }
      }
      this.#mayHold = true
      const object = this.#object(lease, identity)
      if (lease === undefined) await this.#leases.create(namespace, object, options)
      else await this.#leases.replace(key, object, options)
      return { state: 'held', since }
    } catch (error) {
      // 409: another candidate was faster.
      if (!ApiError.is(error, 409) && !signal.aborted) onError(error)
      return { state: 'unknown' }
    } finally {
      deadline.end()
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
    const { namespace, name, identity } = this.#options
    const key = objectKey(namespace, name)
    try {
      const lease = parseLease(await this.#leases.get(key, { signal }))
      if (lease?.holder === identity)
        await this.#leases.replace(key, this.#object(lease, ''), { signal })
      this.#mayHold = false
    } catch (error) {
      if (!ApiError.is(error, 409)) throw error
    }
  }

  #object(lease: Lease | undefined, holder: string): object {
    const { namespace, name, leaseMs: durationMs, clock } = this.#options
    return leaseObject(lease, holder, {
      namespace,
      name,
      durationMs,
      now: new Date(clock.wallMs()),
    })
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
  constructor(clock: Clock, since: number, renewDeadlineMs: number, signal: AbortSignal) {
    this.#renewedAt = since
    // Beside the renewals, because a renewal may hang.
    this.#deadline = new Deadline(clock, () => this.#renewedAt + renewDeadlineMs, signal)
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

  update(attempt: Attempt): void {
    if (attempt.state === 'held') this.#renewedAt = attempt.since
    else if (attempt.state === 'lost') this.#deadline.end()
  }
}
