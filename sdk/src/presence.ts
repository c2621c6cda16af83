import { InvalidPresenceError } from './errors.js'
import type { Device } from './handler/device.js'

/**
 * Keeps a device that misses rounds: one lost datagram does not remove a camera. Pass what each
 * round found to {@link Presence.round}, and yield the result.
 *
 * @example
 * const presence = new Presence({ missesAllowed: 3 })
 * for await (const _ of every('10s', { signal }))
 *   yield presence.round(await listSensors(details.url, signal))
 */
export class Presence<D extends Device = Device> {
  readonly #missesAllowed: number
  readonly #seen = new Map<string, { device: D; misses: number }>()

  /**
   * @param options how long a device is kept
   * @param options.missesAllowed the number of rounds in a row that a device may miss
   * @throws InvalidPresenceError
   */
  constructor({ missesAllowed }: { readonly missesAllowed: number }) {
    if (!Number.isInteger(missesAllowed) || missesAllowed < 0) {
      throw new InvalidPresenceError(
        `missesAllowed is ${missesAllowed}; it must be an integer of 0 or more`,
      )
    }
    this.#missesAllowed = missesAllowed
  }

  /**
   * Takes the devices of a round.
   * @returns the devices that are present: earlier devices first, each as last seen
   */
  round(found: Iterable<D>): D[] {
    const current = new Map([...found].map((device) => [device.id, device]))
    for (const [id, entry] of this.#seen) {
      const device = current.get(id)
      if (device !== undefined) this.#seen.set(id, { device, misses: 0 })
      else if (entry.misses >= this.#missesAllowed) this.#seen.delete(id)
      else entry.misses++
      current.delete(id)
    }
    for (const device of current.values()) this.#seen.set(device.id, { device, misses: 0 })
    return [...this.#seen.values()].map(({ device }) => device)
  }

  /** Removes a device at once, for example after it said goodbye. */
  forget(id: string): void {
    this.#seen.delete(id)
  }
}
