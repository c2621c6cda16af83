import { isWithin } from './devpath.js'

interface Awaited {
  readonly subsystem: string
  readonly until: number
  /** The number of the event; undefined without an event. */
  readonly number: number | undefined
  at: number
  pauseMs: number
  /** Whether udevd had events to process at the last look. */
  wasBusy: boolean
}

/** The time for udevd to process an event, in milliseconds. */
export const UDEVD_MS = 60_000
/** The limit of devices, and of remembered answers. */
const MAX_DEVICES = 10_000
/** In place of a path: devices whose events were lost, or came before the start. */
export const ALL_DEVICES = ''

/**
 * Devices that udevd should process: a look at each of them follows after growing pauses, until
 * udevd has answered or {@link UDEVD_MS} are over.
 */
export class SecondLooks {
  readonly #awaited = new Map<string, Awaited>()
  /** The latest answers: an answer may arrive before the kernel's event at the other socket. */
  readonly #answers = new Map<string, number>()
  /** The numbers of the events by which devices appeared. */
  readonly #appearances = new Map<string, number>()

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
    const isFull = !this.#awaited.has(devpath) && this.#awaited.size >= MAX_DEVICES
    this.#awaited.set(isFull ? ALL_DEVICES : devpath, {
      subsystem,
      number,
      pauseMs,
      at: now + pauseMs,
      until: now + UDEVD_MS,
      wasBusy: false,
    })
  }

  has(devpath: string): boolean {
    return this.#awaited.has(devpath)
  }

  /** Whether a device is awaited, or a device below it, as far as one can know. */
  hasWithin(devpath: string): boolean {
    for (const awaited of this.#awaited.keys()) if (isAbout(awaited, devpath)) return true
    return false
  }

  /**
   * udevd has become idle: the looks at a device, and at devices below it, are due, unless udevd
   * was idle at the last look.
   * @returns whether there is such a look
   */
  hurry(devpath: string, now: number): boolean {
    let isDue = false
    for (const [path, awaited] of this.#awaited) {
      if (!awaited.wasBusy || !isAbout(path, devpath)) continue
      awaited.at = now
      isDue = true
    }
    return isDue
  }

  /** A device appeared by an event of the kernel. */
  appeared(devpath: string, number: number): void {
    remember(this.#appearances, devpath, number)
  }

  /** A device disappeared: udevd has nothing to answer. */
  disappeared(devpath: string): void {
    this.#appearances.delete(devpath)
    this.done(devpath)
  }

  /**
   * Whether udevd processed the event by which a device appeared, with its programs (`RUN`). An
   * answer for an earlier device at the same path has a smaller number.
   */
  isAnswered(devpath: string): boolean {
    const number = this.#appearances.get(devpath)
    return number !== undefined && (this.#answers.get(devpath) ?? -1) >= number
  }

  /** udevd processed an event. */
  answered(devpath: string, number: number): void {
    remember(this.#answers, devpath, number)
    const last = this.#awaited.get(devpath)?.number
    if (last === undefined || last <= number) this.done(devpath)
  }

  done(devpath: string): void {
    this.#awaited.delete(devpath)
  }

  /** The devices to look at now, with their subsystems. The pause of each of them doubles. */
  take(now: number, udevdIsBusy: boolean): Map<string, string> {
    const due = new Map<string, string>()
    for (const [devpath, awaited] of this.#awaited) {
      if (awaited.at > now) continue
      due.set(devpath, awaited.subsystem)
      if (now >= awaited.until) this.#awaited.delete(devpath)
      awaited.wasBusy = udevdIsBusy
      awaited.pauseMs *= 2
      awaited.at = Math.min(now + awaited.pauseMs, awaited.until)
    }
    return due
  }
}

/** Sets a value as the latest, and forgets the oldest values over the limit. */
function remember(values: Map<string, number>, devpath: string, number: number): void {
  values.delete(devpath)
  values.set(devpath, number)
  for (const oldest of values.keys()) {
    if (values.size <= MAX_DEVICES) break
    values.delete(oldest)
  }
}

/** Whether an awaited path can be a device, or below it. */
function isAbout(awaited: string, devpath: string): boolean {
  return awaited === ALL_DEVICES || isWithin(awaited, devpath)
}
