import type { Compatibility, ConfigurationName } from '@akrijs/api'

interface UnclaimedId {
  readonly id: string
  readonly healthy: true
}

/** The ids of a Configuration's resource that no slot has been claimed for: numbers in a form. */
export class VirtualIds {
  readonly #prefix: string
  /** A list has as many as Instances are free: others would be garbage. */
  readonly #ids: UnclaimedId[] = []

  constructor(prefix = '') {
    this.#prefix = prefix
  }

  of(number: number): UnclaimedId {
    const before = this.#ids[number]
    if (before !== undefined) return before
    const made = { id: `${this.#prefix}${number}`, healthy: true } as const
    this.#ids[number] = made
    return made
  }

  /** The number of an id; undefined for an id in another form. */
  numberOf(id: string): number | undefined {
    if (!id.startsWith(this.#prefix)) return undefined
    const digits = id.slice(this.#prefix.length)
    return /^(0|[1-9][0-9]{0,8})$/.test(digits) ? Number(digits) : undefined
  }

  /** Numbers in their order, then ids in another form. */
  compare(a: string, b: string): number {
    const [first, second] = [this.numberOf(a), this.numberOf(b)]
    if (first !== undefined && second !== undefined) return first - second
    if (first !== undefined || second !== undefined) return first === undefined ? 1 : -1
    return a < b ? -1 : 1
  }
}

/** `0`, `1` and so on. */
export const NUMBERS = new VirtualIds()

/** @returns ids that agents of the other system can read: `cam-0`, `cam-1` and so on */
export function virtualIds(name: ConfigurationName, compatibility: Compatibility): VirtualIds {
  return compatibility === 'off' ? NUMBERS : new VirtualIds(`${name}-`)
}
