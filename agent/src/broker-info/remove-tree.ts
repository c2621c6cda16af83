import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, type FileHandle, open, opendir, rename, rmdir, unlink } from 'node:fs/promises'
import { codeOf } from '@akrijs/runtime'

/**
 * Bounds for a directory into which a process still writes: passes over it, and directories that
 * are moved up.
 */
const MAX_PASSES = 3
const MAX_MOVES = 100_000

/**
 * open(2) with O_PATH: finds an entry without opening it, and without the right to read it. Opening
 * a pipe or a device can block or have an effect.
 */
export const FIND = 0o10000000 | constants.O_NOFOLLOW

/** Errors that the workload can cause at any moment: another entry has the name, or none. */
export const CHANGED = ['ENOENT', 'EISDIR', 'ENOTDIR', 'ELOOP']

/**
 * Removes a directory tree of any size and depth, while another process may still write into it.
 * The tree is never listed as a whole. No link is followed, not even a link that has just replaced
 * a directory. Paths stay short: deeper directories are moved up first.
 *
 * Rejects with the system's error if an entry cannot be removed.
 * @param directory in a parent that a handle names, or to which only the agent's user may write
 */
export async function removeTree(directory: string | Buffer, signal: AbortSignal): Promise<void> {
  const prefix = `moved-${randomBytes(6).toString('hex')}-`
  let moved = 0
  const found = await pinned(directory, async (top) => {
    const branch = (parent: string) =>
      eachEntry(parent, signal, async (child, isDirectory) => {
        if (!isDirectory) return unlink(child)
        // rename(2) of a directory needs the right to write into it.
        await pinned(child, async () => {})
        await rename(child, `${top}/${prefix}${moved++}`)
      })
    for (let pass = 1; !signal.aborted; pass++) {
      const before = moved
      let left = 0
      await eachEntry(top, signal, async (child, isDirectory) => {
        left++
        if (!isDirectory) return unlink(child)
        await pinned(child, branch)
        await rmdir(child)
      })
      if (left === 0 || moved > MAX_MOVES || (moved === before && pass >= MAX_PASSES)) return
    }
  })
  if (found && !signal.aborted) await rmdir(directory)
}

/** @returns false if the directory is gone, or is no directory any more */
async function pinned(
  directory: string | Buffer,
  work: (path: string) => Promise<unknown>,
): Promise<boolean> {
  const flags = FIND | constants.O_DIRECTORY
  await using handle = await open(directory, flags).catch(unless(...CHANGED))
  if (handle === undefined) return false
  await chmod(pathOf(handle), 0o700).catch(unless('EPERM'))
  await work(pathOf(handle))
  return true
}

async function eachEntry(
  directory: string,
  signal: AbortSignal,
  work: (child: Buffer, isDirectory: boolean) => Promise<unknown>,
): Promise<void> {
  for await (const { child, isDirectory } of entriesOf(directory)) {
    if (signal.aborted) return
    // The next pass handles an entry that has just changed.
    await work(child, isDirectory).catch(unless(...CHANGED, 'ENOTEMPTY'))
  }
}

/** @yields paths as bytes: names need not be UTF-8 */
export async function* entriesOf(
  directory: string,
): AsyncGenerator<{ readonly child: Buffer; readonly isDirectory: boolean }, void, void> {
  for await (const entry of await opendir(directory, { encoding: 'buffer' as BufferEncoding }))
    yield {
      child: Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(entry.name)]),
      isDirectory: entry.isDirectory(),
    }
}

/** The path of an open handle, because Node has no openat(2). */
export function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`
}

export function unless(...codes: readonly string[]): (error: unknown) => undefined {
  return (error) => {
    if (codes.includes(String(codeOf(error)))) return undefined
    throw error
  }
}
