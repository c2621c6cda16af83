import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type DeviceDemand, deviceShares } from './device-shares.js'

const plenty = { perNode: 1_000_000, slots: 1_000_000 }
const demand = fc
  .record({ devices: fc.nat(50), served: fc.nat(50), capacity: fc.integer({ min: 1, max: 9 }) })
  .map((each): DeviceDemand => ({ ...each, served: Math.min(each.devices, each.served) }))

const mostOf = (list: readonly DeviceDemand[], bounds: typeof plenty) =>
  new Map([...deviceShares(new Map(list.entries()), bounds)].map(([key, { most }]) => [key, most]))
const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, each) => total + each, 0)

it('shares use the whole bound, and never more than the bound or the demand', () => {
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 20 }), fc.nat(300), (list, most) => {
      const shares = mostOf(list, { ...plenty, perNode: most })
      expect(sum(shares.values())).toBe(Math.min(most, sum(list.map(({ devices }) => devices))))
      for (const [key, share] of shares) expect(share).toBeLessThanOrEqual(list[key]?.devices ?? 0)
    }),
  )
})

it('devices that are served keep their share, whatever other Configurations demand', () => {
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

it('shares never have more slots than the bound, and devices that are served keep their slots', () => {
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
  const shares = mostOf(
    [
      { devices: 1000, served: 0, capacity: 1 },
      { devices: 1000, served: 400, capacity: 1 },
      { devices: 7, served: 0, capacity: 1 },
    ],
    { ...plenty, perNode: 1007 },
  )
  expect([...shares.values()]).toEqual([500, 500, 7])
})

it('slots that are too few for a device of every Configuration go to the first', () => {
  const huge = { devices: 1, served: 0, capacity: 10_000 }
  const share = (served: number) => [
    ...mostOf([huge, { ...huge, served }], { ...plenty, slots: 15_000 }).values(),
  ]
  expect(share(0)).toEqual([1, 0])
  expect(share(1)).toEqual([0, 1])
})

it('shares stay as they are while the devices of the shares become served', () => {
  for (const served of [0, 1, 49, 50]) {
    const shares = mostOf(
      [
        { devices: 100, served, capacity: 1 },
        { devices: 100, served: 0, capacity: 1 },
      ],
      { ...plenty, perNode: 100 },
    )
    expect(shares.get(0)).toBe(50)
  }
})
