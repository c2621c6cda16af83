import { expect, it } from 'vitest'
import { SourceLimit, type SourceLimitOptions } from './source-limit.js'

/** Takes 1 for each address, one after the other. */
function takerOf(options: Partial<SourceLimitOptions> = {}) {
  const limit = new SourceLimit({ perSource: 2, perSecond: 100, ...options })
  return (now: number, ...addresses: readonly string[]) =>
    addresses.map((address) => limit.take(address, 1, now))
}

it('gives each address the same amount, and the whole amount again in the next round', () => {
  const take = takerOf({ roundMs: 10_000 })
  expect(take(0, 'a', 'a', 'a', 'b')).toEqual([true, true, false, true])
  expect(take(9999, 'a', 'b')).toEqual([false, true])
  expect(take(10_000, 'a')).toEqual([true])
})

it('gives all addresses together a limited amount in a second', () => {
  const take = takerOf({ perSecond: 2, roundMs: 10_000 })
  expect(take(0, 'a', 'b', 'c')).toEqual([true, true, false])
  expect(take(999, 'c')).toEqual([false])
  expect(take(1000, 'c', 'a', 'b')).toEqual([true, true, false])
})

it('gives the whole amount or nothing', () => {
  const limit = new SourceLimit({ perSource: 2, perSecond: 3 })
  expect([3, 2].map((amount) => limit.take('a', amount, 0))).toEqual([false, true])
  expect([2, 1].map((amount) => limit.take('b', amount, 0))).toEqual([false, true])
})

it('gives a reserved amount while others take all, and takes it from no other address', () => {
  const take = takerOf({ perSecond: 1, reservedFor: (address) => (address === 'a' ? 3 : 0) })
  for (const now of [0, 1000]) {
    expect(take(now, 'b', 'c')).toEqual([true, false])
    expect(take(now, 'a', 'a', 'a', 'a')).toEqual([true, true, true, false])
  }
  expect(take(2000, 'a', 'b')).toEqual([true, true])
})

it('bounds a flood from 100,000 addresses, and takes others after it', () => {
  const take = takerOf({ perSecond: 500 })
  const flood = Array.from(
    { length: 100_000 },
    (_, n) => `10.${n >> 16}.${(n >> 8) & 255}.${n & 255}`,
  )
  expect(take(0, ...flood).filter(Boolean)).toHaveLength(500)
  expect(take(1000, '192.0.2.1')).toEqual([true])
})
