import { AllowedNetworks, plainAddress, readNetwork, readNetworks } from '@akrijs/sdk/network'

/** The network addresses at which the agent dials handlers. */
export interface HandlerAddresses {
  /**
   * @param address an IP address
   * @returns the present holder of the address, by a name that is unique; undefined if the agent
   * must not dial the address
   */
  holderOf(address: string): string | undefined
}

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
