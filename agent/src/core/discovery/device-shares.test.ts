import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type DeviceDemand, deviceShares } from './device-shares.js'

const plenty = { perNode: 1_000_000, slots: 1_000_000 }
const demand = fc
  .record({
    units: fc.nat(50),
    servedUnits: fc.nat(50),
    served: fc.nat(50),
    capacity: fc.integer({ min: 1, max: 9 }),
  })
  .map(({ units, served, capacity, ...each }): DeviceDemand => {
    const servedUnits = Math.min(units, each.servedUnits)
    return { units, servedUnits, served: Math.min(servedUnits, served), capacity }
  })
/** Devices of one unit each. */
const small = (units: number, served: number, capacity = 1): DeviceDemand => {
  return { units, servedUnits: served, served, capacity }
}

const mostOf = (list: readonly DeviceDemand[], bounds: typeof plenty) =>
  new Map([...deviceShares(new Map(list.entries()), bounds)].map(([key, { most }]) => [key, most]))
const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, each) => total + each, 0)

it('shares use the whole bound, and never more than the bound or the demand', () => {
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 20 }), fc.nat(300), (list, most) => {
      const shares = mostOf(list, { ...plenty, perNode: most })
      expect(sum(shares.values())).toBe(Math.min(most, sum(list.map(({ units }) => units))))
      for (const [key, share] of shares) expect(share).toBeLessThanOrEqual(list[key]?.units ?? 0)
    }),
  )
})

it('served devices keep their share as long as it fits, whatever others demand', () => {
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 20 }), fc.nat(300), (list, more) => {
      const perNode = sum(list.map((each) => each.servedUnits)) + more
      for (const [key, share] of mostOf(list, { ...plenty, perNode }))
        expect(share).toBeGreaterThanOrEqual(list[key]?.servedUnits ?? 0)
    }),
  )
})

it('served devices keep a unit each, however much others grow', () => {
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 20 }), fc.nat(300), (list, more) => {
      const served = sum(list.map((each) => each.served))
      const shares = mostOf(list, { ...plenty, perNode: served + more })
      for (const [key, share] of shares) {
        expect(share).toBeGreaterThanOrEqual(list[key]?.served ?? 0)
      }
    }),
  )
})

it('shares keep within the bound of slots, and served devices keep their slots', () => {
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 20 }), fc.nat(300), (list, more) => {
      const capacityOf = (key: number) => list[key]?.capacity ?? 0
      const served = sum(list.map((each) => each.served * each.capacity))
      const shares = mostOf(list, { ...plenty, slots: served + more })
      expect(sum([...shares].map(([key, share]) => share * capacityOf(key)))).toBeLessThanOrEqual(
        served + more,
      )
      for (const [key, share] of shares)
        expect(share).toBeGreaterThanOrEqual(list[key]?.served ?? 0)
    }),
  )
})

it('a Configuration with few new devices gets all of them beside a Configuration with many', () => {
  const shares = mostOf([small(1000, 0), small(1000, 400), small(7, 0)], {
    ...plenty,
    perNode: 1007,
  })
  expect([...shares.values()]).toEqual([500, 500, 7])
})

it('slots that are too few for a device of every Configuration go to the first', () => {
  const huge = small(1, 0, 10_000)
  const share = (served: number) => [
    ...mostOf([huge, small(1, served, 10_000)], { ...plenty, slots: 15_000 }).values(),
  ]
  expect(share(0)).toEqual([1, 0])
  expect(share(1)).toEqual([0, 1])
})

it('shares stay as they are while the devices of the shares become served', () => {
  for (const served of [0, 1, 49, 50]) {
    const shares = mostOf([small(100, served), small(100, 0)], { ...plenty, perNode: 100 })
    expect(shares.get(0)).toBe(50)
  }
})
