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
    return withDescriptor(() => {
      const names = readdirSync(file)
      return names.some(isUncertain)
        ? readdirSync(file, { encoding: 'buffer' }).map(decodeBytes)
        : names
    })
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
  try {
    return withDescriptor(() => textOf(encodeBytes(file), limit))
  } catch {
    return undefined
  }
}

function textOf(file: string | Buffer, limit: number): string {
  const descriptor = openSync(file, 'r')
  try {
    if (limit > MAX_ATTRIBUTE_BYTES) return decodeBytes(readFileSync(descriptor)).slice(0, limit)
    const buffer = Buffer.allocUnsafe(limit)
    return decodeBytes(buffer.subarray(0, readSync(descriptor, buffer, 0, limit, 0)))
  } finally {
    closeSync(descriptor)
  }
}

/** A descriptor for {@link withDescriptor}. */
let reserve: number | undefined

/**
 * Reads with the descriptor in reserve if the process has no other: connections can take all of
 * them, and the devices are still there.
 */
function withDescriptor<T>(read: () => T): T {
  reserve ??= anyDescriptor()
  try {
    return read()
  } catch (error) {
    const isOut = error instanceof Error && 'code' in error && error.code === 'EMFILE'
    if (!isOut || reserve === undefined) throw error
    closeSync(reserve)
    try {
      return read()
    } finally {
      reserve = anyDescriptor()
    }
  }
}

function anyDescriptor(): number | undefined {
  try {
    return openSync('/', 'r')
  } catch {
    return undefined
  }
}
