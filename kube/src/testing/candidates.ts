import type { Clock } from '@akrijs/runtime'
import type { ApiClient } from '../api-client.js'
import { LeaderElection } from '../leader-election.js'
import type { TestClock } from './clock.js'
import { LeaseServer } from './lease.js'

export interface Candidate {
  readonly election: LeaderElection
  /** Of the clock, when a turn began or ended. */
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

/** Programs that want one Lease, each of which says when it led. */
export class Candidates {
  readonly all: Candidate[] = []
  readonly server: LeaseServer
  readonly clock: TestClock

  constructor(clock: TestClock) {
    this.clock = clock
    this.server = new LeaseServer(clock)
  }

  /** Begins at once. */
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
    const lead = async (turn: AbortSignal) => {
      const own: Candidate['turns'][number] = { from: clock.monotonicMs() }
      turns.push(own)
      await new Promise((resolve) => turn.addEventListener('abort', resolve, { once: true }))
      const endsIn = options.endsIn?.() ?? 0
      if (endsIn > 0) await clock.sleep(endsIn)
      own.to = clock.monotonicMs()
    }
    const ran = election.run(stop.signal, options.lead ?? lead)
    const one = {
      election,
      turns,
      errors,
      stop() {
        stop.abort()
        return ran
      },
    }
    this.all.push(one)
    return one
  }

  get holder(): string | undefined {
    return this.server.lease?.spec.holderIdentity
  }

  async stop(): Promise<void> {
    const stopped = Promise.all(this.all.map(({ stop }) => stop()))
    // A server that hangs holds up the giving back for its time.
    await this.clock.advance(60_000)
    await stopped
  }
}
