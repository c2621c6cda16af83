import type { NetworkInterfaceInfo } from 'node:os'
import { describe, expect, it } from 'vitest'
import { machineAddresses, machineInterfaces, machineNetworks } from './machine-interfaces.js'

const address = (text: string, internal = false, prefix = 24): NetworkInterfaceInfo => ({
  address: text,
  netmask: '255.255.255.0',
  family: 'IPv4',
  mac: '00:00:00:00:00:00',
  internal,
  cidr: `${text}/${prefix}`,
})

const NODE = {
  lo: [address('127.0.0.1', true)],
  eth0: [address('192.0.2.1'), address('198.51.100.1')],
  cni0: [address('10.244.0.1')],
  'br-4f2': [address('172.18.0.1')],
  br0: [address('203.0.113.1')],
}

describe('the interfaces of a machine', () => {
  it('are all interfaces without loopback and container networks', () => {
    expect(machineInterfaces({}, NODE)).toEqual([
      { name: 'eth0', addresses: NODE.eth0 },
      { name: 'br0', addresses: NODE.br0 },
    ])
  })

  it('are the named interfaces, also loopback and container networks', () => {
    expect(
      machineInterfaces({ only: ['cni0', 'lo', 'gone'] }, NODE).map(({ name }) => name),
    ).toEqual(['lo', 'cni0'])
  })

  it('are the current interfaces without a table', () => {
    expect(
      machineInterfaces({ only: ['lo'] }).flatMap(({ addresses }) =>
        addresses.map(({ address }) => address),
      ),
    ).toContain('127.0.0.1')
  })

  it.each([
    ...[
      'cni0',
      'cni-podman0',
      'flannel.1',
      'cali0815',
      'cilium_host',
      'lxc12ab',
      'lxcbr0',
      'docker0',
      'br-4f2',
      'veth1234',
    ],
    ...[
      'virbr0',
      'tunl0',
      'vxlan.calico',
      'weave',
      'kube-ipvs0',
      'nodelocaldns',
      'ovn-k8s-mp0',
      'antrea-gw0',
    ],
    ...[
      'cbr0',
      'podman0',
      'podman1',
      'nerdctl0',
      'lxdbr0',
      'eni1a2b3c4d5e6',
      'azv0f1e2d3c4b5',
      'gke52adb9b1a2b',
    ],
  ])('exclude container networks: %s', (name) => {
    expect(machineInterfaces({}, { [name]: [address('10.244.0.1')] })).toEqual([])
  })

  it.each([
    ...[
      'eth0',
      'eno1',
      'ens3',
      'ens192',
      'enp3s0',
      'enp0s31f6',
      'enx001122334455',
      'eni10np1',
      'wlan0',
      'wlp2s0',
    ],
    ...['br0', 'bond0', 'team0', 'vlan10', 'eth0.10', 'vmbr0', 'usb0'],
  ])('include the interfaces of devices: %s', (name) => {
    expect(machineInterfaces({}, { [name]: [address('192.0.2.1')] })).toHaveLength(1)
  })
})

describe('the networks of a machine', () => {
  const table = {
    ...NODE,
    lo: [address('127.0.0.1', true, 8), address('10.5.5.5', true, 32)],
    eth1: [address('10.99.0.1', false, 32)],
  }
  const texts = (only?: string[]) =>
    machineNetworks({ only }, table).map((network) => `${network.address}/${network.prefix}`)

  it('are the networks of its interfaces, without networks of one address', () => {
    expect(texts()).toEqual(['192.0.2.1/24', '198.51.100.1/24', '203.0.113.1/24'])
    expect(texts(['eth1', 'cni0'])).toEqual(['10.244.0.1/24'])
  })

  it('include the addresses of the loopback interface if it is named', () => {
    expect(texts(['lo'])).toEqual(['127.0.0.1/8', '127.0.0.1/32', '10.5.5.5/32'])
  })
})

describe('the addresses of a machine', () => {
  it('are the addresses of all interfaces, also of loopback and containers', () => {
    expect(machineAddresses(NODE)).toEqual([
      ...['127.0.0.1', '192.0.2.1', '198.51.100.1', '10.244.0.1', '172.18.0.1', '203.0.113.1'],
    ])
    expect(machineAddresses()).toContain('127.0.0.1')
  })
})
