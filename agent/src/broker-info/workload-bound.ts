import { constants } from 'node:fs'
import { chmod, lstat, open, opendir, unlink } from 'node:fs/promises'
import { MAX_FILE_BYTES } from './read-workload.js'
import { removeTree } from './remove-tree.js'

/** What a workload may keep on the disk of its node: far more than what is reported. */
export const MAX_DISK_BYTES = 1_048_576
export const MAX_DISK_FILES = 1000

/** open(2): finds a file without opening it. Opening a pipe or a device can have an effect. */
const O_PATH = 0o10000000
const FIND = O_PATH | constants.O_NOFOLLOW
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW
const WRITE = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY

export interface Excess {
  /** Whether all files had to go. Otherwise only directories had to. */
  readonly isOverBound: boolean
  /** Whether a part is still there: the agent has no right to remove files of other users. */
  readonly isLeft: boolean
}

/**
 * Keeps the directory of a workload within its bound while the workload writes. A directory below
 * it is removed: it is never reported, and no watch shows what is in it. Beyond the bound all files
 * go, and only root may enter the directory from then on.
 *
 * @returns undefined if nothing had to go
 */
export async function boundWorkload(
  directory: string,
  signal: AbortSignal,
): Promise<Excess | undefined> {
  // `readWorkload` reports a directory that cannot be opened.
  const top = await open(directory, DIRECTORY).catch(() => undefined)
  if (top === undefined) return undefined
  try {
    const path = `/proc/self/fd/${top.fd}`
    const isOverBound = await exceedsBound(path)
    if (isOverBound) await chmod(path, 0o700).catch(() => undefined)
    let excess: Excess | undefined
    for await (const { child, isDirectory } of entriesOf(path)) {
      if (signal.aborted) break
      if (!isOverBound && !isDirectory) continue
      excess ??= { isOverBound, isLeft: false }
      await (isDirectory ? removeTree(child, signal) : removeFile(child)).catch(() => {
        excess = { isOverBound, isLeft: true }
      })
    }
    return excess
  } finally {
    await top.close()
  }
}

async function exceedsBound(directory: string): Promise<boolean> {
  let files = 0
  let bytes = 0
  for await (const { child, isDirectory } of entriesOf(directory)) {
    if (isDirectory) continue
    // In units of 512 bytes. The size of a file counts holes too, which take no room.
    bytes += 512 * ((await lstat(child).catch(() => undefined))?.blocks ?? 0)
    if (++files > MAX_DISK_FILES || bytes > MAX_DISK_BYTES) return true
  }
  return false
}

/**
 * Empties a large file, if the agent has the right to. A process may have it open: the next bytes
 * of a file without a name would be on the disk, and no look would find them.
 */
async function removeFile(child: Buffer): Promise<void> {
  const found = await open(child, FIND)
  try {
    const stats = await found.stat()
    if (stats.isFile() && stats.nlink === 1 && stats.size > MAX_FILE_BYTES) {
      const file = await open(`/proc/self/fd/${found.fd}`, WRITE).catch(() => undefined)
      if (file !== undefined) return await file.truncate(0).finally(() => file.close())
    }
  } finally {
    await found.close()
  }
  await unlink(child)
}

async function* entriesOf(
  directory: string,
): AsyncGenerator<{ readonly child: Buffer; readonly isDirectory: boolean }, void, void> {
  // Names as bytes: they need not be UTF-8.
  for await (const entry of await opendir(directory, { encoding: 'buffer' as BufferEncoding }))
    yield {
      child: Buffer.concat([Buffer.from(`${directory}/`), Buffer.from(entry.name)]),
      isDirectory: entry.isDirectory(),
    }
}
