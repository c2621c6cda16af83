import { isUtf8 } from 'node:buffer'
import { constants } from 'node:fs'
import { chmod, type FileHandle, lstat, open, rmdir, unlink } from 'node:fs/promises'
import { codeOf, printableLines } from '@akrijs/runtime'
import { BROKER_INFO } from '../limits.js'
import { CHANGED, entriesOf, FIND, pathOf, removeTree, unless } from './remove-tree.js'

const { directoryEntries, diskBytes, diskFiles, fileBytes, files: mostFiles } = BROKER_INFO
const ENDS = 'nothing is reported until another Pod has the slot'
const RULE = 'write letters, digits, "-", "_" and ".", beginning with a letter or a digit'
/** Why the workload should end: only then its files without a name are gone. */
const ENDING = {
  disk: () => `it kept more than ${diskBytes / 1024} KiB or ${diskFiles} files; ${ENDS}`,
  closed: () => `the agent may not look into its directory, or empty it; ${ENDS}`,
  inner: () => `it had files in a directory, which are removed; ${ENDS}`,
  hidden: () => `it writes into a file that it has removed; ${ENDS}`,
}
/** Why files are not reported, by the name of the first file. */
const MESSAGES = {
  ...ENDING,
  directory: () => 'it had a directory, which is removed; write files only',
  entries: () => `there are more than ${directoryEntries} entries; nothing is read`,
  name: (name: string) => `${name} is no name; ${RULE}`,
  type: (name: string) => `${name} is not a regular file`,
  link: (name: string) => `${name} has another name somewhere (a hard link)`,
  size: (name: string) => `${name} has more than ${fileBytes} bytes`,
  text: (name: string) => `${name} is not text in UTF-8`,
  access: (name: string) => `${name} cannot be read by the agent; let all users read it`,
  count: (name: string) =>
    `there are more than ${mostFiles} files; ${name} and those after it are left out`,
  total: (name: string) =>
    `all files together have more than ${BROKER_INFO.workloadBytes} bytes; ${name} is left out`,
  room: (name: string) => `there is no room for ${name}, others have reported too much`,
}

type Reason = keyof typeof MESSAGES

/** The refusals of a workload: each reason is reported once, however many files there are. */
export class Refusals {
  readonly #reasons = new Set<Reason>()
  readonly #report: (message: string) => void

  constructor(report: (message: string) => void) {
    this.#report = report
  }

