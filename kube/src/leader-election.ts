import { type Clock, isRecord } from '@akrijs/runtime'
import type { ApiClient } from './api-client.js'
import { ApiError, ApiUnreachableError } from './errors.js'
import { LEASES } from './kinds.js'
import { objectKey } from './objects.js'
import { Resource } from './resource.js'

export interface LeaderElectionOptions {
  readonly client: ApiClient
  readonly clock: Clock
  /** Of the Lease. */
  readonly namespace: string
  readonly name: string
  /** Tells the candidates apart; a Pod's name does. */
  readonly identity: string
  /** How long others wait for a leader that is not heard of, in milliseconds. @default 15000 */
  readonly leaseMs?: number
  /** When a leader that could not renew gives up, in milliseconds; less than `leaseMs`. @default 10000 */
  readonly renewDeadlineMs?: number
  /** How often is tried, in milliseconds. @default 2000 */
  readonly retryMs?: number
  /** Of [0, 1). @default Math.random */
  readonly random?: () => number
  onError(error: unknown): void
}

/** The longest that a Lease of another one is waited for, in milliseconds: more than a timer can do. */
const MAX_LEASE_MS = 2 ** 31 - 1
/** How long giving the Lease back may take, in milliseconds. */
const GIVE_BACK_MS = 2000
const GIVE_BACK_ATTEMPTS = 3

interface Lease {
  /** As the server gave it: labels and owners of the Lease are kept. */
  readonly metadata: object
  readonly holder: string
  readonly durationMs: number
  readonly acquired: string | undefined
  /** What changes with each renewal. */
  readonly renewal: string
  readonly transitions: number
}

/** `lost`: another one holds the Lease. `unknown`: there was no answer, or somebody wrote in the same moment. */
type Hold =
  | { readonly state: 'held'; readonly since: number }
  | { readonly state: 'lost' | 'unknown' }

/**
 * Of several candidates lets one lead at a time, by a Lease that it renews. Others judge by their own clocks how long the
 * Lease has not changed, so that clocks need not agree; a leader that cannot renew stops leading before they take over.
 * That holds as long as `lead` ends within `leaseMs - renewDeadlineMs` of its signal.
 */
export class LeaderElection {
  readonly #options: Required<LeaderElectionOptions>
  readonly #leases: Resource
  /** The renewal of another one that was seen last, and whether it was seen for as long as it is good. */
  #seen: { readonly renewal: string; readonly patience: Patience } | undefined
  /** Whether the Lease may be ours: also where the answer was lost. */
  #mayHold = false
  #leads = false

