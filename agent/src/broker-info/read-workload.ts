import { isUtf8 } from 'node:buffer'
import { constants, type Stats } from 'node:fs'
import { type FileHandle, open, opendir } from 'node:fs/promises'

/** What a workload has written into its directory, as far as it counts. */
export interface WorkloadContents {
  readonly files: ReadonlyMap<string, string>
  readonly refused: readonly Refusal[]
}

/** Why something is left out. One message for each reason: there may be any number of files. */
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
  readonly message: string
}

export const MAX_FILES = 32
export const MAX_FILE_BYTES = 4096
/** Of all files of a workload together. */
export const MAX_WORKLOAD_BYTES = 16_384
/** How many entries a directory may have before nothing of it is read: also those that do not count have to be listed. */
export const MAX_ENTRIES = 200

/** As the keys of a ConfigMap, but beginning with a letter or a digit. */
const NAME = /^[A-Za-z0-9][-._A-Za-z0-9]{0,252}$/

/** open(2): the file itself is not opened, only found. Of a pipe or a device even opening may wait, or do something. */
const O_PATH = 0o10000000
const FIND = O_PATH | constants.O_NOFOLLOW
const READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/** What the one who writes can bring about at any moment. */
const GONE = ['ENOENT', 'ENOTDIR', 'ELOOP']
const DENIED = ['EACCES', 'EPERM', 'EAGAIN', 'EBUSY', 'ETXTBSY']

/**
 * Reads a directory into which somebody else writes, whatever he does meanwhile: no link is followed, nothing outside is
 * read, nothing waits, and no more is looked at than the bounds allow. What begins with a dot is not there: files can be
 * written under such a name and renamed when they are whole.
 *
 * Rejects only where the machine is the reason (no file handles, a broken disk): then nothing is known.
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
        `${shown(name)} is no name; write letters, digits, "-", "_" and ".", beginning with a letter or a digit`,
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
    if ('reason' in read) refuse(read.reason, `${shown(name)} ${read.message}`)
    else if (bytes + read.content.length > MAX_WORKLOAD_BYTES)
      refuse(
        'total',
        `all files together have more than ${MAX_WORKLOAD_BYTES} bytes; ${shown(name)} is left out`,
      )
    else {
      bytes += read.content.length
      files.set(name, read.content.toString('utf8'))
    }
  }
  return { files, refused: [...refused].map(([reason, message]) => ({ reason, message })) }
}

/** In order, without those that begin with a dot; undefined where there are too many to look at. */
async function namesIn(directory: FileHandle): Promise<string[] | undefined> {
  const names: string[] = []
  let entries = 0
  for await (const { name } of await opendir(pathOf(directory))) {
    if (++entries > MAX_ENTRIES) return undefined
    if (!name.startsWith('.')) names.push(name)
  }
  return names.sort()
}

/** @returns undefined where it has just gone */
async function readFileIn(
  directory: FileHandle,
  name: string,
): Promise<{ readonly content: Buffer } | Refusal | undefined> {
  const found = await openOr(`${pathOf(directory)}/${name}`, FIND)
  if (found === 'gone') return undefined
  if (found === 'denied') return { reason: 'access', message: 'cannot be read' }
  try {
    const wrong = wrongWith(await found.stat())
    if (wrong !== undefined) return wrong
    // That which was looked at, whatever the name stands for by now.
    const file = await openOr(pathOf(found), READ)
    if (file === 'gone') return undefined
    if (file === 'denied')
      return { reason: 'access', message: 'cannot be read by the agent; let everybody read it' }
    return await contentOf(file)
  } finally {
    await found.close()
  }
}

function wrongWith(found: Stats): Refusal | undefined {
  if (!found.isFile()) return { reason: 'type', message: 'is not a regular file' }
  if (found.nlink > 1)
    return { reason: 'link', message: 'has another name somewhere (a hard link)' }
  if (found.size > MAX_FILE_BYTES) return tooLarge
  return undefined
}

const tooLarge: Refusal = { reason: 'size', message: `has more than ${MAX_FILE_BYTES} bytes` }

async function contentOf(file: FileHandle): Promise<{ readonly content: Buffer } | Refusal> {
  try {
    // One byte more than it may have: it may have grown.
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

/** What a handle stands for, by a path: Node has no openat(2). */
function pathOf(handle: FileHandle): string {
  return `/proc/self/fd/${handle.fd}`
}

async function openOr(path: string, flags: number): Promise<FileHandle | 'gone' | 'denied'> {
  try {
    return await open(path, flags)
  } catch (error) {
    const code = error instanceof Error && 'code' in error ? String(error.code) : ''
    if (GONE.includes(code)) return 'gone'
    if (DENIED.includes(code)) return 'denied'
    throw error
  }
}

function shown(name: string): string {
  return JSON.stringify(name.slice(0, 100))
}
