import { createHash } from 'node:crypto'
import { realpath } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { MAX_SOCKET_PATH } from '@akrijs/sdk/host'

/** The longest that a socket's name below the socket directory gets, in bytes: `kubelet/device-plugins/akri-…-xxxxxxxx.sock`. */
const LONGEST_SOCKET = 60

/** Where the standalone agent keeps its state: AKRI_STATE_DIRECTORY, /var/lib/akri-standalone for root, else by XDG. */
export function defaultStateDirectory(environment: Readonly<Record<string, string | undefined>> = process.env): string {
  if (environment.AKRI_STATE_DIRECTORY) return path.resolve(environment.AKRI_STATE_DIRECTORY)
  if (process.getuid?.() === 0) return '/var/lib/akri-standalone'
  return path.join(environment.XDG_STATE_HOME || path.join(os.homedir(), '.local/state'), 'akri')
}

/**
 * Where its sockets go: the state directory, or, where that is too long for them, one in the temporary directory. It is the
 * same one however the path is spelt.
 */
export async function socketDirectory(stateDirectory: string): Promise<string> {
  // Where there is none, nobody has made sockets.
  const real = await realpath(stateDirectory).catch(() => stateDirectory)
  if (Buffer.byteLength(real) + LONGEST_SOCKET <= MAX_SOCKET_PATH) return real
  const digest = createHash('sha256').update(real).digest('hex').slice(0, 12)
  return path.join(os.tmpdir(), `akri-${process.getuid?.() ?? 0}-${digest}`)
}

export async function controlSocket(stateDirectory: string): Promise<string> {
  return path.join(await socketDirectory(stateDirectory), 'control.sock')
}
