import { existsSync } from 'node:fs'
import path from 'node:path'
import { aborted, type Clock, type Logger } from '@akrijs/sdk'
import type { Uevent } from './device-monitor.js'
import type { MessageSource } from './uevent-message.js'
import { openUeventSocket } from './uevent-socket.js'

interface UeventSourceOptions {
  readonly log: Logger
  readonly clock: Clock
  /** The directory of udevd's `control` socket, which exists while udevd runs. */
  readonly runUdevRoot: string
}

interface UeventSockets {
  /** Opens a socket, or throws. @default openUeventSocket */
  readonly openSocket?: typeof openUeventSocket
  /** The interval between scans without an event socket, in milliseconds. @default 10000 */
  readonly pollMs?: number
}

interface UeventListener {
  add(event: Uevent): void
  /** The change is unknown: scan everything. */
  rescan(reason: string): void
}

interface UeventFeed extends UeventSourceOptions {
  readonly listener: UeventListener
  readonly signal: AbortSignal
}

/** How long udevd may take to process an event of the kernel, in milliseconds. */
const UDEVD_ANSWER_MS = 2000
/** The wait before a broken socket is opened again, in milliseconds. */
const REOPEN_MS = 1000
/** The interval between checks whether udevd runs, in milliseconds. */
const UDEVD_CHECK_MS = 10_000

/**
 * Reports events until the signal is aborted; opens the sockets before it returns. While udevd
 * runs, its events count: they come after its rules ran, and contain the results. The kernel's
 * events are necessary too, because udevd's events stay in its own network namespace: a Pod without
 * the network of the host receives none. There, a rescan follows {@link UDEVD_ANSWER_MS} after a
 * kernel event.
 */
export function readUevents(
  options: UeventSourceOptions,
  listener: UeventListener,
  signal: AbortSignal,
  sockets: UeventSockets = {},
): void {
  const feed = { ...options, listener, signal }
  const udevd = { isRunning: isUdevdRunning(options.runUdevRoot) }
  logFailure(readSockets(feed, udevd, sockets), options.log)
  logFailure(watchUdevd(feed, udevd), options.log)
}

/** Keeps the sockets open, or polls without them. Opens the sockets before it returns. */
async function readSockets(
  feed: UeventFeed,
  udevd: { readonly isRunning: boolean },
  { openSocket = openUeventSocket, pollMs = 10_000 }: UeventSockets,
): Promise<void> {
  const { clock, log, listener, signal } = feed
  const answers = new UdevdAnswers(feed)
  for (let warned = false; !signal.aborted; ) {
    const broken = new AbortController()
    const closers: (() => void)[] = []
    const open = (source: MessageSource, onEvent: (event: Uevent) => void) => {
      const onLost = (reason: string, isBroken: boolean) => {
        listener.rescan(`events of ${source} were lost: ${reason}`)
        if (isBroken) broken.abort()
      }
      closers.push(openSocket(source, { onEvent, onLost }))
    }
    try {
      open('udev', (event) => {
        answers.received(event)
        listener.add(event)
      })
      open('kernel', (event) => (udevd.isRunning ? answers.expect(event) : listener.add(event)))
      await Promise.race([aborted(broken.signal), aborted(signal, broken.signal)])
      await clock.sleep(REOPEN_MS, signal).catch(() => undefined)
      if (!signal.aborted) listener.rescan('the event sockets are opened again')
    } catch (error) {
      if (!warned) log.warn({ err: error, pollMs }, 'device events unavailable, polling instead')
      warned = true
      await clock.sleep(pollMs, signal).catch(() => undefined)
      if (!signal.aborted) listener.rescan('the poll interval is over')
    } finally {
      broken.abort()
      for (const close of closers) close()
    }
  }
}

async function watchUdevd(
  { clock, runUdevRoot, listener, signal }: UeventFeed,
  udevd: { isRunning: boolean },
): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(UDEVD_CHECK_MS, signal).catch(() => undefined)
    const wasRunning = udevd.isRunning
    udevd.isRunning = isUdevdRunning(runUdevRoot)
    if (wasRunning !== udevd.isRunning && !signal.aborted)
      listener.rescan(udevd.isRunning ? 'udevd started' : 'udevd ended')
  }
}

function isUdevdRunning(runUdevRoot: string): boolean {
  return existsSync(path.join(runUdevRoot, 'control'))
}

/** The limit of events without an answer, and of remembered answers. */
const MAX_EVENTS = 10_000

/** Kernel events that udevd should send again after its rules ran. */
class UdevdAnswers {
  readonly #feed: UeventFeed
  readonly #pending = new Set<string>()
  /** The latest answers: an answer may arrive before the kernel's event at the other socket. */
  readonly #answered = new Set<string>()
  #isChecking = false
  #warned = false

  constructor(feed: UeventFeed) {
    this.#feed = feed
  }

  expect({ properties }: Uevent): void {
    const number = properties.get('SEQNUM')
    if (number === undefined || this.#answered.has(number) || this.#pending.size > MAX_EVENTS)
      return
    this.#pending.add(number)
    if (this.#isChecking) return
    this.#isChecking = true
    logFailure(this.#check(), this.#feed.log)
  }

  received({ properties }: Uevent): void {
    const number = properties.get('SEQNUM') ?? ''
    this.#pending.delete(number)
    this.#answered.add(number)
    if (this.#answered.size > MAX_EVENTS)
      for (const oldest of [...this.#answered].slice(0, MAX_EVENTS / 2))
        this.#answered.delete(oldest)
  }

  async #check(): Promise<void> {
    const { clock, log, listener, signal } = this.#feed
    while (this.#pending.size > 0 && !signal.aborted) {
      const expected = [...this.#pending]
      await clock.sleep(UDEVD_ANSWER_MS, signal).catch(() => undefined)
      if (signal.aborted) return
      const unanswered = expected.filter((number) => this.#pending.delete(number))
      if (unanswered.length === 0) continue
      if (!this.#warned)
        log.info({ waitedMs: UDEVD_ANSWER_MS }, 'events of udevd missing in this namespace')
      this.#warned = true
      listener.rescan('udevd did not answer an event of the kernel')
    }
    this.#isChecking = false
  }
}

function logFailure(work: Promise<void>, log: Logger): void {
  work.catch((error: unknown) => log.error({ err: error }, 'device monitor failed'))
}
