import { randomBytes } from 'node:crypto'
import { chmodSync, mkdirSync, readdirSync, renameSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import { keyParts, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { codeOf, InternalError, type Logger } from '@akrijs/runtime'
import { instanceOf } from '../slots/allocation-ledger.js'
import { removeTree } from './remove-tree.js'

/** The directory of a workload. Its slot identifies the workload. */
interface WorkloadDirectory {
  readonly instance: ObjectKey
  readonly slot: SlotName
  readonly path: string
}

/** Prefix of directories that are being removed. */
const GONE_PREFIX = '.gone-'
/**
 * A namespace and a slot. No Kubernetes name has the character between them, and the name of the
 * directory is one step of a path.
 */
const NAME = /^([a-z0-9][-a-z0-9]*)_([a-z0-9][-.a-z0-9]*-\d+)$/

/**
 * `<root>/<namespace>_<slot>`: a directory for each workload. Any user may write into it; only the
 * agent's user may enter the root. Each container mounts its own directory and sees no other.
 *
 * Directories change within one turn of the event loop: a removal cannot take the directory of the
 * next workload.
 */
export class WorkloadDirectories {
  readonly #root: string
  readonly #log: Logger
  readonly #stop = new AbortController()
  #removing: Promise<void> = Promise.resolve()
  /** Directories that wait for their removal, and whether a removal has failed. */
  readonly #aside = new Map<string, 'new' | 'failed'>()

  constructor(root: string, log: Logger) {
    this.#root = root
    this.#log = log
  }

  /** @returns the directories that an earlier agent has made */
  open(): WorkloadDirectory[] {
    this.#makeRoot()
    const entries = readdirSync(this.#root, { withFileTypes: true })
    return entries.flatMap((entry) => {
      const directory = path.join(this.#root, entry.name)
      if (entry.name.startsWith(GONE_PREFIX)) this.#aside.set(directory, 'new')
      const [, namespace = '', slot = ''] = NAME.exec(entry.name) ?? []
      // A directory of another owner, such as lost+found.
      if (namespace === '' || !entry.isDirectory()) return []
      const instance = objectKey(namespace, instanceOf(slot as SlotName))
      return { instance, slot: slot as SlotName, path: directory }
    })
  }

  /**
   * Makes a new directory for the next workload of the slot. The workload before may still write
   * into its own directory, which is moved aside.
   */
  renew(instance: ObjectKey, slot: SlotName): string {
    const name = `${keyParts(instance).namespace}_${slot}`
    if (!NAME.test(name))
      throw new InternalError(`${JSON.stringify(name)} is no name of a directory`)
    const directory = path.join(this.#root, name)
    this.drop(directory)
    this.#makeRoot()
    mkdirSync(directory)
    // Any user may write, whatever the umask is: the user of the container is not known.
    chmodSync(directory, 0o777)
    return directory
  }

  /**
   * Moves a directory aside, for its removal. Renames within the parent: a container can change the
   * mode of its directory, so that other operations fail.
   */
  drop(directory: string): void {
    const aside = path.join(this.#root, `${GONE_PREFIX}${randomBytes(6).toString('hex')}`)
    try {
      renameSync(directory, aside)
      this.#aside.set(aside, 'new')
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
    }
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
    this.#stop.abort()
    await this.#removing
  }

  async #remove(due: readonly [directory: string, state: 'new' | 'failed'][]): Promise<void> {
    for (const [directory, state] of due) {
      if (this.#stop.signal.aborted) return
      try {
        await removeTree(directory, this.#stop.signal)
      } catch (error) {
        this.#aside.set(directory, 'failed')
        if (state === 'new')
          this.#log.warn({ directory, err: error }, 'directory of a workload not removed')
      }
    }
  }

  #makeRoot(): void {
    mkdirSync(this.#root, { recursive: true, mode: 0o700 })
    // Also a file system that another program has mounted there.
    chmodSync(this.#root, 0o700)
  }
}
