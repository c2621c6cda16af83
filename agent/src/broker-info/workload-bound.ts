import { constants } from 'node:fs'
import { chmod, lstat, open, opendir, rmdir, stat, unlink } from 'node:fs/promises'
import { codeOf } from '@akrijs/runtime'
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

/** Errors that the workload can cause at any moment: another entry has the name, or none. */
const GONE = ['ENOENT', 'ENOTDIR', 'EISDIR', 'ELOOP']

export interface BoundLook {
  /**
   * `disk`: more than the bound was there, and had to go. `closed`: the agent may not look into a
   * part, or remove it. `inner`: directories with content had to go, of which no watch tells.
   * `directory`: empty ones had to go.
   */
  readonly excess: 'disk' | 'closed' | 'inner' | 'directory' | undefined
  /**
   * The sum of the times at which the directory and its entries last changed, in nanoseconds. A
   * process cannot set these times, and a write to a file without a name changes none. The newest
   * time would hide changes after the clock of the machine was set back.
   */
  readonly changeTimes: bigint
}

/**
 * Keeps the directory of a workload within its bound while the workload writes. A directory below
 * it is removed: it is never reported, and no watch shows what is in it. Beyond the bound all files
 * go, and only root may enter the directory from then on.
 * Rejects if the machine is the reason (no file handles, a broken disk).
 */
export async function boundWorkload(directory: string, signal: AbortSignal): Promise<BoundLook> {
  const top = await open(directory, DIRECTORY).catch((error: unknown) => {
    const code = codeOf(error)
    if (code === 'ENOENT') return undefined
    // Its container gave it to another user.
    if (code === 'EACCES' || code === 'EPERM') return 'denied'
    throw error
  })
  if (top === undefined) return { excess: undefined, changeTimes: 0n }
  if (top === 'denied') return { excess: 'closed', changeTimes: 0n }
  try {
    const path = `/proc/self/fd/${top.fd}`
    const { changeTimes, isOverBound } = await measure(path)
    if (isOverBound) await chmod(path, 0o700).catch(() => undefined)
    let excess: BoundLook['excess'] = isOverBound ? 'disk' : undefined
    for await (const { child, isDirectory } of entriesOf(path)) {
      if (signal.aborted) break
      try {
        if (!isDirectory) await (isOverBound && removeFile(child))
        else if (await isRemoved(child)) excess ??= 'directory'
        else {
          if (excess === undefined || excess === 'directory') excess = 'inner'
          await removeTree(child, signal)
        }
      } catch (error) {
        if (!GONE.includes(String(codeOf(error)))) excess = 'closed'
      }
    }
    return { excess, changeTimes }
  } finally {
    await top.close()
  }
}

/** Removes an empty directory. */
async function isRemoved(directory: Buffer): Promise<boolean> {
  try {
    await rmdir(directory)
    return true
  } catch (error) {
    if (['ENOTEMPTY', 'EEXIST'].includes(String(codeOf(error)))) return false
    throw error
  }
}

async function measure(
  directory: string,
): Promise<{ readonly changeTimes: bigint; readonly isOverBound: boolean }> {
  let files = 0
  let bytes = 0
  let { ctimeNs: changeTimes } = await stat(directory, { bigint: true })
  for await (const { child, isDirectory } of entriesOf(directory)) {
    const found = await lstat(child, { bigint: true }).catch(() => undefined)
    changeTimes += found?.ctimeNs ?? 0n
    if (isDirectory) continue
    // In units of 512 bytes. The size of a file counts holes too, which take no room.
    bytes += 512 * Number(found?.blocks ?? 0n)
    if (++files > MAX_DISK_FILES || bytes > MAX_DISK_BYTES)
      return { changeTimes, isOverBound: true }
  }
  return { changeTimes, isOverBound: false }
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
