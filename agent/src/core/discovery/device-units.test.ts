import { expect, it } from 'vitest'
import { deviceUnits, UNIT_BYTES } from './device-units.js'

it('a device with fifteen usual properties and a device node counts as one device', () => {
  const properties = Object.fromEntries(
    Array.from({ length: 15 }, (_, index) => [`UDEV_PROPERTY_${index}`, 'x'.repeat(80)]),
  )
  const spec = { hostPath: '/dev/video0', containerPath: '/dev/video0', permissions: 'rwm' }
  expect(deviceUnits({ id: 'x'.repeat(200), properties, deviceSpecs: [spec] })).toBe(1)
})

it('a device counts by its text and by its entries', () => {
  expect(deviceUnits({ id: 'a', properties: { A: 'x'.repeat(10 * UNIT_BYTES) } })).toBe(11)
  const names = Array.from({ length: 1000 }, (_, index) => [index.toString(36), ''])
  expect(deviceUnits({ id: 'a', properties: Object.fromEntries(names) })).toBeGreaterThan(20)
})

it('a device counts with what its handler may not give to containers', () => {
  const reported = { id: 'a', properties: { LD_PRELOAD: 'x'.repeat(UNIT_BYTES) } }
  expect(deviceUnits({ id: 'a', properties: {}, reported })).toBe(2)
})