  add(reason: Reason, name = ''): undefined {
    if (this.#reasons.has(reason)) return
    this.#reasons.add(reason)
    this.#report(MESSAGES[reason](JSON.stringify(name.slice(0, 100))))
  }

  /** Whether the workload should end, since any look. */
  get mustEnd(): boolean {
    return [...this.#reasons].some((reason) => Object.hasOwn(ENDING, reason))
  }
}

interface WorkloadContents {
  readonly files: Map<string, string>
  /**
   * The sum of the times at which the directory and its entries last changed, in nanoseconds. A
   * process cannot set these times, and a write to a file without a name changes none. The newest
   * time would hide changes after the clock of the machine was set back.
   */
  readonly changeTimes: bigint
}

/** A key of a ConfigMap that starts with a letter or a digit. */
const NAME = /^[A-Za-z0-9][-._A-Za-z0-9]{0,252}$/

const READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
const WRITE = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/** Errors that the workload can cause by the modes of its files, or by a lease on a file. */
const DENIED = ['EACCES', 'EPERM', 'EAGAIN', 'EBUSY', 'ETXTBSY']

/**
 * Reads a directory into which a workload writes at the same time. No link is followed, nothing
 * outside of the directory is read, no call blocks, and the bounds hold. Names that start with a
 * dot are skipped: a workload can write a file under such a name and rename the complete file.
 *
 * Also keeps the directory small. A directory below it is removed: it is never reported, and no
 * watch shows what is in it. Beyond the bound of the disk all files go, and only root may enter the
 * directory from then on.
 *
 * Rejects only if the machine is the reason (no file handles, a broken disk).
 */
export async function readWorkload(
  directory: string,
  refusals: Refusals,
  signal: AbortSignal,
): Promise<WorkloadContents> {
  const files = new Map<string, string>()
  await using top = await openFound(directory, DIRECTORY, () => refusals.add('closed'))
  if (top === undefined) return { files, changeTimes: 0n }
  const { names, changeTimes } = await scan(top, refusals, signal)
  if (!refusals.mustEnd) await readFiles(pathOf(top), names, files, refusals)
  return { files, changeTimes }
}

/** @returns the names of entries that are no directories, up to the bound of the disk */
async function scan(
  top: FileHandle,
  refusals: Refusals,
  signal: AbortSignal,
): Promise<{ readonly names: readonly string[]; readonly changeTimes: bigint }> {
  const directory = pathOf(top)
  const names: string[] = []
  let { ctimeNs: changeTimes } = await top.stat({ bigint: true })
  let bytes = 0
  for await (const { child, isDirectory } of entriesOf(directory)) {
    if (signal.aborted) break
    const found = await lstat(child, { bigint: true }).catch(() => undefined)
    changeTimes += found?.ctimeNs ?? 0n
    if (isDirectory) {
      await removeDirectory(child, refusals, signal).catch(orClosed(refusals))
      continue
    }
    names.push(child.toString('utf8', directory.length + 1))
    // In units of 512 bytes. The size of a file counts holes too, which take no room.
    bytes += 512 * Number(found?.blocks ?? 0n)
    if (names.length <= diskFiles && bytes <= diskBytes) continue
    refusals.add('disk')
    await empty(directory, refusals, signal)
    break
  }
  return { names, changeTimes }
}

async function empty(directory: string, refusals: Refusals, signal: AbortSignal): Promise<void> {
  await chmod(directory, 0o700).catch(() => undefined)
  for await (const { child, isDirectory } of entriesOf(directory)) {
    if (signal.aborted) return
    await (isDirectory ? removeTree(child, signal) : removeFile(child)).catch(orClosed(refusals))
  }
}

async function removeDirectory(
  child: Buffer,
  refusals: Refusals,
  signal: AbortSignal,
): Promise<void> {
  try {
    await rmdir(child)
    refusals.add('directory', 'it had a directory, which is removed; write files only')
  } catch (error) {
    if (!['ENOTEMPTY', 'EEXIST'].includes(String(codeOf(error)))) throw error
    refusals.add('inner')
    await removeTree(child, signal)
  }
}

/**
 * Empties a large file, if the agent has the right to. A process may have it open: the next bytes
 * of a file without a name would be on the disk, and no look would find them.
 */
async function removeFile(child: Buffer): Promise<void> {
  await using found = await open(child, FIND)
  const stats = await found.stat()
  if (stats.isFile() && stats.nlink === 1 && stats.size > fileBytes) {
    await using file = await open(pathOf(found), WRITE).catch(() => undefined)
    if (file !== undefined) {
      await file.truncate(0)
      return
    }
  }
  await unlink(child)
}

/** Adds the contents by name to `files`. */
async function readFiles(
  directory: string,
  names: readonly string[],
  files: Map<string, string>,
  refusals: Refusals,
): Promise<void> {
  if (names.length > directoryEntries) return refusals.add('entries')
  let bytes = 0
  for (const name of names.filter((name) => !name.startsWith('.')).sort()) {
    const refuse = (reason: Reason) => refusals.add(reason, name)
    if (!NAME.test(name)) {
      refuse('name')
      continue
    }
    if (files.size >= mostFiles) return refuse('count')
    const content = await contentOf(`${directory}/${name}`, refuse)
    if (content === undefined) continue
    const size = Buffer.byteLength(content)
    if (bytes + size > BROKER_INFO.workloadBytes) refuse('total')
    else {
      bytes += size
      files.set(name, content)
    }
  }
}

/** @returns undefined if the file has just gone, or is refused */
async function contentOf(
  path: string,
  refuse: (reason: Reason) => undefined,
): Promise<string | undefined> {
  const denied = () => refuse('access')
  await using found = await openFound(path, FIND, denied)
  if (found === undefined) return undefined
  const stats = await found.stat()
  if (!stats.isFile()) return refuse('type')
  if (stats.nlink > 1) return refuse('link')
  // Opens the file that was checked, whatever file has the name by now.
  await using file = await openFound(pathOf(found), READ, denied)
  if (file === undefined) return undefined
  // One byte more than the bound: the file may have grown.
  const { buffer, bytesRead } = await file.read(Buffer.alloc(fileBytes + 1), { position: 0 })
  if (bytesRead > fileBytes) return refuse('size')
  const content = buffer.subarray(0, bytesRead)
  if (!isUtf8(content)) return refuse('text')
  // A replaced character can take more bytes than before.
  return printableLines(content.toString('utf8'))
}

/** @returns undefined if the file has just gone, or after `denied` */
function openFound(
  path: string,
  flags: number,
  denied: () => undefined,
): Promise<FileHandle | undefined> {
  return open(path, flags).catch((error: unknown) =>
    DENIED.includes(String(codeOf(error))) ? denied() : unless(...CHANGED)(error),
  )
}

function orClosed(refusals: Refusals): (error: unknown) => void {
  return (error) => {
    if (!CHANGED.includes(String(codeOf(error)))) refusals.add('closed')
  }
}
