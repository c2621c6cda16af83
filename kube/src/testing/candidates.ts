import type { Clock } from '@akrijs/runtime'
import type { ApiClient } from '../api-client.js'
import { LeaderElection } from '../leader-election.js'
import type { TestClock } from './clock.js'
import { FakeApiServer } from './fake-api-server.js'

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/n/leases/lease'

interface Lease {
  readonly metadata: object
  readonly spec: { readonly holderIdentity?: string; readonly [more: string]: unknown }
}

export interface Candidate {
  readonly election: LeaderElection
  /** Begin and end of each turn, by the clock. */
  readonly turns: { readonly from: number; to?: number }[]
  readonly errors: unknown[]
  stop(): Promise<void>
}

export interface CandidateOptions {
  readonly client?: ApiClient
  readonly clock?: Clock
  readonly random?: () => number
  /** How long the work goes on after its turn has ended, in milliseconds. */
  readonly endsIn?: () => number
  lead?(turn: AbortSignal): Promise<void>
}

/** Candidates for one Lease, each of which records when it led. */
export class Candidates {
  readonly all: Candidate[] = []
  readonly server: FakeApiServer
  readonly clock: TestClock

  constructor(clock: TestClock) {
    this.clock = clock
    this.server = new FakeApiServer(clock)
  }

  /** Adds a candidate, which begins at once. */
  add(identity: string, options: CandidateOptions = {}): Candidate {
    const { clock } = this
    const stop = new AbortController()
    const turns: Candidate['turns'] = []
    const errors: unknown[] = []
    const election = new LeaderElection({
      client: options.client ?? this.server.client(),
      clock: options.clock ?? clock,
      namespace: 'n',
      name: 'lease',
      identity,
      random: options.random ?? (() => 0),
      onError: (error) => errors.push(error),
    })
    const lead = async (signal: AbortSignal) => {
      const turn: Candidate['turns'][number] = { from: clock.monotonicMs() }
      turns.push(turn)
      await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      const endsIn = options.endsIn?.() ?? 0
      if (endsIn > 0) await clock.sleep(endsIn)
      turn.to = clock.monotonicMs()
    }
    const ran = election.run(stop.signal, options.lead ?? lead)
    const candidate = {
      election,
      turns,
      errors,
      stop() {
        stop.abort()
        return ran
      },
    }
    this.all.push(candidate)
    return candidate
  }

  get lease(): Lease | undefined {
    return this.server.objects.get(LEASE) as Lease | undefined
  }

  /** Writes the Lease as another program does. */
  setLease(spec: Lease['spec'], metadata: object = {}): void {
    this.server.put(LEASE, { metadata, spec })
  }

  get holder(): string | undefined {
    return this.lease?.spec.holderIdentity
  }

  async stop(): Promise<void> {
    const stopped = Promise.all(this.all.map(({ stop }) => stop()))
    // A server that hangs delays the end.
    await this.clock.advance(60_000)
    await stopped
  }
}
