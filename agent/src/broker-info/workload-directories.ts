import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, rename, rmdir, statfs } from 'node:fs/promises'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import { keyParts, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { InternalError, type Logger } from '@akrijs/runtime'
import { removeTree, unless } from './remove-tree.js'

/** The directory of a workload. Its slot identifies the workload. */
interface WorkloadDirectory {
  readonly instance: ObjectKey
  readonly slot: SlotName
  readonly path: string
}

/** No Kubernetes name has this character, so that `<namespace>_<instance>` can be parsed. */
const SEPARATOR = '_'
/** Prefix of directories that are being removed. */
const GONE_PREFIX = '.gone-'
/** A name that is one step of a path and cannot leave the directory. */
const STEP = /^[A-Za-z0-9][-.A-Za-z0-9]*$/

/**
 * `<root>/<namespace>_<instance>/<slot>`: a directory for each workload. Any user may write into
 * it; only the agent's user may enter its parents. Each container mounts its own directory and sees
 * no other.
 */
export class WorkloadDirectories {
  readonly #root: string
  readonly #log: Logger
  readonly #stop = new AbortController()
  /** Changes run in order: a removal must not take the directory of the next workload. */
  #work: Promise<unknown> = Promise.resolve()
  #removing: Promise<void> = Promise.resolve()
  /** Directories that wait for their removal, and whether a removal has failed. */
  readonly #aside = new Map<string, 'new' | 'failed'>()

  constructor(root: string, log: Logger) {
    this.#root = root
    this.#log = log
  }

  /** @returns the directories that an earlier agent has made */
  async open(): Promise<WorkloadDirectory[]> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 })
    const found: WorkloadDirectory[] = []
    for (const parent of await directoriesIn(this.#root)) {
      const at = parent.indexOf(SEPARATOR)
      // A directory of another owner, such as lost+found.
      if (at < 1) continue
      const instance = objectKey(parent.slice(0, at), parent.slice(at + 1))
      for (const name of await directoriesIn(path.join(this.#root, parent))) {
        const directory = path.join(this.#root, parent, name)
        if (name.startsWith(GONE_PREFIX)) this.#aside.set(directory, 'new')
        else found.push({ instance, slot: name as SlotName, path: directory })
      }
      await removeIfEmpty(path.join(this.#root, parent))
    }
    return found
  }

  /**
   * Makes a new directory for the next workload of the slot. The workload before may still write
   * into its own directory, which is moved aside.
   */
  renew(instance: ObjectKey, slot: SlotName): Promise<string> {
    return this.#exclusively(async () => {
      const directory = this.#pathOf(instance, slot)
      await this.#moveAside(directory)
      await this.#make(directory)
      return directory
    })
  }

  /** Removes the directory if `isFree` is true when its turn comes. @returns whether it did */
  drop(directory: string, isFree: () => boolean): Promise<boolean> {
    return this.#exclusively(async () => {
      if (!isFree()) return false
      await this.#moveAside(directory)
      return true
    })
  }

  /**
   * Removes the directories that were moved aside, also by an earlier agent. Never rejects.
   * @param again whether to include directories whose removal has failed
   */
  removeAside({ again = false } = {}): Promise<void> {
    const due = [...this.#aside].filter(([, state]) => state === 'new' || again)
    for (const [directory] of due) this.#aside.delete(directory)
    if (due.length > 0) this.#removing = this.#removing.then(() => this.#remove(due))
    return this.#removing
  }

  /** Whether the file system of the directories has no room for content, or for files. */
  async isFull(): Promise<boolean> {
    const { blocks, bavail, files, ffree } = await statfs(this.#root)
    // Some file systems count no files.
    return (blocks > 0 && bavail === 0) || (files > 0 && ffree === 0)
  }

  async close(): Promise<void> {
    await this.#work
    this.#stop.abort()
    await this.#removing
  }

  async #remove(due: readonly [directory: string, state: 'new' | 'failed'][]): Promise<void> {
    for (const [directory, state] of due) {
      if (this.#stop.signal.aborted) return
      try {
        await removeTree(directory, this.#stop.signal)
        await this.#exclusively(() => removeIfEmpty(path.dirname(directory)))
      } catch (error) {
        this.#aside.set(directory, 'failed')
        if (state === 'new')
          this.#log.warn({ directory, err: error }, 'directory of a workload not removed')
      }
    }
  }

  async #make(directory: string): Promise<void> {
    const parent = path.dirname(directory)
    try {
      await mkdir(this.#root, { recursive: true, mode: 0o700 })
      // Only the agent's user may enter it. Not recursive: that hides that a file system is full.
      await mkdir(parent, { mode: 0o700 }).catch(unless('EEXIST'))
      await mkdir(directory)
      // Any user may write, whatever the umask is: the user of the container is not known.
      await chmod(directory, 0o777)
    } catch (error) {
      // The parent may have had the last room of a full file system.
      await removeIfEmpty(parent)
      throw error
    }
  }

  /**
   * Renames within the parent: a container can change the mode of its directory, so that other
   * operations fail.
   */
  async #moveAside(directory: string): Promise<void> {
    const name = `${GONE_PREFIX}${randomBytes(6).toString('hex')}`
    const aside = path.join(path.dirname(directory), name)
    await rename(directory, aside).then(() => void this.#aside.set(aside, 'new'), unless('ENOENT'))
  }

  #pathOf(instance: ObjectKey, slot: SlotName): string {
    const { namespace, name } = keyParts(instance)
    for (const step of [namespace, name, slot])
      if (!STEP.test(step))
        throw new InternalError(`${JSON.stringify(step)} is no name of a directory`)
    return path.join(this.#root, `${namespace}${SEPARATOR}${name}`, slot)
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(work)
    this.#work = result.catch(() => undefined)
    return result
  }
}

/** The parent is empty after the last directory of its Instance. */
async function removeIfEmpty(parent: string): Promise<void> {
  await rmdir(parent).catch(() => undefined)
}

async function directoriesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}
