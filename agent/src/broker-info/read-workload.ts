import { isUtf8 } from 'node:buffer'
import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, opendir } from 'node:fs/promises'
import { codeOf, printableLines } from '@akrijs/runtime'

/** The files of a workload that are reported, and why others are not. */
interface WorkloadContents {
  readonly files: ReadonlyMap<string, string>
  readonly refused: readonly Refusal[]
}

/**
 * Why files are not reported. There is one message for each reason, however many files there are.
 */
export interface Refusal {
  readonly reason:
    | 'name'
    | 'type'
    | 'link'
    | 'size'
    | 'text'
    | 'access'
    | 'count'
    | 'total'
    | 'entries'
    | 'disk'
    | 'closed'
    | 'inner'
    | 'hidden'
    | 'directory'
  readonly message: string
}

export const MAX_FILES = 32
export const MAX_FILE_BYTES = 4096
/** Of all files of a workload together. */
export const MAX_WORKLOAD_BYTES = 16_384
/** A directory with more entries is not read at all: listing the entries takes time too. */
export const MAX_ENTRIES = 200

/** A key of a ConfigMap that starts with a letter or a digit. */
const NAME = /^[A-Za-z0-9][-._A-Za-z0-9]{0,252}$/

/**
 * open(2): finds a file without opening it. Opening a pipe or a device can block or have an effect.
 */
const O_PATH = 0o10000000
const FIND = O_PATH | constants.O_NOFOLLOW
const READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/** Errors that the workload can cause at any moment. */
const GONE = ['ENOENT', 'ENOTDIR', 'ELOOP']
const DENIED = ['EACCES', 'EPERM', 'EAGAIN', 'EBUSY', 'ETXTBSY']

/**
 * Reads a directory into which a workload writes at the same time. No link is followed, nothing
 * outside of the directory is read, no call blocks, and the bounds hold. Names that start with a
 * dot are skipped: a workload can write a file under such a name and rename the complete file.
 *
 * Rejects only if the machine is the reason (no file handles, a broken disk).
 */
export async function readWorkload(directory: string): Promise<WorkloadContents> {
  const found = await openOr(directory, DIRECTORY)
  if (found === 'gone') return { files: new Map(), refused: [] }
  if (found === 'denied')
    return {
      files: new Map(),
      refused: [{ reason: 'access', message: 'the directory cannot be read' }],
    }
  try {
    return await readFiles(found)
  } finally {
    await found.close()
  }
}

async function readFiles(directory: FileHandle): Promise<WorkloadContents> {
  const refused = new Map<Refusal['reason'], string>()
  const refuse = (reason: Refusal['reason'], message: string) => {
    if (!refused.has(reason)) refused.set(reason, message)
  }
  const files = new Map<string, string>()
  const names = await namesIn(directory)
  if (names === undefined)
    refuse('entries', `there are more than ${MAX_ENTRIES} entries; nothing is read`)
  let bytes = 0
  for (const name of names ?? []) {
    if (!NAME.test(name)) {
      refuse(
        'name',
        `${shown(name)} is no name; write letters, digits, "-", "_" and ".", beginning with ` +
          'a letter or a digit',
      )
      continue
    }
    if (files.size >= MAX_FILES) {
      refuse(
        'count',
        `there are more than ${MAX_FILES} files; ${shown(name)} and those after it are left out`,
      )
      break
    }
    const read = await readFileIn(directory, name)
    if (read === undefined) continue
    if ('reason' in read) {
      refuse(read.reason, `${shown(name)} ${read.message}`)
      continue
    }
    // A replaced character can take more bytes than before.
    const content = printableLines(read.content.toString('utf8'))
    const size = Buffer.byteLength(content)
    if (bytes + size > MAX_WORKLOAD_BYTES)
      refuse(
        'total',
        `all files together have more than ${MAX_WORKLOAD_BYTES} bytes; ${shown(name)} is left out`,
      )
    else {
      bytes += size
      files.set(name, content)
    }
  }
  return { files, refused: [...refused].map(([reason, message]) => ({ reason, message })) }
}

/** @returns sorted names that do not start with a dot; undefined if there are too many entries */
async function namesIn(directory: FileHandle): Promise<string[] | undefined> {
  const names: string[] = []
  let entries = 0
  for await (const { name } of await opendir(pathOf(directory))) {
    if (++entries > MAX_ENTRIES) return undefined
    if (!name.startsWith('.')) names.push(name)
  }
  return names.sort()
}

/** @returns undefined if the file has just gone */
async function readFileIn(
  directory: FileHandle,
  name: string,
): Promise<{ readonly content: Buffer } | Refusal | undefined> {
  const found = await openOr(`${pathOf(directory)}/${name}`, FIND)
  if (found === 'gone') return undefined
  if (found === 'denied') return { reason: 'access', message: 'cannot be read' }
  try {
    const refusal = refusalOf(await found.stat())
    if (refusal !== undefined) return refusal
    // Opens the file that was checked, whatever file has the name by now.
    const file = await openOr(pathOf(found), READ)
    if (file === 'gone') return undefined
    if (file === 'denied')
      return { reason: 'access', message: 'cannot be read by the agent; let everybody read it' }
    return await contentOf(file)
  } finally {
    await found.close()
  }
}

function refusalOf(found: Stats): Refusal | undefined {
  if (!found.isFile()) return { reason: 'type', message: 'is not a regular file' }
  if (found.nlink > 1)
    return { reason: 'link', message: 'has another name somewhere (a hard link)' }
  if (found.size > MAX_FILE_BYTES) return tooLarge
  return undefined
}

const tooLarge: Refusal = { reason: 'size', message: `has more than ${MAX_FILE_BYTES} bytes` }

async function contentOf(file: FileHandle): Promise<{ readonly content: Buffer } | Refusal> {
  try {
    // One byte more than the bound: the file may have grown.
    const buffer = Buffer.alloc(MAX_FILE_BYTES + 1)
    let length = 0
    while (length < buffer.length) {
      const { bytesRead } = await file.read(buffer, length, buffer.length - length, length)
      if (bytesRead === 0) break
      length += bytesRead
    }
    if (length > MAX_FILE_BYTES) return tooLarge
    const content = buffer.subarray(0, length)
    return isUtf8(content) ? { content } : { reason: 'text', message: 'is not text in UTF-8' }
  } finally {
    await file.close()
  }
}

/** The path of an open handle, because Node has no openat(2). */
function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`
}

async function openOr(path: string, flags: number): Promise<FileHandle | 'gone' | 'denied'> {
  try {
    return await open(path, flags)
  } catch (error) {
    const code = String(codeOf(error))
    if (GONE.includes(code)) return 'gone'
    if (DENIED.includes(code)) return 'denied'
    throw error
  }
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 100))
}
