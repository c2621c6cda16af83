import { isUtf8 } from 'node:buffer'
import { constants, type FSWatcher, watch } from 'node:fs'
import { chmod, type FileHandle, lstat, open, rmdir, unlink } from 'node:fs/promises'
import type { ObjectKey } from '@akrijs/kube/objects'
import { codeOf, printableLines } from '@akrijs/runtime'
import type { BrokerReport } from '../cluster/cluster.js'
import { BROKER_INFO } from '../limits.js'
import { entriesOf, FIND, isChange, pathOf, unlessChanged } from './hostile-entries.js'

const { diskBytes, diskFiles, fileBytes, files: mostFiles, workloadBytes } = BROKER_INFO
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
  name: (name: string) => `${name} is no name; ${RULE}`,
  type: (name: string) => `${name} is not a regular file`,
  link: (name: string) => `${name} has another name somewhere (a hard link)`,
  size: (name: string) => `${name} has more than ${fileBytes} bytes`,
  text: (name: string) => `${name} is not text in UTF-8`,
  access: (name: string) => `${name} cannot be read by the agent; let all users read it`,
  count: (name: string) =>
    `there are more than ${mostFiles} files; ${name} and those after it are left out`,
  total: (name: string) =>
    `all files together have more than ${workloadBytes} bytes; ${name} is left out`,
  room: (name: string) => `there is no room for ${name}, others have reported too much`,
}

type Reason = keyof typeof MESSAGES

/**
 * After so many looks in a row because of a write, while nothing with a name had changed, the
 * workload writes into a file without a name. No program sees how large that is.
 */
const MAX_UNSEEN_WRITES = 5

/** A key of a ConfigMap that starts with a letter or a digit. */
const NAME = /^[A-Za-z0-9][-._A-Za-z0-9]{0,252}$/

const READ = constants.O_RDONLY | constants.O_NONBLOCK | constants.O_NOCTTY
const WRITE = constants.O_WRONLY | constants.O_NONBLOCK | constants.O_NOCTTY
const DIRECTORY = constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW

/** Errors that the workload can cause by the modes of its files, or by a lease on a file. */
const DENIED = ['EACCES', 'EPERM', 'EAGAIN', 'EBUSY', 'ETXTBSY']

interface WorkloadOptions {
  /** A file may have changed. */
  onChange(): void
  /** Called once for each reason, however many files there are. */
  onRefusal(message: string): void
  /** Takes a directory away that the workload has made. */
  dropInner(directory: Buffer): Promise<void>
}

/**
 * The directory of one workload, and the files of the last reading. A watch reports only the first
 * change after each reading: a workload that writes in a loop does not wake the agent in a loop.
 */
export class Workload implements BrokerReport {
  readonly path: string
  files: ReadonlyMap<string, string> = new Map()
  readonly fresh = new Set<string>()
  /** The uids of its Pods, if it should end: the next Pod of a name can come before the end. */
  readonly podUids = new Map<ObjectKey, string>()
  readonly #options: WorkloadOptions
  readonly #refusals = new Set<Reason>()
  readonly #stop = new AbortController()
  #isRead: boolean
  #watcher: FSWatcher | undefined
  /** Whether a write is the reason of the next look. */
  #isWoken = false
  /**
   * The sum of the times of the last changes of the directory and its entries. A process cannot set
   * these times, and a write to a file without a name changes none. The newest time would hide
   * changes after the clock of the machine was set back.
   */
  #changeTimes = 0n
  #unseenWrites = 0

  /**
   * @param isNew whether the workload has yet to start: its empty directory need not be read before
   * its first change. The age of older files is not known
   */
  constructor(path: string, isNew: boolean, options: WorkloadOptions) {
    this.path = path
    this.#isRead = isNew
    this.#options = options
    if (isNew) this.#watch()
  }

  /** Whether a file may have changed since the last reading. Always true without a watch. */
  get isDue(): boolean {
    return this.#watcher === undefined
  }

