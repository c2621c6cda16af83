import type { Clock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Candidates } from './testing/candidates.js'
import type { Fate } from './testing/fake-api-server.js'

describe('candidates on a bad network', () => {
  const world = fc.record({
    seed: fc.integer(),
    count: fc.integer({ min: 2, max: 3 }),
    failing: fc.double({ min: 0, max: 0.7, noNaN: true }),
    maxDelayMs: fc.constantFrom(0, 100, 3000, 8000),
    setsClock: fc.boolean(),
  })

  it('never lead at the same time, and one of them leads once the network is back', async () => {
    await fc.assert(
      fc.asyncProperty(world, async ({ seed, count, failing, maxDelayMs, setsClock }) => {
        const clock = new ManualClock(1_000_000)
        const candidates = new Candidates(clock)
        const random = randomOf(seed)
        let well = false
        const delay = () => (random() < 0.5 ? 0 : Math.floor(random() * maxDelayMs))
        const fate = (): Fate => {
          if (well) return {}
          if (random() >= failing) return { arrivesIn: delay(), answeredIn: delay() }
          const never = Number.POSITIVE_INFINITY
          return [
            { arrivesIn: never },
            { arrivesIn: delay(), answeredIn: never },
            { arrivesIn: delay(), refused: true },
            // Long after the candidate has stopped waiting.
            { arrivesIn: 5000 + Math.floor(random() * 30_000) },
          ][Math.floor(random() * 4)] as Fate
        }
        const offsets = Array.from({ length: count }, () => Math.floor((random() - 0.5) * 1e9))
        for (let i = 0; i < count; i++) {
          const candidateClock: Clock = {
            monotonicMs: () => clock.monotonicMs(),
            wallMs: () => clock.wallMs() + (offsets[i] ?? 0),
            sleep: (ms, signal) => clock.sleep(ms, signal),
          }
          // A candidate whose clock is set during a request may be late by the time of the request.
          const endsIn = () => (setsClock ? 0 : Math.floor(random() * 4999))
          candidates.add(`candidate-${i}`, {
            client: candidates.server.client(fate),
            clock: candidateClock,
            random,
            endsIn,
          })
        }
        for (let step = 0; step < 60; step++) {
          if (setsClock && random() < 0.3)
            offsets[Math.floor(random() * count)] = Math.floor((random() - 0.5) * 100_000)
          await clock.advance(5000)
        }
        well = true
        await clock.advance(60_000)
        expect(candidates.all.filter(({ election }) => election.leads)).toHaveLength(1)
        await candidates.stop()

        const turns = candidates.all
          .flatMap(({ turns }) => turns)
          .toSorted((a, b) => a.from - b.from)
        for (const [i, { from }] of turns.entries())
          if (i > 0) expect(turns[i - 1]?.to ?? Number.POSITIVE_INFINITY).toBeLessThanOrEqual(from)
      }),
      { numRuns: 15 },
    )
  })
})

/** Mulberry32: the same numbers for the same seed. */
function randomOf(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
