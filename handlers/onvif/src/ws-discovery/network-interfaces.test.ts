import type { NetworkInterfaceInfo } from 'node:os'
import { describe, expect, it } from 'vitest'
import { probingInterfaces } from './network-interfaces.js'

function four(address: string, prefix: number, internal = false): NetworkInterfaceInfo {
  return { address, netmask: '', family: 'IPv4', mac: '', internal, cidr: `${address}/${prefix}` }
}

function six(address: string): NetworkInterfaceInfo {
  return {
    address,
    netmask: '',
    family: 'IPv6',
    mac: '',
    internal: false,
    cidr: `${address}/64`,
    scopeid: 2,
  }
}

const NODE = {
  lo: [four('127.0.0.1', 8, true)],
  lan0: [four('192.168.1.5', 24), four('10.1.0.5', 16), six('fd00::5'), six('fe80::5')],
  cni0: [four('10.244.0.1', 24), six('fe80::1')],
  docker0: [four('172.17.0.1', 16)],
  veth1234: [six('fe80::2')],
  cali0815: [six('fe80::3')],
}

const namesAndAddresses = (only?: string[]) =>
  probingInterfaces({ only }, NODE).map(
    ({ name, family, address }) => `${name} ${family} ${address}`,
  )

describe('the interfaces for Probes', () => {
  it('are all but loopback and container networks, with IPv4 and link-local', () => {
    expect(namesAndAddresses()).toEqual([
      'lan0 IPv4 192.168.1.5',
      'lan0 IPv4 10.1.0.5',
      'lan0 IPv6 fe80::5%lan0',
    ])
  })

  it('are only the named interfaces, also loopback and container networks', () => {
    expect(namesAndAddresses(['lo', 'docker0', 'gone0'])).toEqual([
      'lo IPv4 127.0.0.1',
      'docker0 IPv4 172.17.0.1',
    ])
  })

  it('are limited to 64', () => {
    const many = {
      lan0: Array.from({ length: 500 }, (_, n) => four(`10.0.${n >> 8}.${n & 255}`, 16)),
    }
    expect(probingInterfaces({}, many)).toHaveLength(64)
  })
})
