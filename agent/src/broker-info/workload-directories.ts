import { randomBytes } from 'node:crypto'
import { chmodSync, constants, mkdirSync, readdirSync, renameSync } from 'node:fs'
import { chmod, open, rmdir, statfs, unlink } from 'node:fs/promises'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import { keyParts, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { codeOf, InternalError, type Logger } from '@akrijs/runtime'
import { instanceOf } from '../slots/allocation-ledger.js'
import { entriesOf, FIND, isChange, pathOf, unlessChanged } from './hostile-entries.js'

/** Prefix of directories that are being removed. */
const GONE_PREFIX = '.gone-'
/** A namespace and a slot, as one step of a path. No Kubernetes name has the character between. */
const NAME = /^([a-z0-9][-a-z0-9]*)_([a-z0-9][-.a-z0-9]*-\d+)$/

/**
 * `<root>/<namespace>_<slot>`: a directory for each workload. Any user may write into it; only the
 * agent's user may enter the root. Each container mounts its own directory and sees no other.
 *
 * A directory that should go is moved aside in one step: its removal cannot take the directory of
 * the next workload. In the root no container can replace it by a link. Directories in it are moved
 * to the root too, so that no depth of a tree matters.
 */
export class WorkloadDirectories {
  readonly #root: string
  readonly #log: Logger
  readonly #stop = new AbortController()
  #removing: Promise<void> = Promise.resolve()
  /** What waits for its removal. */
  readonly #aside = new Set<string>()
  /** Those of them that could not be removed. */
  readonly #failed = new Set<string>()

  constructor(root: string, log: Logger) {
    this.#root = root
    this.#log = log
  }

  /** @returns the directories that an earlier agent has made */
  open(): { readonly instance: ObjectKey; readonly slot: SlotName; readonly path: string }[] {
    this.#makeRoot()
    const entries = readdirSync(this.#root, { withFileTypes: true })
    return entries.flatMap((entry) => {
      const directory = path.join(this.#root, entry.name)
      if (entry.name.startsWith(GONE_PREFIX)) this.#aside.add(directory)
      const [, namespace = '', slot = ''] = NAME.exec(entry.name) ?? []
      // A directory of another owner, such as lost+found.
      if (namespace === '' || !entry.isDirectory()) return []
      const instance = objectKey(namespace, instanceOf(slot as SlotName))
      return { instance, slot: slot as SlotName, path: directory }
    })
  }

  /** Makes a directory for the next workload of the slot: the one before may still write. */
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

  /** Moves a directory aside, within the root: a container can change the mode of its own. */
  drop(directory: string | Buffer): void {
    const aside = path.join(this.#root, `${GONE_PREFIX}${randomBytes(6).toString('hex')}`)
    try {
      renameSync(directory, aside)
      this.#aside.add(aside)
    } catch (error) {
      if (codeOf(error) !== 'ENOENT') throw error
    }
  }

  /** Moves a directory aside that a workload has made in its own. */
  dropInner(directory: Buffer): Promise<void> {
    // rename(2) to another parent needs the right to write into the directory.
    return withRights(directory, async () => this.drop(directory))
  }

  /**
   * Removes the directories that were moved aside, also by an earlier agent. Those that cannot be
   * removed are logged once. Never rejects.
   * @param again whether to try those too
   */
  removeAside({ again = false } = {}): Promise<void> {
    this.#removing = this.#removing.then(async () => {
      for (const directory of this.#aside) {
        if (this.#stop.signal.aborted) return
        if (this.#failed.has(directory) && !again) continue
        try {
          await this.#remove(directory)
          this.#aside.delete(directory)
          this.#failed.delete(directory)
        } catch (error) {
          // A process of the workload may still write.
          if (isChange(error) || this.#failed.has(directory)) continue
          this.#failed.add(directory)
          this.#log.warn({ directory, err: error }, 'directory of a workload not removed')
        }
      }
    })
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

  async #remove(directory: string): Promise<void> {
    try {
      await withRights(directory, async (opened) => {
        for await (const { child, isDirectory } of entriesOf(opened)) {
          if (this.#stop.signal.aborted) return
          await (isDirectory ? this.dropInner(child) : unlink(child)).catch(unlessChanged)
        }
      })
      await rmdir(directory)
    } catch (error) {
      // A workload can replace a directory by a file or a link just before its move.
      if (codeOf(error) !== 'ENOTDIR') throw error
      await unlink(directory)
    }
  }

  #makeRoot(): void {
    mkdirSync(this.#root, { recursive: true, mode: 0o700 })
    // Also a file system that another program has mounted there.
    chmodSync(this.#root, 0o700)
  }
}

/** Gives the agent all rights to a directory, as far as it may. No link is followed. */
async function withRights(directory: string | Buffer, work: (opened: string) => Promise<void>) {
  await using found = await open(directory, FIND | constants.O_DIRECTORY)
  await chmod(pathOf(found), 0o700).catch(() => undefined)
  await work(pathOf(found))
}
