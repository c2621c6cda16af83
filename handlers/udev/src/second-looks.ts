import { isWithin } from './devpath.js'

interface Awaited {
  readonly subsystem: string
  readonly until: number
  /** The number of the event; undefined without an event. */
  readonly number: number | undefined
  at: number
  pauseMs: number
}

/** The time for udevd to process an event, in milliseconds. */
export const UDEVD_MS = 60_000
/** The limit of devices, and of remembered answers. The look at everything covers the others. */
const MAX_DEVICES = 10_000

/**
 * Devices that udevd should process: a look at each of them follows after growing pauses, until
 * udevd has answered or {@link UDEVD_MS} are over.
 */
export class SecondLooks {
  readonly #awaited = new Map<string, Awaited>()
  /** The latest answers: an answer may arrive before the kernel's event at the other socket. */
  readonly #answers = new Map<string, number>()

  /** The time of the next look; undefined without a device. */
  get nextAt(): number | undefined {
    let next: number | undefined
    for (const { at } of this.#awaited.values()) if (next === undefined || at < next) next = at
    return next
  }

  expect(
    devpath: string,
    subsystem: string,
    { number, now, pauseMs }: { readonly number?: number; now: number; pauseMs: number },
  ): void {
    if (number !== undefined && (this.#answers.get(devpath) ?? -1) >= number) return
    if (!this.#awaited.has(devpath) && this.#awaited.size >= MAX_DEVICES) return
    this.#awaited.set(devpath, {
      subsystem,
      number,
      pauseMs,
      at: now + pauseMs,
      until: now + UDEVD_MS,
    })
  }

  has(devpath: string): boolean {
    return this.#awaited.has(devpath)
  }

  /** Whether a device is awaited, or a device below it. */
  hasWithin(devpath: string): boolean {
    for (const awaited of this.#awaited.keys()) if (isWithin(awaited, devpath)) return true
    return false
  }

  /** udevd processed an event. */
  answered(devpath: string, number: number): void {
    this.#answers.delete(devpath)
    this.#answers.set(devpath, number)
    for (const oldest of this.#answers.keys()) {
      if (this.#answers.size <= MAX_DEVICES) break
      this.#answers.delete(oldest)
    }
    const last = this.#awaited.get(devpath)?.number
    if (last === undefined || last <= number) this.done(devpath)
  }

  done(devpath: string): void {
    this.#awaited.delete(devpath)
  }

  /** The devices to look at now, with their subsystems. The pause of each of them doubles. */
  take(now: number): Map<string, string> {
    const due = new Map<string, string>()
    for (const [devpath, awaited] of this.#awaited) {
      if (awaited.at > now) continue
      due.set(devpath, awaited.subsystem)
      if (now >= awaited.until) this.#awaited.delete(devpath)
      awaited.pauseMs *= 2
      awaited.at = Math.min(now + awaited.pauseMs, awaited.until)
    }
    return due
  }
}
