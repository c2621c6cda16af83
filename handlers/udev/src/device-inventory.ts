import type { Clock, Logger } from '@akrijs/sdk'
import { type InventoryOptions, InventoryReader } from './inventory-reader.js'

/**
 * The devices of the machine. All Configurations share one reader, which runs while there is one.
 */
export class DeviceInventory {
  readonly #options: InventoryOptions
  readonly #followers = new Set<InventoryFollower>()
  #reader: InventoryReader | undefined

  constructor(options: InventoryOptions) {
    this.#options = options
  }

  /** Follows the devices until the signal is aborted. */
  follow(signal: AbortSignal, log: Logger): InventoryFollower {
    this.#reader ??= new InventoryReader(this.#options, log, (number, changed) => {
      for (const follower of this.#followers) follower.add(number, changed)
    })
    const follower = new InventoryFollower(this.#reader, this.#options.clock, signal)
    const leave = () => {
      this.#followers.delete(follower)
      if (this.#followers.size > 0) return
      this.#reader?.stop()
      this.#reader = undefined
    }
    this.#followers.add(follower)
    signal.addEventListener('abort', leave, { once: true })
    if (signal.aborted) leave()
    return follower
  }
}

/** The changes for one Configuration. */
export class InventoryFollower {
  readonly reader: InventoryReader
  readonly #clock: Clock
  readonly #signal: AbortSignal
  /** The first look at everything that started after this follower. */
  readonly #first: number
  /** Changes that the Configuration has not read; undefined before the first look. */
  #changed: ReadonlySet<string> | undefined
  /** The problem of the reader when the Configuration last heard of it. */
  #problem: string | undefined
  #isNew = false
  #wake = new AbortController()

  constructor(reader: InventoryReader, clock: Clock, signal: AbortSignal) {
    this.reader = reader
    this.#clock = clock
    this.#signal = signal
    this.#first = reader.requestAll()
    signal.addEventListener('abort', () => this.#wake.abort(), { once: true })
  }

  /** A look is over. */
  add(number: number, changed: ReadonlySet<string>): void {
    if (number < this.#first) return
    if (this.#changed === undefined) this.#changed = new Set(this.reader.tree.listed)
    else if (changed.size === 0 && this.#problem === this.reader.problem) return
    else this.#changed = this.#isNew ? new Set([...this.#changed, ...changed]) : changed
    this.#problem = this.reader.problem
    this.#isNew = true
    this.#wake.abort()
  }

  /**
   * Waits for changes, or for the given time.
   * @returns the paths of changed devices: all devices at first; none if only the problem of the
   * reader changed; undefined at the end
   */
  async next(waitMs?: number): Promise<ReadonlySet<string> | undefined> {
    for (;;) {
      if (this.#signal.aborted) return undefined
      if (this.#isNew) {
        const changed = this.#changed ?? new Set()
        this.#isNew = false
        this.#changed = new Set()
        return changed
      }
      this.#wake = new AbortController()
      const { signal } = this.#wake
      if (waitMs === undefined)
        await new Promise((resolve) => signal.addEventListener('abort', resolve, { once: true }))
      else {
        const isOver = await this.#clock.sleep(waitMs, signal).then(
          () => true,
          () => false,
        )
        if (isOver) return new Set()
      }
    }
  }
}
