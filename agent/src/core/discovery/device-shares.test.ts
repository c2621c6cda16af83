import fc from 'fast-check'
import { expect, it } from 'vitest'
import { type DeviceDemand, deviceShares } from './device-shares.js'

const demand = fc
  .record({ devices: fc.nat(50), served: fc.nat(50) })
  .map(({ devices, served }): DeviceDemand => ({ devices, served: Math.min(devices, served) }))

const sum = (numbers: Iterable<number>) => [...numbers].reduce((total, each) => total + each, 0)

it('shares use the whole bound, and never more than the bound or the demand', () => {
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 20 }), fc.nat(300), (list, most) => {
      const shares = deviceShares(new Map(list.entries()), most)
      expect(sum(shares.values())).toBe(Math.min(most, sum(list.map(({ devices }) => devices))))
      for (const [key, share] of shares) expect(share).toBeLessThanOrEqual(list[key]?.devices ?? 0)
    }),
  )
})

it('devices that are served keep their share, whatever other Configurations demand', () => {
  fc.assert(
    fc.property(fc.array(demand, { maxLength: 20 }), fc.nat(300), (list, more) => {
      const served = sum(list.map((each) => each.served))
      const shares = deviceShares(new Map(list.entries()), served + more)
      for (const [key, share] of shares) {
        expect(share).toBeGreaterThanOrEqual(list[key]?.served ?? 0)
      }
    }),
  )
})

it('a Configuration with few new devices gets all of them beside a Configuration with many', () => {
  const shares = deviceShares(
    new Map([
      ['flood', { devices: 1000, served: 0 }],
      ['other', { devices: 1000, served: 400 }],
      ['small', { devices: 7, served: 0 }],
    ]),
    1007,
  )
  expect([...shares]).toEqual([
    ['flood', 500],
    ['other', 500],
    ['small', 7],
  ])
})

it('shares stay as they are while the devices of the shares become served', () => {
  const demands = (served: number) =>
    new Map([
      ['a', { devices: 100, served }],
      ['b', { devices: 100, served: 0 }],
    ])
  for (const served of [0, 1, 49, 50]) expect(deviceShares(demands(served), 100).get('a')).toBe(50)
})
