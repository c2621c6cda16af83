import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import { NodeCount } from './node-count.js'

it('the known nodes are the most that one object shows, fewer after the next count', async () => {
  const clock = new ManualClock(0)
  let shown: number[] = []
  const count = new NodeCount(clock, () => shown)
  expect(count.most).toBe(1)
  for (const nodes of [30, 20, 40]) count.seen(nodes)
  expect(count.most).toBe(40)
  shown = [30, 20]
  await clock.advance(59_999)
  expect(count.most).toBe(40)
  await clock.advance(1)
  expect(count.most).toBe(30)
  shown = []
  await clock.advance(60_000)
  expect(count.most).toBe(1)
})
