import { existsSync } from 'node:fs'
import path from 'node:path'
import { type Clock, type Logger, messageOf, systemClock } from '@akrijs/sdk'
import type { Change, DeviceMonitor, Uevent } from './device-monitor.js'
import { UeventGathering } from './uevent-gathering.js'
import type { MessageSource } from './uevent-message.js'
import { openUeventSocket } from './uevent-socket.js'

export interface MonitorOptions {
  readonly log: Logger
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
/** How long udevd may take for an event of the kernel before devices are looked at without it, in milliseconds. */
const UDEVD_PATIENCE_MS = 2000
/** How often to see whether udevd has come or gone, in milliseconds. */
const UDEVD_CHECK_MS = 10_000

/**
 * Tells of changes as they happen. Where udevd runs, its events count: they come after its rules have run, with what these
 * found out. The kernel's are listened to as well, because udevd's stay in its own network namespace: in a Pod without the
 * host's network there are none, and devices are looked at {@link UDEVD_PATIENCE_MS} after the kernel's.
 */
export function openMonitor(options: MonitorOptions): DeviceMonitor {
  return {
    changes: (signal) =>
      monitor({ clock: systemClock, runUdevRoot: '/run/udev', quietMs: 20, pollMs: 10_000, ...options }, signal),
  }
}

async function* monitor(options: Required<MonitorOptions>, signal: AbortSignal): AsyncGenerator<Change, void, void> {
  const { clock, log, runUdevRoot, quietMs, pollMs } = options
  const gathering = new UeventGathering({ clock, quietMs, ceilingMs: CEILING_MS })
  const done = new AbortController()
  const waiting = new UnansweredEvents(clock, done.signal, gathering, log)
  const udevdRuns = () => existsSync(path.join(runUdevRoot, 'control'))
  let running = udevdRuns()
  const closers: (() => void)[] = []

  const listen = (source: MessageSource, onEvent: (event: Uevent) => void) =>
    closers.push(
      openUeventSocket(source, { onEvent, onLost: (reason) => gathering.rescan(`events of ${source} were lost: ${reason}`) }),
    )
  const onAbort = () => {
    done.abort()
    gathering.end()
  }
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  try {
    try {
      listen('udev', (event) => {
        waiting.answered(event)
        gathering.add(event)
      })
      listen('kernel', (event) => (running ? waiting.expect(event) : gathering.add(event)))
      owned(
        every(UDEVD_CHECK_MS, clock, done.signal, () => {
          const before = running
          running = udevdRuns()
          if (before !== running) gathering.rescan(running ? 'udevd has come' : 'udevd has gone')
        }),
        log,
      )
      log.debug({ udevd: running }, 'listening to device events')
    } catch (error) {
      log.warn({ reason: messageOf(error), pollMs }, 'no device events here, looking again and again instead')
      owned(
        every(pollMs, clock, done.signal, () => gathering.rescan('it is time')),
        log,
      )
    }
    // Only now that somebody listens: what happens from here on is not missed.
    gathering.rescan('nobody has looked yet')
    yield* gathering
  } finally {
    signal.removeEventListener('abort', onAbort)
    done.abort()
    for (const close of closers) close()
  }
}

/** Events of the kernel that udevd should pass on. */
class UnansweredEvents {
  readonly #clock: Clock
  readonly #signal: AbortSignal
  readonly #gathering: UeventGathering
  readonly #log: Logger
  readonly #pending = new Set<string>()
  #timer = false
  #warned = false

  constructor(clock: Clock, signal: AbortSignal, gathering: UeventGathering, log: Logger) {
    this.#clock = clock
    this.#signal = signal
    this.#gathering = gathering
    this.#log = log
  }

  expect({ properties }: Uevent): void {
    const number = properties.get('SEQNUM')
    if (number === undefined || this.#pending.size > 10_000) return
    this.#pending.add(number)
    if (this.#timer) return
    this.#timer = true
    owned(this.#check(), this.#log)
  }

  answered({ properties }: Uevent): void {
    this.#pending.delete(properties.get('SEQNUM') ?? '')
  }

  async #check(): Promise<void> {
    while (this.#pending.size > 0 && !this.#signal.aborted) {
      const before = new Set(this.#pending)
      await this.#clock.sleep(UDEVD_PATIENCE_MS, this.#signal).catch(() => undefined)
      if (this.#signal.aborted) return
      const unanswered = [...before].filter((number) => this.#pending.delete(number))
      if (unanswered.length === 0) continue
      if (!this.#warned)
        this.#log.info(
          { patienceMs: UDEVD_PATIENCE_MS },
          "udevd's events do not come here; without the host's network they cannot",
        )
      this.#warned = true
      this.#gathering.rescan('udevd has not passed on what the kernel said')
    }
    this.#timer = false
  }
}

async function every(ms: number, clock: Clock, signal: AbortSignal, work: () => void): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(ms, signal).catch(() => undefined)
    if (!signal.aborted) work()
  }
}

function owned(work: Promise<void>, log: Logger): void {
  work.catch((error: unknown) => log.error({ error: messageOf(error) }, 'watching for devices failed'))
}
