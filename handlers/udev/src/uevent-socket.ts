import { existsSync } from 'node:fs'
import { createRequire } from 'node:module'
import os from 'node:os'
import { fileURLToPath } from 'node:url'
import { defineError, messageOf } from '@akrijs/sdk'
import type { MessageSource, Uevent } from './device-monitor.js'
import { parseUeventMessage } from './uevent-message.js'

/**
 * The socket for device events is not available, so the handler polls instead. The message has the
 * reason.
 */
export class UeventSocketError extends defineError('AKRI_ERR_UEVENT_SOCKET', 'transient') {}

export interface UeventSocketListener {
  onEvent(event: Uevent): void
  /** Events were lost. `isBroken`: this socket delivers no more events. */
  onLost(reason: string, isBroken: boolean): void
}

/** Enough for the events of a booting machine. Only root gets more than the limit of the system. */
const RECEIVE_BUFFER_BYTES = 8 * 1024 * 1024

/** The netlink multicast groups of NETLINK_KOBJECT_UEVENT. */
const GROUPS: Readonly<Record<MessageSource, number>> = { kernel: 1, udev: 2 }

/** The interface of uevent.c. */
interface Addon {
  open(
    groups: number,
    receiveBufferBytes: number,
    callback: (message: Buffer | null, errno: number, port: number, uid: number) => void,
  ): () => void
}

/**
 * Receives the events of the kernel, or those that udevd sends after its rules ran.
 * @returns a function that closes the socket; it may be called twice
 * @throws UeventSocketError
 */
export function openUeventSocket(
  source: MessageSource,
  listener: UeventSocketListener,
): () => void {
  try {
    return loadAddon().open(GROUPS[source], RECEIVE_BUFFER_BYTES, (message, errno, port, uid) => {
      if (message === null)
        return listener.onLost(
          errno === ENOBUFS ? 'the buffer is full' : `error ${errno}`,
          !HARMLESS.has(errno),
        )
      // Any process may send to this socket. The kernel has port 0, and udevd runs as root (or root
      // of the parent user namespace).
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

/** The buffer was full, and the kernel dropped messages. */
const ENOBUFS = os.constants.errno.ENOBUFS
/** The socket continues after these errors. EMSGSIZE: a message is too long to be an event. */
const HARMLESS: ReadonlySet<number> = new Set([ENOBUFS, os.constants.errno.EMSGSIZE])

/** The user id of users outside of this user namespace. */
const OVERFLOW_UID = 65_534

let addon: Addon | undefined

function loadAddon(): Addon {
  if (addon !== undefined) return addon
  const target = `${process.platform}-${process.arch}`
  const file = fileURLToPath(new URL(`../prebuilds/${target}/uevent.node`, import.meta.url))
  if (!existsSync(file)) throw new UeventSocketError(`no binary for ${target}`)
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