  /** Whether the workload should end, since any look. */
  get mustEnd(): boolean {
    return [...this.#refusals].some((reason) => Object.hasOwn(ENDING, reason))
  }

  refuse(reason: Reason, name = ''): undefined {
    if (this.#refusals.has(reason)) return
    this.#refusals.add(reason)
    this.#options.onRefusal(MESSAGES[reason](JSON.stringify(name.slice(0, 100))))
  }

  /** Makes the next reading due, although no change was seen. */
  expire(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }

  /**
   * Reads the directory while the workload writes into it. No link is followed, nothing outside of
   * the directory is read, no call blocks, and the bounds hold. A name that starts with a dot is
   * skipped: a workload can rename a file when it is complete.
   *
   * Also keeps the directory small. A directory in it is removed, because no watch shows what is in
   * it. Beyond the bound of the disk all files go, and only root may enter from then on.
   *
   * Rejects only if the machine is the reason (no file handles, a broken disk).
   */
  async read(): Promise<void> {
    this.#watch()
    const isWoken = this.#isWoken
    this.#isWoken = false
    const changeTimes = this.#changeTimes
    const files = await this.#contents().catch((error: unknown) => {
      this.expire()
      throw error
    })
    if (changeTimes !== this.#changeTimes) this.#unseenWrites = 0
    else if (isWoken && ++this.#unseenWrites >= MAX_UNSEEN_WRITES) this.refuse('hidden')
    if (this.mustEnd) files.clear()
    for (const [name, content] of files)
      if (this.#isRead && this.files.get(name) !== content) this.fresh.add(name)
    for (const name of this.fresh) if (!files.has(name)) this.fresh.delete(name)
    this.files = files
    this.#isRead = true
  }

  close(): void {
    this.#stop.abort()
    this.expire()
  }

  #watch(): void {
    if (this.#watcher !== undefined || this.#stop.signal.aborted) return
    const changed = () => {
      if (this.#watcher === undefined) return
      this.expire()
      this.#isWoken = true
      this.#options.onChange()
    }
    try {
      this.#watcher = watch(this.path, { persistent: false }, changed).on('error', changed)
    } catch {
      // The directory is gone, or the kernel has no watch left: it is read again and again.
    }
  }

  async #contents(): Promise<Map<string, string>> {
    await using top = await openFound(this.path, DIRECTORY, () => this.refuse('closed'))
    if (top === undefined) return new Map()
    const names = await this.#scan(top)
    return this.mustEnd ? new Map() : await this.#readFiles(pathOf(top), names)
  }

  /** @returns the names of entries that are no directories, up to the bound of the disk */
  async #scan(top: FileHandle): Promise<readonly string[]> {
    const directory = pathOf(top)
    const names: string[] = []
    this.#changeTimes = (await top.stat({ bigint: true })).ctimeNs
    let bytes = 0
    for await (const { child, isDirectory } of entriesOf(directory)) {
      if (this.#stop.signal.aborted) break
      const found = await lstat(child, { bigint: true }).catch(() => undefined)
      this.#changeTimes += found?.ctimeNs ?? 0n
      if (isDirectory) {
        await this.#removeDirectory(child).catch(this.#orClosed)
        continue
      }
      names.push(child.toString('utf8', directory.length + 1))
      // In units of 512 bytes. The size of a file counts holes too, which take no room.
      bytes += 512 * Number(found?.blocks ?? 0n)
      if (names.length <= diskFiles && bytes <= diskBytes) continue
      this.refuse('disk')
      await this.#empty(directory)
      break
    }
    return names
  }

  async #empty(directory: string): Promise<void> {
    await chmod(directory, 0o700).catch(() => undefined)
    for await (const { child, isDirectory } of entriesOf(directory)) {
      if (this.#stop.signal.aborted) return
      const removed = isDirectory ? this.#options.dropInner(child) : removeFile(child)
      await removed.catch(this.#orClosed)
    }
  }

  async #removeDirectory(child: Buffer): Promise<void> {
    try {
      await rmdir(child)
      this.refuse('directory')
    } catch (error) {
      if (!['ENOTEMPTY', 'EEXIST'].includes(String(codeOf(error)))) throw error
      this.refuse('inner')
      await this.#options.dropInner(child)
    }
  }

  readonly #orClosed = (error: unknown): void => {
    if (!isChange(error)) this.refuse('closed')
  }

  async #readFiles(directory: string, names: readonly string[]): Promise<Map<string, string>> {
    const visible = names.filter((name) => !name.startsWith('.')).sort()
    const invalid = visible.find((name) => !NAME.test(name))
    if (invalid !== undefined) this.refuse('name', invalid)
    const valid = visible.filter((name) => NAME.test(name))
    const [beyond] = valid.splice(mostFiles)
    if (beyond !== undefined) this.refuse('count', beyond)
    const files = new Map<string, string>()
    let bytes = 0
    for (const name of valid) {
      const refuse = (reason: Reason) => this.refuse(reason, name)
      const content = await contentOf(`${directory}/${name}`, refuse)
      if (content === undefined) continue
      const size = Buffer.byteLength(content)
      if (bytes + size > workloadBytes) refuse('total')
      else {
        bytes += size
        files.set(name, content)
      }
    }
    return files
  }
}

/**
 * Empties a large file, if the agent may. A process may have it open: no look would find the next
 * bytes of a file without a name.
 */
async function removeFile(child: Buffer): Promise<void> {
  await using found = await open(child, FIND)
  const stats = await found.stat()
  const isLarge = stats.isFile() && stats.nlink === 1 && stats.size > fileBytes
  const opening = isLarge ? open(pathOf(found), WRITE).catch(() => undefined) : undefined
  await using file = await opening
  await (file === undefined ? unlink(child) : file.truncate(0))
}

/** @returns undefined if the file has just gone, or is refused */
async function contentOf(path: string, refuse: (reason: Reason) => undefined) {
  const denied = () => refuse('access')
  await using found = await openFound(path, FIND, denied)
  if (found === undefined) return undefined
  const stats = await found.stat()
  if (!stats.isFile()) return refuse('type')
  if (stats.nlink > 1) return refuse('link')
  // Opens the file that was checked, whatever file has the name by now.
  await using file = await openFound(pathOf(found), READ, denied)
  if (file === undefined) return undefined
  const { buffer, bytesRead } = await file.read(Buffer.alloc(fileBytes + 1), { position: 0 })
  if (bytesRead > fileBytes) return refuse('size')
  const content = buffer.subarray(0, bytesRead)
  if (!isUtf8(content)) return refuse('text')
  // A replaced character can take more bytes than before.
  return printableLines(content.toString('utf8'))
}

/** @returns undefined if the file has just gone, or after `denied` */
function openFound(path: string, flags: number, denied: () => undefined) {
  return open(path, flags).catch((error: unknown) =>
    DENIED.includes(String(codeOf(error))) ? denied() : unlessChanged(error),
  )
}
