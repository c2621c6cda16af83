import { expect, it } from 'vitest'
import { inTurns } from './in-turns.js'

it('takes from each list in turn, in the order of the lists', () => {
  expect(inTurns([['a1', 'a2', 'a3'], [], ['b1'], ['c1', 'c2']])).toEqual([
    'a1',
    'b1',
    'c1',
    'a2',
    'c2',
    'a3',
  ])
  expect(inTurns([])).toEqual([])
})
