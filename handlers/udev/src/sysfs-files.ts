// Reads files of sysfs and udev. A device may disappear at any time: an unreadable file counts as
// absent.
import {
  closeSync,
  lstatSync,
  openSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  readSync,
} from 'node:fs'

/** The size of a sysfs attribute, in bytes: the kernel returns one page at most. */
const MAX_ATTRIBUTE_BYTES = 4096

/** The entries of a directory. */
export function listDirectory(directory: string): string[] {
  try {
    return readdirSync(directory)
  } catch {
    return []
  }
}

/** Whether the owner may read a file. */
export function isReadable(file: string): boolean {
  try {
    return (lstatSync(file).mode & 0o400) !== 0
  } catch {
    return false
  }
}

/** The target of a link. */
export function readLink(file: string): string | undefined {
  try {
    return readlinkSync(file)
  } catch {
    return undefined
  }
}

/** The text of a file, cut at the limit in bytes. */
export function readText(file: string, limit = MAX_ATTRIBUTE_BYTES): string | undefined {
  let descriptor: number
  try {
    descriptor = openSync(file, 'r')
  } catch {
    return undefined
  }
  try {
    if (limit > MAX_ATTRIBUTE_BYTES) return readFileSync(descriptor, 'utf8').slice(0, limit)
    const buffer = Buffer.allocUnsafe(limit)
    return buffer.toString('utf8', 0, readSync(descriptor, buffer, 0, limit, 0))
  } catch {
    return undefined
  } finally {
    closeSync(descriptor)
  }
}
