import type { Clock } from '@akrijs/runtime'
import { MAX_WAITING_REGISTRATIONS } from '../limits.js'
import type { HandlerAddresses } from './handler-addresses.js'

/**
 * How long a registration waits for the Pod with its address, in milliseconds: a container knows
 * its address before the API server does.
 */
const POD_WAIT_MS = 5000
const POLL_MS = 250

/** Finds the holders of addresses, also those that the agent is about to see. */
export class AddressHolders {
  readonly #addresses: HandlerAddresses
  readonly #clock: Clock
  readonly #signal: AbortSignal
  #waiting = 0

  /** @param signal ends all waits */
  constructor(addresses: HandlerAddresses, clock: Clock, signal: AbortSignal) {
    this.#addresses = addresses
    this.#clock = clock
    this.#signal = signal
  }

  /** The present holder. */
  of(address: string): string | undefined {
    return this.#addresses.holderOf(address)
  }

  /**
   * The holder now, or within {@link POD_WAIT_MS}. Beyond the bound of waiting registrations, a
   * registration is answered at once: its handler comes again.
   */
  async soon(address: string): Promise<string | undefined> {
    let holder = this.of(address)
    if (this.#waiting >= MAX_WAITING_REGISTRATIONS) return holder
    this.#waiting++
    for (let waited = 0; holder === undefined && waited < POD_WAIT_MS; waited += POLL_MS) {
      await this.#clock.sleep(POLL_MS, this.#signal).catch(() => undefined)
      if (this.#signal.aborted) break
      holder = this.of(address)
    }
    this.#waiting--
    return holder
  }
}
