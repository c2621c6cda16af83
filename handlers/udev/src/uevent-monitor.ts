import { type Clock, type Logger, systemClock } from '@akrijs/sdk'
import type { Change, DeviceMonitor, Uevent } from './device-monitor.js'
import { UeventBurst } from './uevent-burst.js'
import { readUevents } from './uevent-source.js'

export interface MonitorOptions {
  /** @default systemClock */
  readonly clock?: Clock
  /** Where udevd's `control` socket is while it runs. @default '/run/udev' */
  readonly runUdevRoot?: string
  /** How long a burst must be quiet, in milliseconds. @default 20 */
  readonly quietMs?: number
  /** How often to look where there are no events, in milliseconds. @default 10000 */
  readonly pollMs?: number
}

/** However long a burst goes on, something is told after so long, in milliseconds. */
const CEILING_MS = 80

/** Tells of changes as they happen. All who ask share the sockets, which are open as long as there is one of them. */
export class UeventMonitor implements DeviceMonitor {
  readonly #options: Required<MonitorOptions>
  readonly #followers = new Set<UeventBurst>()
  #feed: AbortController | undefined

  constructor(options: MonitorOptions = {}) {
    this.#options = {
      clock: systemClock,
      runUdevRoot: '/run/udev',
      quietMs: 20,
      pollMs: 10_000,
      ...options,
    }
  }

  async *changes(signal: AbortSignal, log: Logger): AsyncGenerator<Change, void, void> {
    const { clock, quietMs } = this.#options
    const gathering = new UeventBurst({ clock, quietMs, ceilingMs: CEILING_MS })
    const onAbort = () => {
      gathering.end()
      this.#leave(gathering)
    }
    signal.addEventListener('abort', onAbort, { once: true })
    try {
      if (signal.aborted) return
      this.#join(gathering, log)
      // Only now that somebody listens: what happens from here on is not missed.
      gathering.rescan('nobody has looked yet')
      yield* gathering
    } finally {
      signal.removeEventListener('abort', onAbort)
      onAbort()
    }
  }

  #join(gathering: UeventBurst, log: Logger): void {
    this.#followers.add(gathering)
    if (this.#feed !== undefined) return
    this.#feed = new AbortController()
    const everybody = {
      add: (event: Uevent) => {
        for (const follower of this.#followers) follower.add(event)
      },
      rescan: (reason: string) => {
        for (const follower of this.#followers) follower.rescan(reason)
      },
    }
    readUevents({ ...this.#options, log }, everybody, this.#feed.signal)
  }

  #leave(gathering: UeventBurst): void {
    this.#followers.delete(gathering)
    if (this.#followers.size > 0) return
    this.#feed?.abort()
    this.#feed = undefined
  }
}
