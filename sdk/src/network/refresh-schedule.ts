import { type Clock, currentClock } from '@akrijs/runtime'

/** Options of {@link RefreshSchedule}. */
export interface RefreshScheduleOptions {
  /** @default the clock of the discovery, see `currentClock` */
  readonly clock?: Pick<Clock, 'monotonicMs'>
  /**
   * The time from a success to the next attempt, and the longest wait after a failure, in
   * milliseconds.
   */
  readonly refreshMs: number
  /**
   * The wait after the first failure, in milliseconds. Each further failure in a row doubles the
   * wait.
   */
  readonly retryMs: number
  /** The number of known devices to read again in one round, so that all rounds cost the same. */
  readonly maxRefreshes: number
}

/** What {@link RefreshSchedule} has of a device. Times are those of `clock.monotonicMs()`. */
export interface RefreshEntry<Value> {
  /** The value of the last success. @default undefined before a success */
  readonly value?: Value | undefined
  /** The time of the last success. */
  readonly answeredAt: number
  /** The time of the next attempt. */
  readonly dueAt: number
  /** The number of failures since the last success. */
  readonly failures: number
}

/**
 * The last value that was read from each device, and the time of the next attempt.
 *
 * @example
 * const schedule = new RefreshSchedule<Device[]>({
 *   refreshMs: 60_000,
 *   retryMs: 5_000,
 *   maxRefreshes: 20,
 * })
 * for await (const _ of every('5s', { signal })) {
 *   for (const url of schedule.takeDue(details.urls, (url) => url))
 *     await listSensors(url, signal).then(
 *       (sensors) => schedule.succeed(url, sensors),
 *       () => schedule.fail(url),
 *     )
 *   yield details.urls.flatMap((url) => schedule.get(url)?.value ?? [])
 * }
 */
export class RefreshSchedule<Value> {
  readonly #options: Required<RefreshScheduleOptions>
  readonly #entries = new Map<string, RefreshEntry<Value>>()

  constructor(options: RefreshScheduleOptions) {
    this.#options = { clock: currentClock(), ...options }
  }

  /** Undefined before the first attempt. A failure keeps the value of the last success. */
  get(key: string): RefreshEntry<Value> | undefined {
    return this.#entries.get(key)
  }

  /**
   * The devices to read in this round: all new devices, then the most overdue. Forgets all devices
   * that are not listed.
   */
  takeDue<Device>(devices: readonly Device[], keyOf: (device: Device) => string): Device[] {
    const keys = new Set(devices.map(keyOf))
    for (const key of this.#entries.keys()) if (!keys.has(key)) this.#entries.delete(key)
    const now = this.#options.clock.monotonicMs()
    const dueAt = (device: Device) => this.#entries.get(keyOf(device))?.dueAt ?? now
    const isNew = (device: Device) => !this.#entries.has(keyOf(device))
    const overdue = devices
      .filter((device) => !isNew(device) && dueAt(device) <= now)
      .sort((a, b) => dueAt(a) - dueAt(b))
    return [...devices.filter(isNew), ...overdue.slice(0, this.#options.maxRefreshes)]
  }

  /** Takes the value of a successful attempt. */
  succeed(key: string, value: Value): void {
    const { clock, refreshMs } = this.#options
    const answeredAt = clock.monotonicMs()
    const dueAt = answeredAt + refreshMs
    this.#entries.set(key, { value, answeredAt, dueAt, failures: 0 })
  }

  /** Takes a failed attempt. @returns the number of failures in a row */
  fail(key: string): number {
    const { clock, refreshMs, retryMs } = this.#options
    const { failures = 0, ...rest } = this.#entries.get(key) ?? {}
    const dueAt = clock.monotonicMs() + Math.min(refreshMs, retryMs * 2 ** failures)
    const answeredAt = Number.NEGATIVE_INFINITY
    this.#entries.set(key, { answeredAt, ...rest, dueAt, failures: failures + 1 })
    return failures + 1
  }
}
