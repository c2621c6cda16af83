import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { testPod } from '../testing/objects.js'
import { restart, restartsOf } from './broker-state.js'

const uids = fc.uuid()

describe('the wait before a restart of a broker', () => {
  it('C6 doubles from two seconds to five minutes, with half of it by the uid', () => {
    fc.assert(
      fc.property(uids, (uid) => {
        const wait = (restarts: number, refused = false) =>
          restart({ restarts, refused, ranMs: 0 }, uid).waitMs / 1000
        for (const [restarts, least] of [0, 2, 4, 8, 16, 32, 64, 128, 256, 300, 300].entries()) {
          expect(wait(restarts)).toBeGreaterThanOrEqual(least)
          expect(wait(restarts)).toBeLessThanOrEqual(1.5 * least)
          expect(wait(restarts)).toBe(wait(restarts))
        }
        expect(wait(0, true)).toBeGreaterThanOrEqual(2)
        expect(restart({ restarts: 3, refused: false, ranMs: 0 }, uid).restarts).toBe(4)
      }),
    )
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
