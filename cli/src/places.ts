import { createHash } from 'node:crypto'
import { readlink, realpath, rename, rm, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { MAX_SOCKET_PATH } from '@akrijs/sdk/host'

/** The longest that a socket's name below the socket directory gets, in bytes: `kubelet/device-plugins/akri-…-xxxxxxxx.sock`. */
const LONGEST_SOCKET = 60
/** In the state directory, a link to where its sockets are, while these are not beside it. */
const SOCKETS_LINK = 'sockets'

/** Where the standalone agent keeps its state: AKRI_STATE_DIRECTORY, /var/lib/akri-standalone for root, else by XDG. */
export function defaultStateDirectory(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  if (environment.AKRI_STATE_DIRECTORY) return path.resolve(environment.AKRI_STATE_DIRECTORY)
  if (process.getuid?.() === 0) return '/var/lib/akri-standalone'
  return path.join(environment.XDG_STATE_HOME || path.join(os.homedir(), '.local/state'), 'akri')
}

/**
 * Where the sockets of a new agent go: the state directory, or, where that is too long for them, one in the temporary directory. It is the
 * same one however the path is spelt.
 */
export async function socketDirectory(stateDirectory: string): Promise<string> {
  // Where there is none, nobody has made sockets.
  const real = await realpath(stateDirectory).catch(() => stateDirectory)
  if (Buffer.byteLength(real) + LONGEST_SOCKET <= MAX_SOCKET_PATH) return real
  const digest = createHash('sha256').update(real).digest('hex').slice(0, 12)
  return path.join(os.tmpdir(), `akri-${process.getuid?.() ?? 0}-${digest}`)
}

/** Leaves word for those who have another temporary directory. To be called by who has the state directory for himself. */
export async function leaveWordOfSockets(stateDirectory: string, sockets: string): Promise<void> {
  const link = path.join(stateDirectory, SOCKETS_LINK)
  if (sockets === (await realpath(stateDirectory))) return rm(link, { force: true })
  const made = `${link}.new`
  await rm(made, { force: true })
  await symlink(sockets, made)
  await rename(made, link)
}

/** Where the agent that works on a state directory answers. */
export async function controlSocket(stateDirectory: string): Promise<string> {
  const told = await readlink(path.join(stateDirectory, SOCKETS_LINK)).catch(() => undefined)
  return controlSocketIn(told ?? (await socketDirectory(stateDirectory)))
}

export function controlSocketIn(sockets: string): string {
  return path.join(sockets, 'control.sock')
}
