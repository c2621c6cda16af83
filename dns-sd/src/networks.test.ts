import type { InterfaceAddresses } from '@akrijs/sdk/network'
import { describe, expect, it } from 'vitest'
import { interfaceOf, localInterfaces, networkList } from './networks.js'

const address = (cidr: string, internal = false) => {
  const family = cidr.includes(':') ? ('IPv6' as const) : ('IPv4' as const)
  const base = { address: cidr.split('/')[0] ?? '', netmask: '', mac: '', internal, cidr }
  return family === 'IPv6' ? { ...base, family, scopeid: 0 } : { ...base, family }
}

const table: InterfaceAddresses = {
  lo: [address('127.0.0.1/8', true), address('::1/128', true)],
  wlan0: [address('fe80::ecee/64')],
  eth0: [address('192.0.2.10/24'), address('2001:db8::10/64'), address('fe80::1/64')],
  cni0: [address('10.244.0.1/24')],
}

describe('the networks of a machine', () => {
  it('are the networks of its interfaces without loopback and containers', () => {
    expect(
      localInterfaces(undefined, table).map(({ name, ipv4, hasIpv6 }) => [name, ipv4, hasIpv6]),
    ).toEqual([
      ['eth0', '192.0.2.10', true],
      ['wlan0', undefined, true],
    ])
    expect(localInterfaces(['cni0', 'eth7'], table).map(({ name }) => name)).toEqual(['cni0'])
  })

  it('give the interface of a sender, and no interface for other senders', () => {
    const interfaces = localInterfaces(['eth0', 'cni0', 'wlan0'], table)
    const names = [
      '192.0.2.77',
      '10.244.0.9',
      '2001:db8::9',
      'fe80::9%wlan0',
      '198.51.100.1',
      'fe80::9%eth9',
      'nonsense',
    ]
    expect(names.map((sender) => interfaceOf(sender, interfaces)?.name)).toEqual([
      'eth0',
      'cni0',
      'eth0',
      'wlan0',
      undefined,
      undefined,
      undefined,
    ])
  })

  it('are read from texts', () => {
    const list = networkList(['198.51.100.0/24', '2001:db8:1::/48'])
    expect(
      ['198.51.100.9', '2001:db8:1::9', '192.0.2.1', '::ffff:198.51.100.9'].map((sender) =>
        list.allows(sender),
      ),
    ).toEqual([true, true, false, true])
  })
})
