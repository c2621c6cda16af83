import { createHash } from 'node:crypto'
import { lstat, readlink, realpath, rename, rm, stat, symlink } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { InvalidOptionError, MAX_SOCKET_PATH, messageOf } from '@akrijs/runtime'
import { StateFileError } from '@akrijs/standalone'

/** The longest path of a socket below the socket directory, in bytes. */
const LONGEST_SOCKET = 60
/** A link in the state directory, if the sockets are in another directory. */
const SOCKETS_LINK = 'sockets'

/** @throws InvalidOptionError if `defaultStateDirectory` has found none */
export function requireStateDirectory(stateDirectory: string): void {
  if (stateDirectory === '')
    throw new InvalidOptionError(
      'there is no home directory for the state of the agent; choose a directory with --state-dir',
    )
}

/**
 * The directory for the sockets of a new agent: the state directory. If its path is too long for
 * sockets, a directory in the temporary directory. All paths of a state directory give the same.
 */
export async function socketDirectory(stateDirectory: string): Promise<string> {
  // Without a state directory there are no sockets.
  const real = await realpath(stateDirectory).catch(() => stateDirectory)
  if (Buffer.byteLength(real) + LONGEST_SOCKET <= MAX_SOCKET_PATH) return real
  const digest = createHash('sha256').update(real).digest('hex').slice(0, 12)
  return path.resolve(os.tmpdir(), `akri-${process.getuid?.() ?? 0}-${digest}`)
}

/**
 * Links the state directory to its sockets, for users with another temporary directory. The caller
 * has locked the state directory.
 * @throws StateFileError
 */
export async function writeSocketsLink(stateDirectory: string, sockets: string): Promise<void> {
  await removeSocketsLink(stateDirectory)
  if (sockets === (await realpath(stateDirectory))) return
  const link = path.join(stateDirectory, SOCKETS_LINK)
  await symlink(sockets, `${link}.new`).catch(linkProblem(`${link}.new`))
  await rename(`${link}.new`, link).catch(linkProblem(link))
}

/** @throws StateFileError */
export async function removeSocketsLink(stateDirectory: string): Promise<void> {
  const link = path.join(stateDirectory, SOCKETS_LINK)
  for (const name of [link, `${link}.new`]) await rm(name, { force: true }).catch(linkProblem(name))
}

function linkProblem(file: string): (error: unknown) => never {
  return (error) => {
    const message = `${file} cannot be a link to the sockets: ${messageOf(error)}; remove it`
    throw new StateFileError(message, { cause: error })
  }
}

/**
 * The control socket of the agent that uses a state directory.
 * @throws InvalidOptionError if there is no such directory
 */
export async function controlSocket(stateDirectory: string): Promise<string> {
  requireStateDirectory(stateDirectory)
  const linked = await readlink(path.join(stateDirectory, SOCKETS_LINK)).catch(() => undefined)
  const isTrusted = linked !== undefined && (await isTrustedOwner(linked, stateDirectory))
  return controlSocketIn(isTrusted ? linked : await socketDirectory(stateDirectory))
}

/** The link of a killed agent stays, and another user may have made a directory of that name. */
async function isTrustedOwner(sockets: string, stateDirectory: string): Promise<boolean> {
  const [found, state] = await Promise.all([lstat(sockets), stat(stateDirectory)]).catch(() => [])
  return found?.isDirectory() === true && [0, state?.uid, process.getuid?.()].includes(found.uid)
}

export function controlSocketIn(sockets: string): string {
  return path.join(sockets, 'control.sock')
}
