import { expect, it } from 'vitest'
import { interleaved } from './interleaved.js'

it('takes from each list in turn, in the order of the lists', () => {
  expect(interleaved([['a1', 'a2', 'a3'], [], ['b1'], ['c1', 'c2']])).toEqual([
    'a1',
    'b1',
    'c1',
    'a2',
    'c2',
    'a3',
  ])
  expect(interleaved([])).toEqual([])
})
