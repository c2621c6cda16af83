import { readFileSync } from 'node:fs'
import { type InterfaceAddresses, type MachineInterfaceOptions, machineInterfaces } from '@akrijs/sdk'

/** An address of this machine that can be probed from. */
export interface ProbingInterface {
  /** Changes when the interface is made anew, although all else may be the same. */
  readonly key: string
  readonly name: string
  readonly family: 'IPv4' | 'IPv6'
  /** To bind to; that of IPv6 with its zone. */
  readonly address: string
}

/** More are not probed from: machines with so many addresses are not those that cameras are beside. */
const MAX_INTERFACES = 64

/** The interfaces that are up: each of their IPv4 addresses, and the link-local one of IPv6. */
export function probingInterfaces(options: MachineInterfaceOptions, table?: InterfaceAddresses): ProbingInterface[] {
  return machineInterfaces(options, table)
    .flatMap(({ name, addresses }) =>
      addresses
        .filter(({ family, address }) => family === 'IPv4' || /^fe80:/i.test(address))
        .map(({ family, address }): ProbingInterface => {
          const bound = family === 'IPv6' ? `${address}%${name}` : address
          return { key: `${indexOf(name)} ${bound}`, name, family, address: bound }
        }),
    )
    .slice(0, MAX_INTERFACES)
}

/** The networks that these interfaces are in, such as `192.168.1.0/24` (with the bits of the host as they are). */
export function networksOfInterfaces(options: MachineInterfaceOptions, table?: InterfaceAddresses): string[] {
  return machineInterfaces(options, table).flatMap(({ addresses }) => addresses.flatMap(({ cidr }) => cidr ?? []))
}

function indexOf(name: string): string {
  try {
    return readFileSync(`/sys/class/net/${name}/ifindex`, 'utf8').trim()
  } catch {
    // Not Linux, or no sysfs here.
    return name
  }
}
