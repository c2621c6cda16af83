import { existsSync } from 'node:fs'
import path from 'node:path'
import { aborted, type Clock, type Logger } from '@akrijs/sdk'
import type { MessageSource, Uevent } from './device-monitor.js'
import { kernelSendsEvents, udevdSharesNetwork } from './network-namespace.js'
import { openUeventSocket } from './uevent-socket.js'

interface UeventSourceOptions {
  readonly log: Logger
  readonly clock: Clock
  /** The directory of udevd's `control` socket. */
  readonly runUdevRoot: string
  /** Receives why changes are found late; undefined when events arrive. */
  onProblem(problem: string | undefined): void
}

interface UeventSockets {
  /** Opens a socket, or throws. @default openUeventSocket */
  readonly openSocket?: typeof openUeventSocket
  /** Whether the events of the kernel reach the sockets. @default kernelSendsEvents */
  readonly canHear?: () => boolean
  /** The interval between scans without events, in milliseconds. @default 10000 */
  readonly pollMs?: number
}

interface UeventListener {
  add(event: Uevent): void
  /** The change is unknown: scan everything. */
  rescan(reason: string): void
}

/** The wait before a broken socket is opened again, in milliseconds. */
const REOPEN_MS = 1000

const NO_EVENTS = 'device events do not reach this user namespace, polling instead'
const NO_EVENTS_OF_UDEVD =
  'events of udevd do not reach this network namespace, reading its database'

/**
 * Reports events until the signal is aborted; opens the sockets before it returns. The events of
 * udevd come after its rules ran. The kernel's events are necessary too, because udevd's events
 * stay in its own network namespace: a Pod without the network of the host receives none.
 * @returns a function that checks again where udevd runs, and reports a change
 */
export function readUevents(
  options: UeventSourceOptions,
  listener: UeventListener,
  signal: AbortSignal,
  {
    openSocket = openUeventSocket,
    canHear = kernelSendsEvents,
    pollMs = 10_000,
  }: UeventSockets = {},
): () => void {
  const { log, runUdevRoot, onProblem } = options
  const isDeaf = !canHear()
  let problem: string | undefined
  let failure: string | undefined
  // A process keeps its user namespace, but udevd may start later, or elsewhere.
  if (isDeaf) {
    problem = NO_EVENTS
    log.warn({ pollMs }, problem)
  }
  const check = () => {
    if (isDeaf) return
    const runs = existsSync(path.join(runUdevRoot, 'control'))
    const found = runs && !udevdSharesNetwork(runUdevRoot) ? NO_EVENTS_OF_UDEVD : undefined
    if (found === problem) return
    problem = found
    log.info({}, problem ?? 'no udevd runs in another network namespace')
    onProblem(failure ?? problem)
  }
  check()
  const onSockets = (reason: string | undefined) => {
    failure = reason
    onProblem(failure ?? problem)
  }
  const feed = { ...options, listener, signal, pollMs, onProblem: onSockets }
  const work = [readSockets(feed, openSocket), ...(isDeaf ? [poll(feed)] : [])]
  for (const part of work)
    part.catch((error: unknown) => log.error({ err: error }, 'device monitor failed'))
  return check
}

interface UeventFeed extends UeventSourceOptions {
  readonly listener: UeventListener
  readonly signal: AbortSignal
  readonly pollMs: number
}

async function poll({ clock, listener, signal, pollMs }: UeventFeed): Promise<void> {
  while (!signal.aborted) {
    await clock.sleep(pollMs, signal).catch(() => undefined)
    if (!signal.aborted) listener.rescan('the poll interval is over')
  }
}

/** Keeps the sockets open, or polls without them. Opens the sockets before it returns. */
async function readSockets(
  { clock, log, listener, signal, pollMs, onProblem }: UeventFeed,
  openSocket: typeof openUeventSocket,
): Promise<void> {
  for (let warned = false; !signal.aborted; ) {
    const broken = new AbortController()
    const closers: (() => void)[] = []
    const open = (source: MessageSource) => {
      const onLost = (reason: string, isBroken: boolean) => {
        listener.rescan(`events of ${source} were lost: ${reason}`)
        if (isBroken) broken.abort()
      }
      closers.push(openSocket(source, { onEvent: (event) => listener.add(event), onLost }))
    }
    try {
      open('udev')
      open('kernel')
      onProblem(undefined)
      await Promise.race([aborted(broken.signal), aborted(signal, broken.signal)])
      await clock.sleep(REOPEN_MS, signal).catch(() => undefined)
      if (!signal.aborted) listener.rescan('the event sockets are opened again')
    } catch (error) {
      const problem = 'device events unavailable, polling instead'
      onProblem(problem)
      if (!warned) log.warn({ err: error, pollMs }, problem)
      warned = true
      await clock.sleep(pollMs, signal).catch(() => undefined)
      if (!signal.aborted) listener.rescan('the poll interval is over')
    } finally {
      broken.abort()
      for (const close of closers) close()
    }
  }
}
