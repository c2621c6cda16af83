import { expect, it } from 'vitest'
import { checkInTurns } from './device-list.js'
import { deviceMap } from './device-map.js'
import { InvalidDeviceListError } from './errors.js'
import { fitIntoList } from './fit-into-list.js'
import type { Device } from './handler/device.js'

const named = (count: number, properties: Device['properties'] = {}) =>
  Array.from({ length: count }, (_, n): Device => ({ id: `device-${n}`, properties }))

it('keeps the devices that fit into a list, each id once and in order', () => {
  const devices = named(1000)
  expect(fitIntoList([...devices, { id: 'device-0' }])).toEqual({ devices, leftOut: 0 })
  expect(fitIntoList([])).toEqual({ devices: [], leftOut: 0 })
})

it.each<[string, Device['properties']]>([
  ['long values', { A: 'x'.repeat(10_000) }],
  ['many short ones', Object.fromEntries(Array.from({ length: 500 }, (_, n) => [`P${n}`, 'x']))],
  ['other characters', { A: 'ä€😀'.repeat(1000) }],
])(
  'leaves out the devices that do not fit, and the rest is a valid list: %s',
  async (_, properties) => {
    const all = named(2000, properties)
    const { devices, leftOut } = fitIntoList(all)
    expect(leftOut).toBeGreaterThan(0)
    expect(devices).toEqual(all.slice(0, all.length - leftOut))
    expect(await checkInTurns(devices)).toHaveLength(devices.length)
    await expect(checkInTurns(all)).rejects.toThrow(/bytes, more than/)
  },
)

it('refuses a value that JSON cannot have, with the device and the field', () => {
  const device = { id: 'cam', properties: { COUNT: 5n } }
  // @ts-expect-error a property is a text
  const fit = () => fitIntoList([device])
  expect(fit).toThrow(InvalidDeviceListError)
  expect(fit).toThrow(/^device "cam": "COUNT" has a value that no list can have: .*BigInt/)
  // @ts-expect-error a device is an object
  expect(() => deviceMap().set(undefined)).toThrow('a device is undefined; it must be an object')
})
