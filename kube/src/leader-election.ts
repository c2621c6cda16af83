import type { ApiClient, ApiClock } from './api-client.js'
import { ApiError } from './errors.js'
import { objectKey } from './names.js'
import { Resource } from './resource.js'

export interface LeaderElectionOptions {
  readonly client: ApiClient
  readonly clock: ApiClock
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

const LEASES = { group: 'coordination.k8s.io', version: 'v1', plural: 'leases' }

interface Lease {
  readonly resourceVersion: string
  readonly holder: string
  readonly durationMs: number
  /** What changes with each renewal. */
  readonly renewal: string
  readonly transitions: number
}

/**
 * Of several candidates lets one lead at a time, by a Lease that it renews. Others judge by their own clocks how long the
 * Lease has not changed, so that clocks need not agree; a leader that cannot renew stops leading before they take over.
 */
export class LeaderElection {
  readonly #options: Required<LeaderElectionOptions>
  readonly #leases: Resource
  /** The renewal seen last, and when it was first seen. */
  #seen: { readonly renewal: string; readonly at: number } | undefined
  #leads = false

  constructor(options: LeaderElectionOptions) {
    this.#options = { leaseMs: 15_000, renewDeadlineMs: 10_000, retryMs: 2000, random: Math.random, ...options }
    this.#leases = new Resource(options.client, LEASES)
  }

  get leads(): boolean {
    return this.#leads
  }

  /**
   * Waits for its turn, leads, and waits again when it has lost the Lease, until the signal is aborted. `lead` is given a
   * signal that ends its turn; the Lease is kept until it has returned, and given back at the end.
   */
  async run(signal: AbortSignal, lead: (turn: AbortSignal) => Promise<void>): Promise<void> {
    const { clock, retryMs, random } = this.#options
    while (!signal.aborted) {
      if (await this.#tryToHold(signal)) await this.#leadUntilLost(signal, lead)
      else await clock.sleep(retryMs * (1 + random() * 0.2), signal).catch(() => undefined)
    }
  }

  async #leadUntilLost(signal: AbortSignal, lead: (turn: AbortSignal) => Promise<void>): Promise<void> {
    const { clock, retryMs, renewDeadlineMs } = this.#options
    const turn = new AbortController()
    const done = new AbortController()
    const onAbort = () => turn.abort()
    signal.addEventListener('abort', onAbort, { once: true })
    if (signal.aborted) onAbort()
    this.#leads = true
    let renewed = clock.now()
    const renewing = (async () => {
      while (!done.signal.aborted) {
        await clock.sleep(retryMs, done.signal).catch(() => undefined)
        if (done.signal.aborted) return
        if (await this.#tryToHold(done.signal)) renewed = clock.now()
        else if (clock.now() - renewed >= renewDeadlineMs) turn.abort()
      }
    })()
    // A request that hangs must not keep us leading.
    const watching = (async () => {
      while (!done.signal.aborted && !turn.signal.aborted) {
        await clock.sleep(Math.max(1, renewed + renewDeadlineMs - clock.now()), done.signal).catch(() => undefined)
        if (clock.now() - renewed >= renewDeadlineMs) turn.abort()
      }
    })()
    try {
      await lead(turn.signal)
    } finally {
      this.#leads = false
      done.abort()
      signal.removeEventListener('abort', onAbort)
      await Promise.all([renewing, watching])
      await this.#giveBack()
    }
  }

  /** One attempt to take the Lease, or to renew it. */
  async #tryToHold(signal: AbortSignal): Promise<boolean> {
    const { namespace, name, identity, onError, renewDeadlineMs } = this.#options
    const patience = AbortSignal.any([signal, AbortSignal.timeout(renewDeadlineMs)])
    try {
      const lease = leaseIn(await this.#leases.get(objectKey(namespace, name), patience))
      if (lease === undefined) {
        await this.#leases.create(namespace, this.#object(undefined, false), { signal: patience })
        return true
      }
      if (lease.holder !== identity && lease.holder !== '' && !this.#isOver(lease)) return false
      await this.#leases.replace(objectKey(namespace, name), this.#object(lease, lease.holder !== identity), {
        signal: patience,
      })
      return true
    } catch (error) {
      // 409: somebody else was faster.
      if (!ApiError.is(error, 409) && !signal.aborted) onError(error)
      return false
    }
  }

  /** Whether a Lease of another one has not been renewed for as long as it is good. */
  #isOver({ renewal, durationMs }: Lease): boolean {
    const { clock } = this.#options
    if (this.#seen?.renewal !== renewal) this.#seen = { renewal, at: clock.now() }
    return clock.now() - this.#seen.at >= durationMs
  }

  async #giveBack(): Promise<void> {
    const { namespace, name, identity, onError } = this.#options
    try {
      const lease = leaseIn(await this.#leases.get(objectKey(namespace, name), AbortSignal.timeout(2000)))
      if (lease?.holder !== identity) return
      const object = this.#object(lease, false)
      await this.#leases.replace(
        objectKey(namespace, name),
        { ...object, spec: { ...object.spec, holderIdentity: '' } },
        { signal: AbortSignal.timeout(2000) },
      )
    } catch (error) {
      // It runs out by itself.
      onError(error)
    }
  }

  #object(lease: Lease | undefined, taken: boolean) {
    const { namespace, name, identity, clock, leaseMs } = this.#options
    const now = `${new Date(clock.now()).toISOString().slice(0, -1)}000Z`
    return {
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name, namespace, ...(lease === undefined ? {} : { resourceVersion: lease.resourceVersion }) },
      spec: {
        holderIdentity: identity,
        leaseDurationSeconds: Math.max(1, Math.round(leaseMs / 1000)),
        renewTime: now,
        ...(taken || lease === undefined ? { acquireTime: now } : {}),
        leaseTransitions: (lease?.transitions ?? 0) + (taken ? 1 : 0),
      },
    }
  }
}

function leaseIn(object: unknown): Lease | undefined {
  if (object === undefined) return undefined
  const { metadata, spec } = object as {
    metadata: { resourceVersion: string }
    spec?: { holderIdentity?: string; leaseDurationSeconds?: number; renewTime?: string; leaseTransitions?: number }
  }
  return {
    resourceVersion: metadata.resourceVersion,
    holder: spec?.holderIdentity ?? '',
    durationMs: (spec?.leaseDurationSeconds ?? 1) * 1000,
    renewal: `${spec?.holderIdentity} ${spec?.renewTime} ${metadata.resourceVersion}`,
    transitions: spec?.leaseTransitions ?? 0,
  }
}
