import { existsSync } from 'node:fs'
import path from 'node:path'
import { aborted, type Clock, type Logger, messageOf } from '@akrijs/sdk'
import type { Uevent } from './device-monitor.js'
import type { MessageSource } from './uevent-message.js'
import { openUeventSocket } from './uevent-socket.js'

export interface UeventSourceOptions {
  readonly log: Logger
  readonly clock: Clock
  /** Where udevd's `control` socket is while it runs. */
  readonly runUdevRoot: string
  /** How often to look where there are no events, in milliseconds. */
  readonly pollMs: number
  /** Opens one socket, or throws. @default openUeventSocket */
  readonly openSocket?: typeof openUeventSocket
}

/** Who is told. */
export interface UeventListener {
  add(event: Uevent): void
  /** What changed is not known. */
  rescan(reason: string): void
}

/** How long udevd may take for an event of the kernel before devices are looked at without it, in milliseconds. */
const UDEVD_PATIENCE_MS = 2000
/** How soon a broken socket is opened anew, in milliseconds. */
const REOPEN_MS = 1000
/** How often to see whether udevd has come or gone, in milliseconds. */
const UDEVD_CHECK_MS = 10_000

/**
 * Tells of events as they happen, until the signal is aborted; listens before it returns. Where udevd runs, its events
 * count: they come after its rules have run, with what these found out. The kernel's are listened to as well, because udevd's
 * stay in its own network namespace: in a Pod without the host's network there are none, and devices are looked at
 * {@link UDEVD_PATIENCE_MS} after the kernel's.
 */
export function readUevents(
  options: UeventSourceOptions,
  follower: UeventListener,
  signal: AbortSignal,
): void {
  const { clock, log, runUdevRoot } = options
  const waiting = new UdevdAnswers(clock, signal, follower, log)
  const udevd = { runs: udevdRuns(runUdevRoot) }
  owned(listen(options, udevd, follower, waiting, signal), log)
  owned(followUdevd(options, udevd, follower, signal), log)
}

/** Keeps the sockets open; a broken one is opened anew. Without any, looks again and again. Begins before it returns. */
async function listen(
  { clock, log, pollMs, openSocket = openUeventSocket }: UeventSourceOptions,
  udevd: { readonly runs: boolean },
  follower: UeventListener,
  waiting: UdevdAnswers,
  signal: AbortSignal,
): Promise<void> {
  for (let warned = false; !signal.aborted; ) {
    const broken = new AbortController()
    const onStop = () => broken.abort()
    signal.addEventListener('abort', onStop, { once: true })
    const closers: (() => void)[] = []
    const open = (source: MessageSource, onEvent: (event: Uevent) => void) => {
      const onLost = (reason: string, isBroken: boolean) => {
        follower.rescan(`events of ${source} were lost: ${reason}`)
        if (isBroken) broken.abort()
      }
      closers.push(openSocket(source, { onEvent, onLost }))
    }
    try {
      open('udev', (event) => {
        waiting.answered(event)
        follower.add(event)
      })
      open('kernel', (event) => (udevd.runs ? waiting.expect(event) : follower.add(event)))
      await aborted(broken.signal)
      if (!signal.aborted) await clock.sleep(REOPEN_MS, signal).catch(() => undefined)
      if (!signal.aborted) follower.rescan('the sockets are opened anew')
    } catch (error) {
      if (!warned)
        log.warn(
          { reason: messageOf(error), pollMs },
          'no device events here, looking again and again instead',
        )
      warned = true
      await clock.sleep(pollMs, signal).catch(() => undefined)
      if (!signal.aborted) follower.rescan('it is time')
    } finally {
      signal.removeEventListener('abort', onStop)
      for (const close of closers) close()
    }
  }
}

async function followUdevd(
  { clock, runUdevRoot }: UeventSourceOptions,
  udevd: { runs: boolean },
  follower: UeventListener,
  signal: AbortSignal,
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(UDEVD_CHECK_MS, signal).catch(() => undefined)
    const before = udevd.runs
    udevd.runs = udevdRuns(runUdevRoot)
    if (before !== udevd.runs && !signal.aborted)
      follower.rescan(udevd.runs ? 'udevd has come' : 'udevd has gone')
  }
}

function udevdRuns(runUdevRoot: string): boolean {
  return existsSync(path.join(runUdevRoot, 'control'))
}

/** How many events are remembered. */
const MAX_PENDING = 10_000

/** Events of the kernel that udevd should pass on. */
class UdevdAnswers {
  readonly #clock: Clock
  readonly #signal: AbortSignal
  readonly #follower: UeventListener
  readonly #log: Logger
  readonly #pending = new Set<string>()
  /** The last few: two sockets have no order, and udevd's message may be read before the kernel's. */
  readonly #answered = new Set<string>()
  #timer = false
  #warned = false

  constructor(clock: Clock, signal: AbortSignal, follower: UeventListener, log: Logger) {
    this.#clock = clock
    this.#signal = signal
    this.#follower = follower
    this.#log = log
  }

  expect({ properties }: Uevent): void {
    const number = properties.get('SEQNUM')
    if (number === undefined || this.#answered.has(number) || this.#pending.size > MAX_PENDING)
      return
    this.#pending.add(number)
    if (this.#timer) return
    this.#timer = true
    owned(this.#check(), this.#log)
  }

  answered({ properties }: Uevent): void {
    const number = properties.get('SEQNUM') ?? ''
    this.#pending.delete(number)
    this.#answered.add(number)
    if (this.#answered.size > MAX_PENDING)
      for (const oldest of [...this.#answered].slice(0, MAX_PENDING / 2))
        this.#answered.delete(oldest)
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
      this.#follower.rescan('udevd has not passed on what the kernel said')
    }
    this.#timer = false
  }
}

function owned(work: Promise<void>, log: Logger): void {
  work.catch((error: unknown) => log.error({ err: error }, 'watching for devices failed'))
}
