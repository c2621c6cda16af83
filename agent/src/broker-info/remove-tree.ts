import { randomBytes } from 'node:crypto'
import { constants } from 'node:fs'
import { chmod, open, opendir, rename, rmdir, unlink } from 'node:fs/promises'

/** How often a directory is gone through into which somebody goes on to write, and how much deeper is moved up. */
const MAX_PASSES = 3
const MAX_MOVES = 100_000

/** open(2): only found, so that no right to read it is needed. */
const O_PATH = 0o10000000
const FIND = O_PATH | constants.O_DIRECTORY | constants.O_NOFOLLOW

/**
 * Removes a directory with all that is in it, however much and however deep, while somebody may still be writing into it:
 * nothing is listed as a whole, no link is followed, also none that has just taken the place of a directory, and no path is
 * longer than two names below it, because what is deeper is moved up first.
 *
 * Rejects with the system's error where something cannot be removed. @param directory its parents must be nobody else's
 */
export async function removeTree(directory: string, signal: AbortSignal): Promise<void> {
  const prefix = `moved-${randomBytes(6).toString('hex')}-`
  let moved = 0
  const found = await pinned(directory, async (top) => {
    const branch = (parent: string) =>
      eachEntry(parent, signal, async (child, isDirectory) => {
        if (!isDirectory) return unlink(child)
        // What it holds moves only with the right to write into it.
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

/** @returns false where there is no such directory any more, or something else in its place */
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
  // Names as they are: they need not be UTF-8.
  for await (const entry of await opendir(directory, { encoding: 'buffer' as BufferEncoding })) {
    if (signal.aborted) return
    // Something else may have its name by now: the next pass will see.
    await work(
      Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(entry.name)]),
      entry.isDirectory(),
    ).catch(unless('ENOENT', 'EISDIR', 'ENOTDIR', 'ENOTEMPTY'))
  }
}

function unless(...codes: readonly string[]): (error: unknown) => undefined {
  return (error) => {
    if (error instanceof Error && 'code' in error && codes.includes(String(error.code)))
      return undefined
    throw error
  }
}
