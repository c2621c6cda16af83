import { setImmediate } from 'node:timers/promises'
import type { Clock } from '@akrijs/runtime'
import { RecentUse } from '@akrijs/runtime/server'

/** The right to work on a request. */
export interface Turn {
  /** The processor is free: from now on the work only waits for other programs. */
  waits(): void
  end(): void
}

interface Candidate {
  readonly peer: string
  /** Unique over all peers. */
  readonly group: string
  readonly start: () => void
}

/** The most requests that wait for other programs: each holds a whole review in memory. */
const MAX_OPEN = 16

/**
 * Decides which request is worked on next: the one of the peer that has used the processor least.
 * One request at a time uses the processor. So a peer with many large requests does not delay
 * another peer's by more than one request. The same holds for the groups of a peer: the requests of
 * all people come from few API servers.
 *
 * A peer has at most as many open turns as are free. So there is room for the first requests of
 * other peers while a few peers wait for other programs.
 */
export class FairTurns {
  readonly #used: RecentUse
  readonly #usedByGroup: RecentUse
  readonly #candidates = new Set<Candidate>()
  readonly #open = new Map<string, number>()
  #openCount = 0
  #isBusy = false
  #isChoosing = false

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#used = new RecentUse(clock)
    this.#usedByGroup = new RecentUse(clock)
  }

  /**
   * Waits for a turn. The caller must end it.
   * @param of the group of the request, such as a namespace
   * @throws the reason of the signal
   */
  async take(peer: string, signal: AbortSignal, of = ''): Promise<Turn> {
    signal.throwIfAborted()
    const group = `${peer} ${of}`
    await new Promise<void>((resolve, reject) => {
      const onAbort = () => {
        this.#candidates.delete(candidate)
        reject(signal.reason)
      }
      const start = () => {
        signal.removeEventListener('abort', onAbort)
        resolve()
      }
      const candidate = { peer, group, start }
      signal.addEventListener('abort', onAbort, { once: true })
      this.#candidates.add(candidate)
      void this.#choose()
    })
    const begun = performance.now()
    let isWorking = true
    let isOpen = true
    const waits = () => {
      if (!isWorking) return
      isWorking = false
      this.#isBusy = false
      const used = performance.now() - begun
      this.#used.charge(peer, used)
      this.#usedByGroup.charge(group, used)
      void this.#choose()
    }
    const end = () => {
      waits()
      if (!isOpen) return
      isOpen = false
      this.#count(peer, -1)
      void this.#choose()
    }
    return { waits, end }
  }

  #openOf(peer: string): number {
    return this.#open.get(peer) ?? 0
  }

  #count(peer: string, change: 1 | -1): void {
    this.#openCount += change
    const open = this.#openOf(peer) + change
    if (open === 0) this.#open.delete(peer)
    else this.#open.set(peer, open)
  }

  async #choose(): Promise<void> {
    if (this.#isChoosing) return
    this.#isChoosing = true
    // Requests of other peers may have arrived meanwhile, and probes wait for an answer.
    await setImmediate()
    this.#isChoosing = false
    if (this.#isBusy) return
    const free = MAX_OPEN - this.#openCount
    const next = this.#next([...this.#candidates].filter(({ peer }) => this.#openOf(peer) < free))
    if (next === undefined) return
    this.#candidates.delete(next)
    this.#isBusy = true
    this.#count(next.peer, 1)
    next.start()
  }

  /** The first candidate of the group that has used least, of the peer that has used least. */
  #next(candidates: readonly Candidate[]): Candidate | undefined {
    const peer = this.#used.least(candidates)?.peer
    return candidates
      .filter((candidate) => candidate.peer === peer)
      .reduce<Candidate | undefined>(
        (least, each) =>
          least === undefined || this.#uses(each) < this.#uses(least) ? each : least,
        undefined,
      )
  }

  #uses({ group }: Candidate): number {
    return this.#usedByGroup.of(group)
  }
}
