import { expect, it } from 'vitest'
import { ManualClock } from '../testing/index.js'
import { RecentUse } from './recent-use.js'

const candidates = ['a', 'b', 'b', 'c'].map((peer, index) => ({ peer, index }))

it('the candidate of the peer with the least use is chosen, the first of equals', async () => {
  const clock = new ManualClock()
  const use = new RecentUse(clock)
  expect(use.least([])).toBeUndefined()
  expect(use.least(candidates)?.index).toBe(0)
  use.charge('a', 2)
  expect(use.least(candidates)?.index).toBe(1)
  use.charge('b', 3)
  use.charge('c', 4)
  expect(use.least(candidates)?.index).toBe(0)
  await clock.advance(10_000)
  use.charge('a', 1)
  expect(use.least(candidates)?.index).toBe(1)
})

it('the use of any number of peers takes a bounded memory', () => {
  const use = new RecentUse(new ManualClock())
  for (let number = 0; number < 20_000; number++) use.charge(`peer ${number}`, 1)
  const remembered = Array.from({ length: 20_000 }, (_, number) => use.of(`peer ${number}`))
  expect(remembered.filter((amount) => amount > 0).length).toBeLessThanOrEqual(4096)
})
