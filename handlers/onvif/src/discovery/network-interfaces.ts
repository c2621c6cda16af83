import { readFileSync } from 'node:fs'
import os from 'node:os'

/** An address of this machine that can be probed from. */
export interface ProbingInterface {
  /** Changes when the interface is made anew, although all else may be the same. */
  readonly key: string
  readonly name: string
  readonly family: 'IPv4' | 'IPv6'
  /** To bind to; that of IPv6 with its zone. */
  readonly address: string
}

export interface InterfaceOptions {
  /** Names. @default all but the loopback interface and those of container networks */
  readonly only?: readonly string[] | undefined
}

/** More are not probed from: machines with so many addresses are not those that cameras are beside. */
const MAX_INTERFACES = 64

/**
 * Networks between the containers of a node. Cameras are not there, but whoever is could point into the cluster by a
 * forged answer.
 */
const CONTAINER_NETWORK = /^(?:cni|flannel|cali|cilium|lxc|docker|br-|veth|virbr|tunl|vxlan|weave|kube-|nodelocaldns|ovn|antrea)/

type Addresses = ReturnType<typeof os.networkInterfaces>

/** The interfaces that are up: each of their IPv4 addresses, and the link-local one of IPv6. */
export function probingInterfaces(options: InterfaceOptions, addresses: Addresses = os.networkInterfaces()): ProbingInterface[] {
  return wanted(options, addresses)
    .flatMap(([name, all]) =>
      all
        .filter(({ family, address }) => family === 'IPv4' || /^fe80:/i.test(address))
        .map(({ family, address }): ProbingInterface => {
          const bound = family === 'IPv6' ? `${address}%${name}` : address
          return { key: `${indexOf(name)} ${bound}`, name, family, address: bound }
        }),
    )
    .slice(0, MAX_INTERFACES)
}

/** The networks that these interfaces are in, such as `192.168.1.0/24` (with the bits of the host as they are). */
export function networksOfInterfaces(options: InterfaceOptions, addresses: Addresses = os.networkInterfaces()): string[] {
  return wanted(options, addresses).flatMap(([, all]) => all.flatMap(({ cidr }) => cidr ?? []))
}

function wanted({ only }: InterfaceOptions, addresses: Addresses): [name: string, addresses: os.NetworkInterfaceInfo[]][] {
  const found: [string, os.NetworkInterfaceInfo[]][] = []
  for (const [name, all = []] of Object.entries(addresses)) {
    const usual = !CONTAINER_NETWORK.test(name) && !all.some(({ internal }) => internal)
    if (only === undefined ? usual : only.includes(name)) found.push([name, all])
  }
  return found
}

function indexOf(name: string): string {
  try {
    return readFileSync(`/sys/class/net/${name}/ifindex`, 'utf8').trim()
  } catch {
    // Not Linux, or no sysfs here.
    return name
  }
}
