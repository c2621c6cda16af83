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

/** Where its sockets go: the state directory, or, where that is too long for them, one in the temporary directory. */
export function socketDirectory(stateDirectory: string): string {
  if (Buffer.byteLength(stateDirectory) + LONGEST_SOCKET <= MAX_SOCKET_PATH) return stateDirectory
  const digest = Buffer.from(stateDirectory)
    .reduce((hash, byte) => (hash * 31 + byte) >>> 0, 7)
    .toString(16)
  return path.join(os.tmpdir(), `akri-${process.getuid?.() ?? 0}-${digest}`)
}

export function controlSocket(stateDirectory: string): string {
  return path.join(socketDirectory(stateDirectory), 'control.sock')
}
