import { objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { expect, it } from 'vitest'
import { RememberedOffer } from './saved-state.js'

const [a, b, other] = [objectKey('n', 'a'), objectKey('n', 'b'), objectKey('n', 'other')]

it('R104 the offer of the checkpoint is made when all was tried, or after a second', async () => {
  const clock = new ManualClock()
  const stop = new AbortController()
  const offerOf = (...configurations: (typeof a)[]) => {
    const offer = new RememberedOffer(configurations, clock, stop.signal)
    const isMade = () => Promise.race([offer.made.then(() => true), clock.advance(0)])
    return { offer, isMade }
  }
  expect(await offerOf().isMade()).toBe(true)
  const { offer, isMade } = offerOf(a, b)
  for (const each of [b, other, b]) offer.tried(each)
  expect(await isMade()).toBeUndefined()
  offer.tried(a)
  expect(await isMade()).toBe(true)
  const late = offerOf(a)
  await clock.advance(999)
  expect(await late.isMade()).toBeUndefined()
  await clock.advance(1)
  expect(await late.isMade()).toBe(true)
  const ended = offerOf(a)
  stop.abort()
  expect(await ended.isMade()).toBe(true)
})
