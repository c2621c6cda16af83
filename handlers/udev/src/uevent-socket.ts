import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import { AkriError, messageOf } from '@akrijs/sdk'
import type { Uevent } from './device-monitor.js'
import { type MessageSource, parseUeventMessage } from './uevent-message.js'

/** There is no socket for events here; the message says why. Devices have to be looked at again and again instead. */
export class UeventSocketError extends AkriError {
  constructor(reason: string, options?: { cause?: unknown }) {
    super('AKRI_ERR_UEVENT_SOCKET', 'transient', reason, options)
    this.name = 'UeventSocketUnavailableError'
  }
}

export interface UeventSocketListener {
  onEvent(event: Uevent): void
  /** Events were lost. `broken`: no more will come, open another socket. */
  onLost(reason: string, broken: boolean): void
}

/** Enough for the events of a machine that boots; more than the system allows is given to root only. */
const RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024

/** Netlink's multicast groups of NETLINK_KOBJECT_UEVENT. */
const GROUPS: Readonly<Record<MessageSource, number>> = { kernel: 1, udev: 2 }

/** What uevent.c offers. */
interface Addon {
  open(
    groups: number,
    receiveBufferBytes: number,
    callback: (message: Buffer | null, errno: number, port: number, uid: number) => void,
  ): () => void
}

/**
 * Listens to the kernel's events, or to those that udevd sends on when its rules have run.
 * @returns closes the socket; may be called twice
 * @throws UeventSocketUnavailableError
 */
export function openUeventSocket(
  source: MessageSource,
  listener: UeventSocketListener,
): () => void {
  try {
    return loadAddon().open(GROUPS[source], RECEIVE_BUFFER_BYTES, (message, errno, port, uid) => {
      if (message === null)
        return listener.onLost(
          errno === ENOBUFS ? 'more than the buffer holds' : `error ${errno}`,
          !HARMLESS.has(errno),
        )
      // Anybody may send to the socket directly: the kernel has port 0, and udevd is root (or root of our namespace's parent).
      if (source === 'kernel' ? port !== 0 : uid !== 0 && uid !== OVERFLOW_UID) return
      const event = parseUeventMessage(message, source)
      if (event !== undefined) listener.onEvent(event)
    })
  } catch (error) {
    if (error instanceof UeventSocketError) throw error
    throw new UeventSocketError(
      `the socket for device events cannot be opened: ${messageOf(error)}`,
      { cause: error },
    )
  }
}

/** The buffer was full: the kernel dropped messages. */
const ENOBUFS = os.constants.errno.ENOBUFS
/** The socket goes on after these; the other is a message too long to be one of ours. */
const HARMLESS: ReadonlySet<number> = new Set([ENOBUFS, os.constants.errno.EMSGSIZE])

/** What a user that has no number in our user namespace is seen as. */
const OVERFLOW_UID = 65_534

let addon: Addon | undefined

function loadAddon(): Addon {
  if (addon !== undefined) return addon
  const target = `${process.platform}-${process.arch}`
  const file = fileURLToPath(new URL(`../prebuilds/${target}/uevent.node`, import.meta.url))
  if (!existsSync(file)) throw new UeventSocketError(`there is no binary for ${target}`)
  const loaded: unknown = createRequire(import.meta.url)(file)
  if (!isAddon(loaded)) throw new UeventSocketError(`${file} is not the addon of this package`)
  addon = loaded
  return addon
}

function isAddon(value: unknown): value is Addon {
  return (
    typeof value === 'object' &&
    value !== null &&
    'open' in value &&
    typeof value.open === 'function'
  )
}
