import type { Clock } from '@akrijs/runtime'
import { AllowedNetworks, plainAddress, readNetwork, readNetworks } from '@akrijs/sdk/network'
import { MAX_WAITING_REGISTRATIONS } from '../limits.js'

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

/**
 * How long a registration waits for the Pod with its address, in milliseconds: a container knows
 * its address before the API server does.
 */
const POD_WAIT_MS = 5000
const POLL_MS = 250

/** Finds the holders of addresses, also those that the agent is about to see. */
export class AddressHolders {
  readonly #addresses: HandlerAddresses | undefined
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #waiting = 0

  /** @param signal ends all waits */
  constructor(addresses: HandlerAddresses | undefined, clock: Clock, signal: AbortSignal) {
    this.#addresses = addresses
    this.#clock = clock
    this.#signal = signal
  }

  /** The present holder. */
  of(address: string): string | undefined {
    return this.#addresses?.holderOf(address)
  }

  /**
   * The holder now, or within {@link POD_WAIT_MS}. Beyond the bound of waiting registrations, a
   * registration is answered at once: its handler comes again.
   */
  async soon(address: string): Promise<string | undefined> {
    if (this.#waiting >= MAX_WAITING_REGISTRATIONS) return this.of(address)
    this.#waiting++
    const isDone = () => this.#signal.aborted || this.of(address) !== undefined
    for (let waited = 0; waited < POD_WAIT_MS && !isDone(); waited += POLL_MS)
      await this.#clock.sleep(POLL_MS, this.#signal).catch(() => undefined)
    this.#waiting--
    return this.of(address)
  }
}
