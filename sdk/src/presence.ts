import { AkriError } from '@akrijs/runtime'
import type { Device } from '@akrijs/runtime/handler'

/**
 * Keeps a device that misses rounds: a lost datagram is no lost camera. Feed it what each round found, and yield what it
 * gives back.
 */
export class Presence<D extends Device = Device> {
  readonly #missesAllowed: number
  readonly #seen = new Map<string, { device: D; misses: number }>()

  /** @param options.missesAllowed in how many rounds in a row a device may be missing and still be there */
  constructor({ missesAllowed }: { readonly missesAllowed: number }) {
    if (!Number.isInteger(missesAllowed) || missesAllowed < 0) {
      throw new AkriError(
        'AKRI_ERR_INVALID_PRESENCE',
        'terminal',
        `missesAllowed is ${missesAllowed}; it must be an integer of 0 or more`,
      )
    }
    this.#missesAllowed = missesAllowed
  }

  /** Takes what this round found; gives the devices that are there, known ones first, each as it was last seen. */
  round(found: Iterable<D>): D[] {
    const now = new Map([...found].map((device) => [device.id, device]))
    for (const [id, entry] of this.#seen) {
      const device = now.get(id)
      if (device !== undefined) this.#seen.set(id, { device, misses: 0 })
      else if (entry.misses >= this.#missesAllowed) this.#seen.delete(id)
      else entry.misses++
      now.delete(id)
    }
    for (const device of now.values()) this.#seen.set(device.id, { device, misses: 0 })
    return [...this.#seen.values()].map(({ device }) => device)
  }

  /** Takes a device away at once: it said goodbye. */
  forget(id: string): void {
    this.#seen.delete(id)
  }
}
