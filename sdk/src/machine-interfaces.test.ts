import type { NetworkInterfaceInfo } from 'node:os'
import { describe, expect, it } from 'vitest'
import { machineInterfaces } from './machine-interfaces.js'

const address = (text: string, internal = false): NetworkInterfaceInfo => ({
  address: text,
  netmask: '255.255.255.0',
  family: 'IPv4',
  mac: '00:00:00:00:00:00',
  internal,
  cidr: `${text}/24`,
})

const NODE = {
  lo: [address('127.0.0.1', true)],
  eth0: [address('192.0.2.1'), address('198.51.100.1')],
  cni0: [address('10.244.0.1')],
  'br-4f2': [address('172.18.0.1')],
  br0: [address('203.0.113.1')],
}

describe('the interfaces of a machine', () => {
  it('are those on whose networks devices may be: not loopback, and not those of containers', () => {
    expect(machineInterfaces({}, NODE)).toEqual([
      { name: 'eth0', addresses: NODE.eth0 },
      { name: 'br0', addresses: NODE.br0 },
    ])
  })

  it('are those that are named, whichever these are', () => {
    expect(machineInterfaces({ only: ['cni0', 'lo', 'gone'] }, NODE).map(({ name }) => name)).toEqual(['lo', 'cni0'])
  })

  it('are those that there are now, where none are given', () => {
    expect(machineInterfaces({ only: ['lo'] }).flatMap(({ addresses }) => addresses.map((one) => one.address))).toContain(
      '127.0.0.1',
    )
  })
})
