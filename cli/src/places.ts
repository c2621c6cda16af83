import { createHash } from 'node:crypto'
import { lstat, readlink, realpath, rename, rm, stat, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { MAX_SOCKET_PATH, messageOf } from '@akrijs/runtime'
import { StateFileError } from '@akrijs/standalone'

/** The longest that a socket's name below the socket directory gets, in bytes: `kubelet/device-plugins/akri-…-xxxxxxxx.sock`. */
const LONGEST_SOCKET = 60
/** In the state directory, a link to where its sockets are, while these are not beside it. */
const SOCKETS_LINK = 'sockets'

/** Where the standalone agent keeps its state: AKRI_STATE_DIRECTORY, /var/lib/akri-standalone for root, else by XDG. */
export function defaultStateDirectory(
  environment: Readonly<Record<string, string | undefined>> = process.env,
): string {
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
  return path.resolve(os.tmpdir(), `akri-${process.getuid?.() ?? 0}-${digest}`)
}

/**
 * Leaves word for those who have another temporary directory. To be called by who has the state directory for himself.
 * @throws StateFileError
 */
export async function leaveWordOfSockets(stateDirectory: string, sockets: string): Promise<void> {
  await takeWordOfSocketsBack(stateDirectory)
  if (sockets === (await realpath(stateDirectory))) return
  const link = path.join(stateDirectory, SOCKETS_LINK)
  await symlink(sockets, `${link}.new`).catch(inTheWay(`${link}.new`))
  await rename(`${link}.new`, link).catch(inTheWay(link))
}

/** @throws StateFileError */
export async function takeWordOfSocketsBack(stateDirectory: string): Promise<void> {
  const link = path.join(stateDirectory, SOCKETS_LINK)
  for (const one of [link, `${link}.new`]) await rm(one, { force: true }).catch(inTheWay(one))
}

function inTheWay(file: string): (error: unknown) => never {
  return (error) => {
    throw new StateFileError(
      `${file} is to be a link to the sockets: ${messageOf(error)}; remove what is there`,
      {
        cause: error,
      },
    )
  }
}

/** Where the agent that works on a state directory answers. */
export async function controlSocket(stateDirectory: string): Promise<string> {
  const told = await readlink(path.join(stateDirectory, SOCKETS_LINK)).catch(() => undefined)
  const believed = told !== undefined && (await isOfUs(told, stateDirectory))
  return controlSocketIn(believed ? told : await socketDirectory(stateDirectory))
}

/** An agent that was killed leaves its word there, and who empties the temporary directory makes room for somebody else's. */
async function isOfUs(sockets: string, stateDirectory: string): Promise<boolean> {
  const [found, state] = await Promise.all([lstat(sockets), stat(stateDirectory)]).catch(() => [])
  return found?.isDirectory() === true && [0, state?.uid, process.getuid?.()].includes(found.uid)
}

export function controlSocketIn(sockets: string): string {
  return path.join(sockets, 'control.sock')
}
