import { type Clock, untilAborted } from '@akrijs/runtime'
import type { HandlerAddresses } from '../../ports/handler-addresses.js'

/**
 * How long a registration waits for the Pod with its address, in milliseconds: a container knows
 * its address before the API server does.
 */
const POD_WAIT_MS = 5000
/** The most registrations that wait. Further ones are answered at once, and come again. */
const MAX_WAITING = 64

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

  /** The holder now, or within {@link POD_WAIT_MS}. */
  async soon(address: string): Promise<string | undefined> {
    const holder = this.of(address)
    if (holder !== undefined || this.#waiting >= MAX_WAITING) return holder
    const over = new AbortController()
    this.#addresses.onChange(() => {
      if (this.of(address) !== undefined) over.abort()
    }, over.signal)
    this.#waiting++
    // Rejects if the wait ends early.
    const waited = this.#clock.sleep(POD_WAIT_MS, over.signal).catch(() => undefined)
    // Not AbortSignal.any, which leaves some bytes on the agent's signal for each registration.
    await untilAborted(waited, this.#signal)
    this.#waiting--
    over.abort()
    return this.of(address)
  }
}
