import os from 'node:os'

/** The addresses of network interfaces, by name. */
export type InterfaceAddresses = ReturnType<typeof os.networkInterfaces>

export interface MachineInterface {
  readonly name: string
  readonly addresses: readonly os.NetworkInterfaceInfo[]
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
  table: InterfaceAddresses = os.networkInterfaces(),
): MachineInterface[] {
  const found: MachineInterface[] = []
  for (const [name, addresses = []] of Object.entries(table)) {
    const usual = !CONTAINER_NETWORK.test(name) && !addresses.some(({ internal }) => internal)
    if (only === undefined ? usual : only.includes(name)) found.push({ name, addresses })
  }
  return found
}
