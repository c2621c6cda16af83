import { constants } from 'node:fs'
import { type FileHandle, opendir } from 'node:fs/promises'
import { codeOf } from '@akrijs/runtime'

/**
 * open(2) with O_PATH: finds an entry without opening it, and without the right to read it. Opening
 * a pipe or a device can block or have an effect.
 */
export const FIND = 0o10000000 | constants.O_NOFOLLOW

const CHANGED = ['ENOENT', 'EISDIR', 'ENOTDIR', 'ELOOP', 'ENOTEMPTY', 'EEXIST']

/** Whether the workload has caused the error, as it can at any moment: it changed its entries. */
export function isChange(error: unknown): boolean {
  return CHANGED.includes(String(codeOf(error)))
}

export function unlessChanged(error: unknown): undefined {
  if (!isChange(error)) throw error
}

/** @yields paths as bytes: names need not be UTF-8 */
export async function* entriesOf(directory: string) {
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
