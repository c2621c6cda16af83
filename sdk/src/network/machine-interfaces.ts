import { networkInterfaces } from 'node:os'
import { type Network, readNetwork } from './allowed-networks.js'

/** An address of a network interface, in the shape of `os.networkInterfaces()`. */
export interface InterfaceAddress {
  /** Without a prefix: `192.0.2.1`. */
  readonly address: string
  /** The version of IP. */
  readonly family: 'IPv4' | 'IPv6'
  /** Whether the address belongs to the loopback interface. */
  readonly internal: boolean
  /** The address and the length of its network's prefix: `192.0.2.1/24`. */
  readonly cidr: string | null
}

/** The addresses of network interfaces, by name. */
export type InterfaceAddresses = Readonly<Record<string, readonly InterfaceAddress[] | undefined>>

/** A network interface of this machine. */
export interface MachineInterface {
  /** Such as `eth0`. */
  readonly name: string
  /** All its addresses. */
  readonly addresses: readonly InterfaceAddress[]
}

/** Options of {@link machineInterfaces}. */
export interface MachineInterfaceOptions {
  /**
   * Names of interfaces.
   * @default all but the loopback interface and the interfaces of container networks
   */
  readonly only?: readonly string[] | undefined
}

/**
 * The names of interfaces between the containers of a node, by the programs that create them. There
 * are no devices on these networks, but a container could send a forged answer that points into the
 * cluster.
 */
const CONTAINER_NETWORKS = [
  /^(cni|flannel|cali|cilium|lxc|docker|br-|veth|virbr|tunl|vxlan|weave|ovn|antrea)/,
  /^(kube-|nodelocaldns|podman|nerdctl|lxdbr)/,
  // kubenet, Azure, Google and Amazon. Amazon's names end with a part of a hash; a network card can
  // be `eni10np1`.
  /^(cbr\d|azv|gke|eni[0-9a-f]{11}$)/,
]

/** Whether an interface is between the containers of a node, by its name. */
export function isContainerNetwork(name: string): boolean {
  return CONTAINER_NETWORKS.some((pattern) => pattern.test(name))
}

/**
 * The interfaces of this machine that can lead to devices.
 * @param options which interfaces
 * @param table all interfaces @default the current interfaces of this machine
 *
 * @example
 * for (const { name, addresses } of machineInterfaces({ only: ['eth0'] }))
 *   log.info({ addresses: addresses.map(({ cidr }) => cidr) }, name)
 */
export function machineInterfaces(
  { only }: MachineInterfaceOptions = {},
  table: InterfaceAddresses = networkInterfaces(),
): MachineInterface[] {
  const found: MachineInterface[] = []
  for (const [name, addresses = []] of Object.entries(table)) {
    const isUsual = !isContainerNetwork(name) && !addresses.some(({ internal }) => internal)
    if (only === undefined ? isUsual : only.includes(name)) found.push({ name, addresses })
  }
  return found
}

/**
 * The networks of these interfaces. An address without other addresses in its network (`/32`) gives
 * no network. The loopback interface, if an operator names it, also gives its own addresses.
 * @param table all interfaces @default the current interfaces of this machine
 *
 * @example
 * const local = new AllowedNetworks(machineNetworks(), { ownAddresses: machineAddresses() })
 */
export function machineNetworks(
  options: MachineInterfaceOptions = {},
  table?: InterfaceAddresses,
): Network[] {
  return machineInterfaces(options, table).flatMap(({ addresses }) =>
    addresses.flatMap(({ address, cidr, internal }) => {
      const single = readNetwork(address)
      const network = cidr === null ? undefined : readNetwork(cidr)
      const isWider =
        network !== undefined && single !== undefined && network.prefix < single.prefix
      return [...(isWider ? [network] : []), ...(internal && single !== undefined ? [single] : [])]
    }),
  )
}

/**
 * All addresses of this machine, on all interfaces.
 * @param table all interfaces @default the current interfaces of this machine
 *
 * @example
 * const isOwn = machineAddresses().includes('192.0.2.1')
 */
export function machineAddresses(table: InterfaceAddresses = networkInterfaces()): string[] {
  return Object.values(table).flatMap((addresses = []) => addresses.map(({ address }) => address))
}
