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
  type Stats,
} from 'node:fs'
import { decodeBytes, encodeBytes } from './byte-text.js'

/** Whether a decoded name may have had bytes that are not UTF-8. */
const isUncertain = (name: string) => name.includes('\ufffd')

/** The size of a sysfs attribute, in bytes: the kernel returns one page at most. */
const MAX_ATTRIBUTE_BYTES = 4096

/** The entries of a directory. */
export function listDirectory(directory: string): string[] {
  const file = encodeBytes(directory)
  try {
    const names = readdirSync(file)
    return names.some(isUncertain)
      ? readdirSync(file, { encoding: 'buffer' }).map(decodeBytes)
      : names
  } catch {
    return []
  }
}

/**
 * The state of a file or link; undefined after any error. A path can lead through a file (ENOTDIR)
 * or in circles (ELOOP), and can be too long: the names of attributes come from rules.
 */
export function readStat(file: string): Stats | undefined {
  try {
    return lstatSync(encodeBytes(file), { throwIfNoEntry: false })
  } catch {
    return undefined
  }
}

/** Whether the owner may read a file. */
export function isReadable(file: string): boolean {
  return ((readStat(file)?.mode ?? 0) & 0o400) !== 0
}

/** The target of a link. */
export function readLink(file: string): string | undefined {
  const link = encodeBytes(file)
  try {
    const target = readlinkSync(link)
    return isUncertain(target) ? decodeBytes(readlinkSync(link, { encoding: 'buffer' })) : target
  } catch {
    return undefined
  }
}

/** The text of a file, cut at the limit in bytes. */
export function readText(file: string, limit = MAX_ATTRIBUTE_BYTES): string | undefined {
  let descriptor: number
  try {
    descriptor = openSync(encodeBytes(file), 'r')
  } catch {
    return undefined
  }
  try {
    if (limit > MAX_ATTRIBUTE_BYTES) return decodeBytes(readFileSync(descriptor)).slice(0, limit)
    const buffer = Buffer.allocUnsafe(limit)
    return decodeBytes(buffer.subarray(0, readSync(descriptor, buffer, 0, limit, 0)))
  } catch {
    return undefined
  } finally {
    closeSync(descriptor)
  }
}