  constructor(options: LeaderElectionOptions) {
    this.#options = {
      leaseMs: 15_000,
      renewDeadlineMs: 10_000,
      retryMs: 2000,
      random: Math.random,
      ...options,
    }
    this.#leases = new Resource(options.client, LEASES)
  }

  /** Whether it is our turn. */
  get leads(): boolean {
    return this.#leads
  }

  /**
   * Waits for its turn, leads, and waits again when it has lost the Lease, until the signal is aborted. `lead` is given a
   * signal that ends its turn; the Lease is kept until it has returned, and given back at the end.
   */
  async run(signal: AbortSignal, lead: (turn: AbortSignal) => Promise<void>): Promise<void> {
    const { clock, retryMs, random } = this.#options
    try {
      while (!signal.aborted) {
        const hold = await this.#tryToHold(signal)
        if (hold.state === 'held' && !signal.aborted && !this.#isTooLate(hold.since))
          await this.#leadUntilLost(signal, hold.since, lead)
        await clock.sleep(retryMs * (1 + random() * 0.2), signal).catch(() => undefined)
      }
    } finally {
      this.#seen?.patience.end()
      this.#seen = undefined
      await this.#giveBack()
    }
  }

  async #leadUntilLost(
    signal: AbortSignal,
    since: number,
    lead: (turn: AbortSignal) => Promise<void>,
  ): Promise<void> {
    const { clock, retryMs, renewDeadlineMs } = this.#options
    const turn = new AbortController()
    const done = new AbortController()
    const endTurn = () => {
      this.#leads = false
      turn.abort()
    }
    signal.addEventListener('abort', endTurn, { once: true })
    this.#leads = true
    let renewed = since
    let patience: Patience | undefined
    const renewing = (async () => {
      while (!done.signal.aborted) {
        await clock.sleep(retryMs, done.signal).catch(() => undefined)
        if (done.signal.aborted) return
        // The machine may have slept.
        if (this.#isTooLate(renewed)) endTurn()
        const hold = await this.#tryToHold(done.signal)
        if (hold.state === 'lost') endTurn()
        if (hold.state !== 'held') continue
        renewed = hold.since
        patience?.end()
      }
    })()
    // Beside the renewing, which may hang; and by a timer, because the time of day may be set back.
    const watching = (async () => {
      while (!done.signal.aborted && !turn.signal.aborted) {
        const left = Math.min(
          renewDeadlineMs,
          Math.max(0, renewed + renewDeadlineMs - clock.monotonicMs()),
        )
        patience = new Patience(clock, left, done.signal)
        if (await patience.isOver) endTurn()
      }
    })()
    try {
      await lead(turn.signal)
    } finally {
      this.#leads = false
      done.abort()
      signal.removeEventListener('abort', endTurn)
      await Promise.all([renewing, watching])
      await this.#giveBack()
    }
  }

  /** Others may take over soon. */
  #isTooLate(renewed: number): boolean {
    const { clock, renewDeadlineMs } = this.#options
    return clock.monotonicMs() - renewed >= renewDeadlineMs
  }

  /** One attempt to take the Lease, or to renew it. One that hangs leaves the time for another. */
  async #tryToHold(signal: AbortSignal): Promise<Hold> {
    const { namespace, name, identity, onError, renewDeadlineMs } = this.#options
    const patience = new Patience(this.#options.clock, renewDeadlineMs / 2, signal)
    // Others count from when they see the renewal, which is never before it was sent.
    const since = this.#options.clock.monotonicMs()
    try {
      const lease = leaseIn(
        await this.#leases.get(objectKey(namespace, name), { signal: patience.signal }),
      )
      if (lease !== undefined && lease.holder !== identity) {
        this.#mayHold = false
        if (lease.holder !== '' && !this.#hasRunOut(lease)) return { state: 'lost' }
      }
      this.#mayHold = true
      const object = this.#object(lease, identity)
      if (lease === undefined)
        await this.#leases.create(namespace, object, { signal: patience.signal })
      else
        await this.#leases.replace(objectKey(namespace, name), object, { signal: patience.signal })
      return { state: 'held', since }
    } catch (error) {
      // 409: somebody else was faster.
      if (!ApiError.is(error, 409) && !signal.aborted) onError(error)
      return { state: 'unknown' }
    } finally {
      patience.end()
    }
  }

  /** Whether a Lease of another one has not been renewed for as long as it is good, by a timer: the time of day may be set. */
  #hasRunOut({ renewal, durationMs }: Lease): boolean {
    if (this.#seen?.renewal !== renewal) {
      this.#seen?.patience.end()
      this.#seen = {
        renewal,
        patience: new Patience(this.#options.clock, Math.min(durationMs, MAX_LEASE_MS)),
      }
    }
    return this.#seen.patience.signal.aborted
  }

  async #giveBack(): Promise<void> {
    if (!this.#mayHold) return
    const { onError, clock } = this.#options
    const patience = new Patience(clock, GIVE_BACK_MS)
    try {
      // A renewal of ours that was under way may arrive between reading and writing.
      for (let attempt = 0; this.#mayHold && attempt < GIVE_BACK_ATTEMPTS; attempt++)
        await this.#release(patience.signal)
    } catch (error) {
      // It runs out by itself.
      onError(error)
    } finally {
      patience.end()
    }
  }

  async #release(signal: AbortSignal): Promise<void> {
    const { namespace, name, identity } = this.#options
    try {
      const lease = leaseIn(await this.#leases.get(objectKey(namespace, name), { signal }))
      if (lease?.holder === identity)
        await this.#leases.replace(objectKey(namespace, name), this.#object(lease, ''), { signal })
      this.#mayHold = false
    } catch (error) {
      if (!ApiError.is(error, 409)) throw error
    }
  }

  #object(lease: Lease | undefined, holderIdentity: string) {
    const { namespace, name, clock, leaseMs } = this.#options
    const now = `${new Date(clock.wallMs()).toISOString().slice(0, -1)}000Z`
    const taken = holderIdentity !== '' && lease?.holder !== holderIdentity
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      // With its version: who writes between our reading and our writing wins.
      metadata: lease?.metadata ?? { name, namespace },
      spec: {
        holderIdentity,
        leaseDurationSeconds: Math.max(1, Math.ceil(leaseMs / 1000)),
        renewTime: now,
        acquireTime: taken ? now : lease?.acquired,
        leaseTransitions: (lease?.transitions ?? 0) + (taken && lease !== undefined ? 1 : 0),
      },
    }
  }
}

/** A signal that ends with another one, or after a time. */
class Patience {
  /** Once it has ended: whether that was because of the time. */
  readonly isOver: Promise<boolean>
  readonly #abort = new AbortController()
  readonly #outer: AbortSignal | undefined
  readonly #onAbort = () => this.#abort.abort()

  constructor(clock: Clock, ms: number, outer?: AbortSignal) {
    this.#outer = outer
    if (outer?.aborted) this.#abort.abort()
    outer?.addEventListener('abort', this.#onAbort, { once: true })
    this.isOver = clock.sleep(ms, this.#abort.signal).then(
      () => {
        this.end()
        return true
      },
      () => false,
    )
  }

  get signal(): AbortSignal {
    return this.#abort.signal
  }

  end(): void {
    this.#outer?.removeEventListener('abort', this.#onAbort)
    this.#abort.abort()
  }
}

/** @throws ApiUnreachableError where it is no Lease: something else answered */
function leaseIn(object: unknown): Lease | undefined {
  if (object === undefined) return undefined
  const { metadata, spec = {} } = isRecord(object) ? object : {}
  if (!isRecord(metadata) || !isRecord(spec) || typeof metadata.resourceVersion !== 'string')
    throw new ApiUnreachableError('the answer is no Lease')
  const { holderIdentity, leaseDurationSeconds, renewTime, acquireTime, leaseTransitions } = spec
  return {
    metadata,
    holder: typeof holderIdentity === 'string' ? holderIdentity : '',
    durationMs: (typeof leaseDurationSeconds === 'number' ? leaseDurationSeconds : 1) * 1000,
    acquired: typeof acquireTime === 'string' ? acquireTime : undefined,
    renewal: `${holderIdentity} ${renewTime} ${metadata.resourceVersion}`,
    transitions: typeof leaseTransitions === 'number' ? leaseTransitions : 0,
  }
}
