import type { Service } from '@akrijs/dns-sd'
import { describe, expect, it } from 'vitest'
import { serviceDevices } from './service-device.js'
import { service } from './testing/service.js'

const txt = (record: Readonly<Record<string, string>>) => new Map(Object.entries(record))
const NO_FILTERS = { names: undefined, txt: [] }
const devicesOf = (...services: Service[]) =>
  serviceDevices({ services, incomplete: [] }, NO_FILTERS)
const color = (items: string[], action?: 'Include' | 'Exclude') => ({
  ...NO_FILTERS,
  txt: [{ key: 'color', values: { items, action } }],
})

describe('a service', () => {
  it('is a device with its host, port, addresses and TXT record', () => {
    const addresses = ['2001:db8::7', 'fe80::7%eth0', '192.0.2.7']
    expect(
      devicesOf(service({ addresses, txt: txt({ ty: 'Laser 9', 'a.b': '', rp: 'ipp' }) })),
    ).toEqual({
      devices: [
        {
          id: 'Hall 1._ipp._tcp',
          properties: {
            MDNS_SERVICE_NAME: 'Hall 1',
            MDNS_SERVICE_TYPE: '_ipp._tcp',
            MDNS_HOST: 'printer.local',
            MDNS_PORT: '631',
            MDNS_ADDRESS: '192.0.2.7',
            MDNS_ADDRESSES: '192.0.2.7,2001:db8::7',
            MDNS_TXT_TY: 'Laser 9',
            MDNS_TXT_A_B: '',
            MDNS_TXT_RP: 'ipp',
          },
        },
      ],
      leftOut: [],
    })
  })

  it('has 64 pairs of its TXT record, and one of two keys that give one property', () => {
    const many = Object.fromEntries(Array.from({ length: 70 }, (_, n) => [`k${n + 10}`, '']))
    const [device] = devicesOf(service({ txt: txt({ 'a-b': '1', a_b: '2', ...many }) })).devices
    const names = Object.keys(device?.properties ?? {}).filter((name) => /_TXT_/.test(name))
    expect(names).toHaveLength(63)
    expect(device?.properties).toMatchObject({ MDNS_TXT_A_B: '1' })
  })

  it('has no address that works on one machine only', () => {
    const [device] = devicesOf(service({ addresses: ['fe80::7%eth0'] })).devices
    expect(device?.properties).toMatchObject({ MDNS_ADDRESSES: '' })
    expect(device?.properties?.MDNS_ADDRESS).toBeUndefined()
  })

  it('that is heard on two interfaces of one network is one device', () => {
    const addresses = ['192.0.2.7', '2001:db8::7']
    const { devices, leftOut } = devicesOf(service(), service({ interface: 'eth1', addresses }))
    expect(devices).toMatchObject([{ properties: { MDNS_ADDRESSES: '192.0.2.7,2001:db8::7' } }])
    expect(leftOut).toEqual([])
  })

  it.each<[string, Partial<Service>]>([
    ['another host', { host: 'other.local' }],
    ['a host of the same name', { addresses: ['198.51.100.7'] }],
  ])('is left out if %s announces its name on another network', (_, other) => {
    const { devices, leftOut } = devicesOf(service(), service({ interface: 'eth1', ...other }))
    expect(devices).toMatchObject([
      { properties: { MDNS_HOST: 'printer.local', MDNS_ADDRESSES: '192.0.2.7' } },
    ])
    const { host = 'printer.local' } = other
    expect(leftOut).toEqual([
      {
        id: 'Hall 1._ipp._tcp',
        reason: 'same name on another network',
        detail: `${host}:631 on eth1, and printer.local:631 on eth0`,
      },
    ])
  })

  it.each([
    [{}, { ...NO_FILTERS, names: { items: ['Hall 2'] } }, 'filtered by names', undefined],
    [{ txt: txt({ color: 'F' }) }, color(['T']), 'filtered by txt', 'color=F'],
    [{}, color(['T']), 'filtered by txt', 'color='],
    [{ txt: txt({ color: 'F' }) }, color(['F'], 'Exclude'), 'filtered by txt', 'color=F'],
    [{ port: 0 }, NO_FILTERS, 'port 0 announced', undefined],
    [{ name: 'Hall\n1' }, NO_FILTERS, 'its name has control characters', undefined],
  ])('%j is left out by %j: %s', (more, details, reason, detail) => {
    const { devices, leftOut } = serviceDevices(
      { services: [service(more)], incomplete: [] },
      details,
    )
    expect(devices).toEqual([])
    expect(leftOut).toMatchObject([{ reason, ...(detail && { detail }) }])
  })

  it.each([
    [undefined, 'no host announced'],
    ['printer.local', 'no address announced'],
  ])('with the host %s and no address is left out: %s', (host, reason) => {
    const { type, name, interface: network, sender } = service()
    const incomplete = [{ type, name, interface: network, sender, host }]
    expect(serviceDevices({ services: [], incomplete }, NO_FILTERS)).toEqual({
      devices: [],
      leftOut: [{ id: 'Hall 1._ipp._tcp', reason, detail: 'announced by 192.0.2.7 on eth0' }],
    })
  })
})
