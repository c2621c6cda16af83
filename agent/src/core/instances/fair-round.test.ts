import fc from 'fast-check'
import { expect, it } from 'vitest'
import { FairRound } from './fair-round.js'

const mapOf = (keys: Iterable<string>) => new Map([...keys].map((key) => [key, { key }]))

it('a round ends for all work of its begin, although other work keeps coming', () => {
  const steps = fc.array(fc.uniqueArray(fc.stringMatching(/^[a-z]$/), { maxLength: 26 }), {
    minLength: 40,
  })
  fc.assert(
    fc.property(
      fc.uniqueArray(fc.stringMatching(/^[A-Z]$/), { minLength: 1, maxLength: 26 }),
      steps,
      (steady, floods) => {
        const round = new FairRound<string>()
        round.follow(mapOf(steady))
        const had = new Set<string>()
        for (const flood of floods) {
          // The hostile list puts its devices first.
          const [next] = round.follow(mapOf([...flood, ...steady.filter((key) => !had.has(key))]))
          if (next === undefined) break
          round.had(next.key)
          had.add(next.key)
          if (had.size === steady.length) break
        }
        expect([...had].sort()).toEqual([...steady].sort())
      },
    ),
  )
})

it('work that comes back waits for a turn of all other work', () => {
  const round = new FairRound<string>()
  const turns: (string | undefined)[] = []
  for (let step = 0; step < 7; step++) {
    const [next] = round.follow(mapOf(['a', 'b', 'c']))
    if (next !== undefined) round.had(next.key)
    turns.push(next?.key)
  }
  expect(turns.join('')).toBe('abcabca')
})

it('work that is gone has no turn, and loses its place', () => {
  const round = new FairRound<string>()
  round.follow(mapOf(['a', 'b']))
  expect(round.follow(mapOf(['b']))).toEqual([{ key: 'b' }])
  expect(round.follow(mapOf(['a', 'b']))).toEqual([{ key: 'b' }, { key: 'a' }])
})
