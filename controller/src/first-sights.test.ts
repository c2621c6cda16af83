import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import { FirstSights } from './first-sights.js'

it('a first sight is kept while questions come, and for its time after the last one', async () => {
  const clock = new ManualClock(0)
  const sights = new FirstSights(clock)
  const ask = () => [sights.ageMs('pause', '2 s', 90_000), sights.ageMs('node', 'away')]
  ask()
  await clock.advance(80_000)
  expect(ask()).toEqual([80_000, 80_000])
  await clock.advance(90_000)
  expect(sights.ageMs('node', 'away')).toBe(170_000)
  expect(sights.last('pause')).toBeUndefined()
  expect(sights.ageMs('node', 'there')).toBe(0)
})
