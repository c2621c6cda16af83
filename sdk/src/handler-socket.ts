import { lstat } from 'node:fs/promises'
import path from 'node:path'

/**
 * The path of a handler's socket: `<name>.sock`. In the directory of the agent a process cannot
 * remove the file of another user. If such a file has this path, the handler serves
 * `<name>-<user id>.sock`: the handler may have moved to a Pod of another user, and the file can
 * be that of the Pod before, which still runs or was killed.
 */
export async function handlerSocket(directory: string, name: string): Promise<string> {
  const file = path.join(directory, `${name}.sock`)
  const [found, parent] = await Promise.all([statOf(file), statOf(directory)])
  const user = process.geteuid?.()
  const isSticky = ((parent?.mode ?? 0) & STICKY) !== 0
  return isSticky && found !== undefined && found.uid !== user && parent?.uid !== user
    ? path.join(directory, `${name}-${user}.sock`)
    : file
}

/** Only the owner of a file, or of its directory, may remove the file. */
const STICKY = 0o1000

/** Undefined if there is no such file. */
const statOf = (file: string) => lstat(file).catch(() => undefined)
