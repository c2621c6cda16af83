import { expect, it } from 'vitest'
import { modbusDetails } from './details.js'

const ids = (count: number) => Array.from({ length: count }, (_, index) => index + 1)

it('takes lists and ranges of addresses and ids, each once', () => {
  const addresses = ['10.0.0.254 - 10.0.1.1', '10.0.1.0', '2001:DB8::0:7']
  expect(modbusDetails.parse({ addresses, units: ['1-3', 255, 2] })).toMatchObject({
    addresses: ['10.0.0.254', '10.0.0.255', '10.0.1.0', '10.0.1.1', '2001:db8::7'],
    units: [1, 2, 3, 255],
  })
})

it('asks unit 1 at port 502 by default', () => {
  expect(modbusDetails.parse({ addresses: ['10.0.0.1'], vendorNames: {} })).toEqual({
    addresses: ['10.0.0.1'],
    port: 502,
    units: [1],
    pauseMs: 100,
    vendorNames: undefined,
    productCodes: undefined,
  })
})

it('takes 256 units', () => {
  const details = { addresses: ['10.0.0.0-10.0.0.7'], units: ['1-32'] }
  expect(modbusDetails.safeParse(details).success).toBe(true)
})

it.each<[string, object, string]>([
  ['no addresses', {}, 'addresses'],
  ['an empty list', { addresses: [] }, 'addresses'],
  ['a host name', { addresses: ['plc.local'] }, 'addresses.0'],
  ['a network', { addresses: ['10.0.0.0/24'] }, 'addresses.0'],
  ['an address of one machine', { addresses: ['fe80::1%eth0'] }, 'addresses.0'],
  ['a range that ends before it begins', { addresses: ['10.0.0.9-10.0.0.1'] }, 'addresses.0'],
  ['a range of three', { addresses: ['10.0.0.1-10.0.0.2-10.0.0.3'] }, 'addresses.0'],
  ['257 addresses in a range', { addresses: ['10.0.0.0-10.0.1.0'] }, 'addresses.0'],
  ['257 addresses', { addresses: ['10.0.0.0-10.0.0.255', '10.0.1.0'] }, 'addresses'],
  ['257 units', { addresses: ['10.0.0.1-10.0.0.129'], units: [1, 2] }, 'addresses'],
  ['an id of 256', { addresses: ['10.0.0.1'], units: [256] }, 'units.0'],
  ['a range of ids beyond 255', { addresses: ['10.0.0.1'], units: ['250-256'] }, 'units.0'],
  ['a range of ids that is none', { addresses: ['10.0.0.1'], units: ['9-1'] }, 'units.0'],
  ['33 ids', { addresses: ['10.0.0.1'], units: ids(33) }, 'units'],
  ['33 ids in ranges', { addresses: ['10.0.0.1'], units: ['1-32', 40] }, 'units'],
  ['port 0', { addresses: ['10.0.0.1'], port: 0 }, 'port'],
  ['no pause', { addresses: ['10.0.0.1'], pauseMs: 0 }, 'pauseMs'],
  ['an unknown field', { addresses: ['10.0.0.1'], ports: [502] }, ''],
])('details with %s are refused, at their path', (_, details, path) => {
  const { error } = modbusDetails.safeParse(details)
  expect(error?.issues.map((issue) => issue.path.join('.'))).toEqual([path])
})
