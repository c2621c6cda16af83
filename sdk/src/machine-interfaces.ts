import { networkInterfaces } from 'node:os'

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
 * Networks between the containers of a node. Devices are not there, but whoever is could point into the cluster by a forged
 * answer.
 */
const CONTAINER_NETWORK = /^(?:cni|flannel|cali|cilium|lxc|docker|br-|veth|virbr|tunl|vxlan|weave|kube-|nodelocaldns|ovn|antrea)/

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
