import { constants, type FSWatcher, statSync, watch } from 'node:fs'
import { open } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { type DeviceList, defineDiscoveryHandler, InvalidHandlerError } from '@akrijs/sdk'
import { debugEchoDetails } from './details.js'

export interface DebugEchoOptions {
  /** Whether the nodes share the devices. @default true */
  readonly shared?: boolean
  /**
   * While this file contains `OFFLINE`, there are no devices. @default
   * '/tmp/debug-echo-availability.txt'
   */
  readonly availabilityFile?: string
  /** A change of that file is read after so many milliseconds at most. @default 1000 */
  readonly intervalMs?: number
}

/**
 * How often a file is read without a change, in milliseconds: not each file system tells of
 * changes.
 */
const UNCHANGED_MS = 10_000
/** The handler reads only the start of the availability file. */
const MAX_BYTES = 64 * 1024

/** A handler for tests and first steps: it offers one device for each of `descriptions`. */
export function createDebugEcho(options: DebugEchoOptions = {}) {
  const {
    shared = true,
    availabilityFile = '/tmp/debug-echo-availability.txt',
    intervalMs = 1000,
  } = options
  return defineDiscoveryHandler({
    name: 'debugEcho',
    shared,
    details: debugEchoDetails,
    async *discover({ details: { descriptions }, signal, log }) {
      const online: DeviceList = [...new Set(descriptions)].map((description) => ({
        id: description,
        properties: { DEBUG_ECHO_DESCRIPTION: description },
      }))
      let wasOffline: boolean | undefined
      while (!signal.aborted) {
        const begun = performance.now()
        // Before the file is read, so that no change is missed.
        using change = new FileChange(availabilityFile, signal)
        const offline = await isOffline(availabilityFile)
        if (offline !== wasOffline) {
          if (offline || wasOffline) log.info({ offline, availabilityFile }, 'availability changed')
          wasOffline = offline
          yield offline ? [] : online
        }
        await change.within(UNCHANGED_MS)
        // A file that changes all the time.
        await pause(begun + intervalMs - performance.now(), signal)
      }
    },
  })
}

/**
 * Reads `DEBUG_ECHO_INSTANCES_SHARED`, which Akri's chart sets, and `DEBUG_ECHO_AVAILABILITY_FILE`,
 * so that several agents on one machine can have separate files.
 * @throws InvalidHandlerError if the first is neither `true` nor `false`, or the second is not an
 * absolute path
 */
export function optionsFromEnvironment(
  environment: Readonly<Record<string, string | undefined>>,
): DebugEchoOptions {
  const {
    DEBUG_ECHO_INSTANCES_SHARED: shared = 'true',
    DEBUG_ECHO_AVAILABILITY_FILE: availabilityFile,
  } = environment
  if (shared !== 'true' && shared !== 'false')
    throw new InvalidHandlerError(
      `DEBUG_ECHO_INSTANCES_SHARED is ${JSON.stringify(shared)}; it must be true or false`,
    )
  if (availabilityFile !== undefined && !path.isAbsolute(availabilityFile))
    throw new InvalidHandlerError(
      `DEBUG_ECHO_AVAILABILITY_FILE is ${JSON.stringify(availabilityFile)}; it must be an ` +
        'absolute path',
    )
  return {
    shared: shared === 'true',
    ...(availabilityFile === undefined ? {} : { availabilityFile }),
  }
}

/**
 * A change of a file, which need not exist. If its directory cannot be watched, the file may have
 * changed.
 */
class FileChange implements Disposable {
  readonly #signal: AbortSignal
  readonly #over = new AbortController()
  readonly #end = () => this.#over.abort()
  #watcher: FSWatcher | undefined

  /** @param signal ends the wait for the change */
  constructor(file: string, signal: AbortSignal) {
    this.#signal = signal
    // Not AbortSignal.any, which leaves a few bytes on `signal` (Node 20).
    signal.addEventListener('abort', this.#end, { once: true })
    if (signal.aborted) this.#end()
    try {
      this.#watcher = watch(path.dirname(file), { persistent: false }, (_event, name) => {
        if (name === path.basename(file)) this.#end()
      })
      this.#watcher.on('error', this.#end)
    } catch {
      this.#end()
    }
  }

  /** Resolves after the change, at the latest after `ms`. */
  async within(ms: number): Promise<void> {
    await pause(ms, this.#over.signal)
  }

  [Symbol.dispose](): void {
    this.#signal.removeEventListener('abort', this.#end)
    this.#watcher?.close()
  }
}

async function pause(ms: number, signal: AbortSignal): Promise<void> {
  if (ms > 0) await setTimeout(ms, undefined, { signal }).catch(() => undefined)
}

/** With an unreadable file, or what is not a regular file, the devices are available. */
async function isOffline(file: string): Promise<boolean> {
  try {
    // Usually there is no such file. This call costs a tenth of a failure of `open`.
    if (!statSync(file, { throwIfNoEntry: false })?.isFile()) return false
    // The file can become a FIFO meanwhile, which would block a thread of the process.
    await using handle = await open(file, constants.O_RDONLY | constants.O_NONBLOCK)
    const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAX_BYTES), 0, MAX_BYTES, 0)
    return buffer.subarray(0, bytesRead).includes('OFFLINE')
  } catch {
    return false
  }
}
