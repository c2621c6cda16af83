import { AllowedNetworks, plainAddress, readNetwork, readNetworks } from '@akrijs/sdk/network'
import type { HandlerAddresses } from './handler-addresses.js'

/** The holder of an address that the operator allows. */
const BY_RULE = 'rule'

/** Whether a text is an address, or a network such as `10.1.0.0/16`. */
export function isNetwork(text: string): boolean {
  return readNetwork(text) !== undefined
}

/** The addresses of Pods, and those in networks that the operator allows. */
export class AllowedAddresses implements HandlerAddresses {
  readonly #networks: AllowedNetworks
  readonly #pods: HandlerAddresses | undefined

  /** @param pods @default no address of a Pod */
  constructor(networks: readonly string[], pods?: HandlerAddresses) {
    this.#networks = new AllowedNetworks(readNetworks(networks))
    this.#pods = pods
  }

  holderOf(address: string): string | undefined {
    const plain = plainAddress(address)
    return this.#networks.allows(plain) ? BY_RULE : this.#pods?.holderOf(plain)
  }
}
