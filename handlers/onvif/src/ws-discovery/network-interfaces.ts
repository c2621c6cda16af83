import { readFileSync } from 'node:fs'
import {
  AllowedNetworks,
  type InterfaceAddresses,
  isLinkLocal,
  type MachineInterfaceOptions,
  machineInterfaces,
  machineNetworks,
} from '@akrijs/sdk/network'

/** An address of this machine from which Probes are sent. */
export interface ProbingInterface {
  /** Differs for an interface that was removed and created again with the same name and address. */
  readonly key: string
  /**
   * The kernel's number of the interface, else its name. An interface that was created again has
   * another number.
   */
  readonly index: string
  readonly name: string
  readonly family: 'IPv4' | 'IPv6'
  /** The address to bind to, with a zone if it is an IPv6 address. */
  readonly address: string
}

/**
 * The number of addresses from which Probes are sent. A machine with more addresses is not next to
 * cameras.
 */
const MAX_INTERFACES = 64

/** Each IPv4 address of the interfaces that are up, and their link-local IPv6 addresses. */
export function probingInterfaces(
  options: MachineInterfaceOptions,
  table?: InterfaceAddresses,
): ProbingInterface[] {
  return machineInterfaces(options, table)
    .flatMap(({ name, addresses }) => {
      const index = indexOf(name)
      return addresses
        .filter(({ family, address }) => family === 'IPv4' || isLinkLocal(address))
        .map(({ family, address }): ProbingInterface => {
          const bound = family === 'IPv6' ? `${address}%${name}` : address
          return { key: `${index} ${bound}`, index, name, family, address: bound }
        })
    })
    .slice(0, MAX_INTERFACES)
}

/** The name of the first interface whose network has the address. */
export function interfaceOf(
  address: string,
  options: MachineInterfaceOptions,
  table?: InterfaceAddresses,
): string | undefined {
  const found = machineInterfaces(options, table).find(({ name }) =>
    new AllowedNetworks(machineNetworks({ only: [name] }, table)).allows(address),
  )
  return found?.name
}

function indexOf(name: string): string {
  try {
    return readFileSync(`/sys/class/net/${name}/ifindex`, 'utf8').trim()
  } catch {
    // Another system than Linux, or a container without sysfs.
    return name
  }
}
