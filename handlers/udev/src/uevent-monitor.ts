import { type Clock, type Logger, systemClock } from '@akrijs/sdk'
import type { Change, DeviceMonitor, Uevent } from './device-monitor.js'
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

/**
 * Reports changes immediately. All users share the sockets, which stay open while there is a user.
 */
export class UeventMonitor implements DeviceMonitor {
  readonly #options: Required<MonitorOptions>
  readonly #followers = new Set<UeventBurst>()
  #feed: AbortController | undefined

  constructor(options: MonitorOptions = {}) {
    this.#options = { clock: systemClock, runUdevRoot: '/run/udev', ...options }
  }

  async *changes(signal: AbortSignal, log: Logger): AsyncGenerator<Change, void, void> {
    const { clock } = this.#options
    const burst = new UeventBurst({ clock, ...BURST })
    const onAbort = () => {
      burst.end()
      this.#leave(burst)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal.aborted) return
      this.#join(burst, log)
      // The sockets are open now, so that no later change is lost.
      burst.rescan('discovery started')
      yield* burst
    } finally {
      signal.removeEventListener('abort', onAbort)
      onAbort()
    }
  }

  #join(burst: UeventBurst, log: Logger): void {
    this.#followers.add(burst)
    if (this.#feed !== undefined) return
    this.#feed = new AbortController()
    const all = {
      add: (event: Uevent) => {
        for (const follower of this.#followers) follower.add(event)
      },
      rescan: (reason: string) => {
        for (const follower of this.#followers) follower.rescan(reason)
      },
    }
    readUevents({ ...this.#options, log }, all, this.#feed.signal)
  }

  #leave(burst: UeventBurst): void {
    this.#followers.delete(burst)
    if (this.#followers.size > 0) return
    this.#feed?.abort()
    this.#feed = undefined
  }
}
