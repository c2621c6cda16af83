import { readFileSync } from 'node:fs'
import {
  type InterfaceAddresses,
  type MachineInterfaceOptions,
  machineInterfaces,
} from '@akrijs/sdk/network'

/** An address of this machine that can be probed from. */
export interface ProbingInterface {
  /** Changes when the interface is made anew, although all else may be the same. */
  readonly key: string
  /** The kernel's number of the interface, where it tells it. An interface that is made anew has another one. */
  readonly index: string
  readonly name: string
  readonly family: 'IPv4' | 'IPv6'
  /** To bind to; that of IPv6 with its zone. */
  readonly address: string
}

/** More are not probed from: machines with so many addresses are not those that cameras are beside. */
const MAX_INTERFACES = 64

/** The interfaces that are up: each of their IPv4 addresses, and the link-local one of IPv6. */
export function probingInterfaces(
  options: MachineInterfaceOptions,
  table?: InterfaceAddresses,
): ProbingInterface[] {
  return machineInterfaces(options, table)
    .flatMap(({ name, addresses }) => {
      const index = indexOf(name)
      return addresses
        .filter(({ family, address }) => family === 'IPv4' || /^fe80:/i.test(address))
        .map(({ family, address }): ProbingInterface => {
          const bound = family === 'IPv6' ? `${address}%${name}` : address
          return { key: `${index} ${bound}`, index, name, family, address: bound }
        })
    })
    .slice(0, MAX_INTERFACES)
}

function indexOf(name: string): string {
  try {
    return readFileSync(`/sys/class/net/${name}/ifindex`, 'utf8').trim()
  } catch {
    // Not Linux, or no sysfs here.
    return name
  }
}
