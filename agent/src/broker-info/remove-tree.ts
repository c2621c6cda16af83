import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, open, opendir, rename, rmdir, unlink } from 'node:fs/promises'
import { codeOf } from '@akrijs/runtime'

/**
 * Bounds for a directory into which a process still writes: passes over it, and directories that
 * are moved up.
 */
const MAX_PASSES = 3
const MAX_MOVES = 100_000

/** open(2): finds a directory without the right to read it. */
const O_PATH = 0o10000000
const FIND = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW

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
        await rmdir(child).catch(unless('ENOTEMPTY'))
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
  const handle = await open(directory, FIND).catch(unless('ENOENT', 'ENOTDIR', 'ELOOP'))
  if (handle === undefined) return false
  try {
    const path = `/proc/self/fd/${handle.fd}`
    await chmod(path, 0o700).catch(unless('EPERM'))
    await work(path)
    return true
  } finally {
    await handle.close()
  }
}

async function eachEntry(
  directory: string,
  signal: AbortSignal,
  work: (child: Buffer, isDirectory: boolean) => Promise<unknown>,
): Promise<void> {
  // Names as bytes: they need not be UTF-8.
  for await (const entry of await opendir(directory, { encoding: 'buffer' as BufferEncoding })) {
    if (signal.aborted) return
    // Another entry may have the name by now. The next pass handles it.
    await work(
      Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(entry.name)]),
      entry.isDirectory(),
    ).catch(unless('ENOENT', 'EISDIR', 'ENOTDIR', 'ENOTEMPTY'))
  }
}

function unless(...codes: readonly string[]): (error: unknown) => undefined {
  return (error) => {
    if (codes.includes(String(codeOf(error)))) return undefined
    throw error
  }
}
