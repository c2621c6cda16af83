import { setImmediate } from 'node:timers/promises'
import type { Clock } from '@akrijs/runtime'

/** The right to work on a request. */
export interface Turn {
  /** The processor is free: from now on the work only waits for other programs. */
  waits(): void
  end(): void
}

interface Candidate {
  readonly peer: string
  readonly start: () => void
}

/** The use of the processor counts for this time, in milliseconds. */
const WINDOW_MS = 10_000
/** The most requests that wait for other programs: each holds a whole review in memory. */
const MAX_OPEN = 16

/**
 * Decides which request is worked on next: the one of the peer that has used the processor least.
 * One request at a time uses the processor. So a peer with many large requests does not delay
 * another peer's by more than one request.
 */
export class FairTurns {
  readonly #clock: Pick<Clock, 'monotonicMs'>
  readonly #candidates: Candidate[] = []
  readonly #usedMs = new Map<string, number>()
  #windowBegan = 0
  #isBusy = false
  #open = 0
  #isChoosing = false

  constructor(clock: Pick<Clock, 'monotonicMs'>) {
    this.#clock = clock
  }

  /** Waits for a turn. The caller must end it. */
  async take(peer: string): Promise<Turn> {
    await new Promise<void>((start) => {
      this.#candidates.push({ peer, start })
      void this.#choose()
    })
    const begun = performance.now()
    let isWorking = true
    let isOpen = true
    const waits = () => {
      if (!isWorking) return
      isWorking = false
      this.#isBusy = false
      this.#charge(peer, performance.now() - begun)
      void this.#choose()
    }
    const end = () => {
      waits()
      if (!isOpen) return
      isOpen = false
      this.#open--
      void this.#choose()
    }
    return { waits, end }
  }

  #charge(peer: string, ms: number): void {
    const now = this.#clock.monotonicMs()
    if (now - this.#windowBegan >= WINDOW_MS) {
      this.#usedMs.clear()
      this.#windowBegan = now
    }
    this.#usedMs.set(peer, (this.#usedMs.get(peer) ?? 0) + ms)
  }

  async #choose(): Promise<void> {
    if (this.#isChoosing) return
    this.#isChoosing = true
    // Requests of other peers may have arrived meanwhile, and probes wait for an answer.
    await setImmediate()
    this.#isChoosing = false
    if (this.#isBusy || this.#open >= MAX_OPEN) return
    const used = ({ peer }: Candidate) => this.#usedMs.get(peer) ?? 0
    const [next] = [...this.#candidates].sort((a, b) => used(a) - used(b))
    if (next === undefined) return
    this.#candidates.splice(this.#candidates.indexOf(next), 1)
    this.#isBusy = true
    this.#open++
    next.start()
  }
}
