import { randomBytes } from 'node:crypto'
import { link, lstat, mkdir, rename, rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { codeOf, defineError } from '../errors/errors.js'

/**
 * The longest path of a unix socket on Linux, in bytes: the size of `sun_path` without its final
 * NUL.
 */
export const MAX_SOCKET_PATH = 107

/**
 * A unix socket cannot be created: its path is too long, served by another process, or not
 * writable.
 */
export class SocketUnusableError extends defineError('AKRI_ERR_SOCKET_UNUSABLE', 'terminal') {}

/**
 * Prepares the path for a server: creates its directory, and removes the socket of a program that
 * has died.
 * @throws SocketUnusableError if the path is too long, is not a socket, or is served already
 */
export async function makeRoomForSocket(file: string): Promise<void> {
  checkSocketPath(file)
  await mkdir(path.dirname(file), { recursive: true })
  const stat = await lstat(file).catch(absent)
  if (stat === undefined) return
  if (!stat.isSocket())
    throw new SocketUnusableError(
      `${file} is in the way: it is not a socket. Remove it, or give another directory`,
    )
  if ((await isServed(file)) || !(await removeStale(file)))
    throw new SocketUnusableError(`${file} is served by another process already`)
}

/**
 * Removes the socket of a program that has died. Two programs may do so at the same time: the
 * first may have created its own socket before the second removes the old one. So the socket is
 * moved aside and checked again.
 * @returns false if a process serves the socket after all
 */
async function removeStale(file: string): Promise<boolean> {
  // Not longer than its name: paths of sockets are short.
  const name = randomBytes(16).toString('hex').slice(0, path.basename(file).length)
  const aside = path.join(path.dirname(file), name)
  if (!(await rename(file, aside).then(() => true, absent))) return true
  const served = await isServed(aside)
  // Not renamed back: a socket that exists there by now stays.
  if (served) await link(aside, file).catch(() => undefined)
  await rm(aside, { force: true })
  return !served
}

export function checkSocketPath(file: string): void {
  const bytes = Buffer.byteLength(file)
  if (bytes > MAX_SOCKET_PATH) {
    throw new SocketUnusableError(
      `${file} has ${bytes} bytes; the path of a socket has ${MAX_SOCKET_PATH} at most. ` +
        'Give a shorter directory',
    )
  }
}

/** The time for a connection over the network, in milliseconds. */
const CONNECT_MS = 1000

/**
 * Whether a process may listen there: at the path of a unix socket, or at a network address. Only a
 * refused connection proves that no process does, or a network that does not answer.
 */
export function isServed(
  at: string | { readonly host: string; readonly port: number },
): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = net.connect(typeof at === 'string' ? { path: at } : at)
    socket.setTimeout(CONNECT_MS, () => {
      socket.destroy()
      // A process that is stopped keeps its unix socket.
      resolve(typeof at === 'string')
    })
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', (error) =>
      resolve(!['ECONNREFUSED', 'ENOENT'].includes(String(codeOf(error)))),
    )
  })
}

function absent(error: unknown): undefined {
  if (codeOf(error) === 'ENOENT') return undefined
  throw error
}
