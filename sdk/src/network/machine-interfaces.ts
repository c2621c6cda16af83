import { networkInterfaces } from 'node:os'
import { type Network, readNetwork } from './allowed-networks.js'

/** An address of a network interface, as `os.networkInterfaces()` has it. */
export interface InterfaceAddress {
  readonly address: string
  readonly family: 'IPv4' | 'IPv6'
  /** Whether it is one of the loopback interface. */
  readonly internal: boolean
  /** With the length of the prefix of its network: `192.0.2.1/24`. */
  readonly cidr: string | null
}

/** The addresses of network interfaces, by name. */
export type InterfaceAddresses = Readonly<Record<string, readonly InterfaceAddress[] | undefined>>

export interface MachineInterface {
  readonly name: string
  readonly addresses: readonly InterfaceAddress[]
}

export interface MachineInterfaceOptions {
  /** Names. @default all but the loopback interface and those of container networks */
  readonly only?: readonly string[] | undefined
}

/**
 * Names of interfaces between the containers of a node, by who makes them. Devices are not there, but whoever is could point into
 * the cluster by a forged answer.
 */
const CONTAINER_NETWORK = new RegExp(
  `^(?:${[
    ...[
      'cni',
      'flannel',
      'cali',
      'cilium',
      'lxc',
      'docker',
      'br-',
      'veth',
      'virbr',
      'tunl',
      'vxlan',
      'weave',
      'ovn',
      'antrea',
    ],
    ...['kube-', 'nodelocaldns', 'podman', 'nerdctl', 'lxdbr'],
    // kubenet; Azure, Google and Amazon. Those of Amazon end in a part of a hash: a card may be `eni10np1`.
    ...['cbr\\d', 'azv', 'gke', 'eni[0-9a-f]{11}$'],
  ].join('|')})`,
)

/**
 * The interfaces of this machine on whose networks devices may be.
 * @param table all that there are @default those of this machine, as they are now
 */
export function machineInterfaces(
  { only }: MachineInterfaceOptions = {},
  table: InterfaceAddresses = networkInterfaces(),
): MachineInterface[] {
  const found: MachineInterface[] = []
  for (const [name, addresses = []] of Object.entries(table)) {
    const usual = !CONTAINER_NETWORK.test(name) && !addresses.some(({ internal }) => internal)
    if (only === undefined ? usual : only.includes(name)) found.push({ name, addresses })
  }
  return found
}

/**
 * The networks of these interfaces, in which devices may be. Where an interface has an address without others in its network,
 * there are none. The loopback interface is this machine itself: who names it means its very addresses too.
 * @param table all interfaces that there are @default those of this machine, as they are now
 */
export function machineNetworks(
  options: MachineInterfaceOptions = {},
  table?: InterfaceAddresses,
): Network[] {
  return machineInterfaces(options, table).flatMap(({ addresses }) =>
    addresses.flatMap(({ address, cidr, internal }) => {
      const own = readNetwork(address)
      const network = cidr === null ? undefined : readNetwork(cidr)
      const isWider = network !== undefined && own !== undefined && network.prefix < own.prefix
      return [...(isWider ? [network] : []), ...(internal && own !== undefined ? [own] : [])]
    }),
  )
}

/**
 * All addresses of this machine, whichever interface they are on.
 * @param table all interfaces that there are @default those of this machine, as they are now
 */
export function machineAddresses(table: InterfaceAddresses = networkInterfaces()): string[] {
  return Object.values(table).flatMap((addresses = []) => addresses.map(({ address }) => address))
}
