import { type Clock, type Logger, systemClock } from '@akrijs/sdk'
import type { Change, DeviceMonitor } from './device-monitor.js'
import { UeventBurst } from './uevent-burst.js'
import { readUevents } from './uevent-source.js'

interface MonitorOptions {
  /** @default systemClock */
  readonly clock?: Clock
  /** The directory of udevd's `control` socket. @default '/run/udev' */
  readonly runUdevRoot?: string
}

/** A burst ends after 20 ms without an event. A longer burst is reported in parts. */
const BURST = { quietMs: 20, ceilingMs: 80 }

/** Reports the events of the kernel and of udevd. */
export class UeventMonitor implements DeviceMonitor {
  readonly #options: Required<MonitorOptions>
  #problem: string | undefined
  #check: (() => void) | undefined

  constructor(options: MonitorOptions = {}) {
    this.#options = { clock: systemClock, runUdevRoot: '/run/udev', ...options }
  }

  get problem(): string | undefined {
    return this.#problem
  }

  checkProblem(): void {
    this.#check?.()
  }

  async *changes(signal: AbortSignal, log: Logger): AsyncGenerator<Change, void, void> {
    const ended = new AbortController()
    const untilEnd = AbortSignal.any([signal, ended.signal])
    const burst = new UeventBurst({ clock: this.#options.clock, ...BURST }, untilEnd)
    try {
      if (signal.aborted) return
      const onProblem = (problem: string | undefined) => {
        this.#problem = problem
      }
      this.#check = readUevents({ ...this.#options, log, onProblem }, burst, untilEnd)
      // The sockets are open now, so that no later change is lost.
      burst.rescan('discovery started')
      yield* burst
    } finally {
      ended.abort()
    }
  }
}
