import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { testPod } from '../testing/objects.js'
import { restart, restartsOf } from './restart-backoff.js'

const uids = fc.uuid()

describe('the wait before a restart of a broker', () => {
  it('C6 grows with each restart up to a ceiling, and is the same in each plan', () => {
    fc.assert(
      fc.property(uids, fc.boolean(), (uid, refused) => {
        let restarts = 0
        let before = -1
        for (let time = 0; time < 20; time++) {
          const next = restart({ restarts, refused, ranMs: 0 }, uid)
          expect(restart({ restarts, refused, ranMs: 0 }, uid)).toEqual(next)
          expect(next.restarts).toBe(restarts + 1)
          expect(next.waitMs).toBeGreaterThanOrEqual(before)
          expect(next.waitMs).toBeLessThanOrEqual(7.5 * 60_000)
          if (refused) expect(next.waitMs).toBeGreaterThanOrEqual(2000)
          restarts = next.restarts
          before = next.waitMs
        }
        expect(before).toBeGreaterThanOrEqual(5 * 60_000)
      }),
    )
  })

  it('C6 doubles from two seconds, with half of it at random', () => {
    const waits = [0, 1, 2, 3, 10].map((restarts) =>
      Math.floor(restart({ restarts, refused: false, ranMs: 0 }, 'x').waitMs / 1000),
    )
    const least = [0, 2, 4, 8, 300]
    for (const [index, wait] of waits.entries()) {
      expect(wait).toBeGreaterThanOrEqual(least[index] ?? 0)
      expect(wait).toBeLessThanOrEqual(1.5 * (least[index] ?? 0))
    }
  })

  it('counts restarts by the annotation, whatever its text, up to a bound', () => {
    const withCount = (text: string) => ({
      metadata: { ...testPod('a').metadata, annotations: { 'akri.sh/restarts': text } },
    })
    for (const [text, count] of [
      ['3', 3],
      ['-1', 0],
      ['1.5', 0],
      ['x', 0],
      ['', 0],
      ['1e9', 1000],
      ['Infinity', 0],
    ] as const)
      expect(restartsOf(withCount(text))).toBe(count)
    fc.assert(
      fc.property(fc.string(), uids, (text, uid) => {
        const restarts = restartsOf(withCount(text))
        expect(Number.isFinite(restart({ restarts, refused: true, ranMs: 0 }, uid).waitMs)).toBe(
          true,
        )
      }),
    )
  })
})
