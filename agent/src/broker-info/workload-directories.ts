import { randomBytes } from 'node:crypto'
import { chmod, mkdir, readdir, rename, rmdir } from 'node:fs/promises'
import path from 'node:path'
import type { SlotName } from '@akrijs/api'
import { keyParts, type ObjectKey, objectKey } from '@akrijs/kube'
import type { Logger } from '@akrijs/runtime'
import { removeTree } from './remove-tree.js'

/** The directory of a workload, which is known by the slot that it holds. */
export interface WorkloadDirectory {
  readonly instance: ObjectKey
  readonly slot: SlotName
  readonly path: string
}

/** No name of Kubernetes has one, so that `<namespace>_<instance>` can be read again. */
const SEPARATOR = '_'
/** What was put aside to be removed. */
const GONE_PREFIX = '.gone-'
/** A name that is one step of a path, and no way out of it. */
const STEP = /^[A-Za-z0-9][-.A-Za-z0-9]*$/

/**
 * `<root>/<namespace>_<instance>/<slot>`: one directory for each workload, into which any user may write, below directories
 * which nobody but the agent's user may enter. A container has its own one mounted, and so sees no other.
 */
export class WorkloadDirectories {
  readonly #root: string
  readonly #log: Logger
  readonly #stop = new AbortController()
  /** One thing after the other: what is made for a new workload must not go with what the old one has left. */
  #work: Promise<unknown> = Promise.resolve()
  #removing: Promise<void> = Promise.resolve()
  /** What has been made for a slot that is being claimed: nobody has had it. */
  readonly #prepared = new Set<string>()
  /** What is to be removed and is not being removed yet, and whether it has failed once. */
  readonly #aside = new Map<string, 'new' | 'failed'>()

  constructor(root: string, log: Logger) {
    this.#root = root
    this.#log = log
  }

  /** Those that an agent before us has made. */
  async open(): Promise<WorkloadDirectory[]> {
    await mkdir(this.#root, { recursive: true, mode: 0o700 })
    const found: WorkloadDirectory[] = []
    for (const parent of await directoriesIn(this.#root)) {
      const at = parent.indexOf(SEPARATOR)
      // Not ours: a file system of its own has a lost+found.
      if (at < 1) continue
      const instance = objectKey(parent.slice(0, at), parent.slice(at + 1))
      for (const name of await directoriesIn(path.join(this.#root, parent))) {
        const own = path.join(this.#root, parent, name)
        if (name.startsWith(GONE_PREFIX)) this.#aside.set(own, 'new')
        else found.push({ instance, slot: name as SlotName, path: own })
      }
    }
    return found
  }

  /** Makes a directory for whoever is about to be given the slot, where there is none. Never rejects: `renew` says what is wrong. */
  prepare(instance: ObjectKey, slot: SlotName): Promise<void> {
    return this.#exclusively(async () => {
      const directory = this.#pathOf(instance, slot)
      await makeBelow(path.dirname(directory), () => makeForAll(directory))
      this.#prepared.add(directory)
    }).catch(() => undefined)
  }

  /** Removes what has been prepared, if it has not been given away by `renew`. Never rejects. */
  discard(instance: ObjectKey, slot: SlotName): Promise<void> {
    return this.#exclusively(async () => {
      const directory = this.#pathOf(instance, slot)
      if (!this.#prepared.delete(directory)) return
      await rmdir(directory)
      await this.#removeIfEmpty(path.dirname(directory))
    }).catch(() => undefined)
  }

  /**
   * A new directory for whoever is given the slot now. It is another one than that of the workload before, which may still
   * be writing: what it has mounted is out of the way.
   */
  renew(instance: ObjectKey, slot: SlotName): Promise<string> {
    return this.#exclusively(async () => {
      const directory = this.#pathOf(instance, slot)
      // The kubelet waits: no more than is needed.
      if (this.#prepared.delete(directory)) return directory
      await makeBelow(path.dirname(directory), async () => {
        await makeForAll(directory).catch(async (error: unknown) => {
          if (codeOf(error) !== 'EEXIST') throw error
          await this.#putAside(directory)
          await makeForAll(directory)
        })
      })
      return directory
    })
  }

  /** Removes the directory, if `isFree` still says so when its turn comes. @returns whether it did */
  drop(
    { path: directory }: Pick<WorkloadDirectory, 'path'>,
    isFree: () => boolean,
  ): Promise<boolean> {
    return this.#exclusively(async () => {
      if (!isFree()) return false
      await this.#putAside(directory)
      return true
    })
  }

  /**
   * Removes what has been put aside, also by an agent before us. Nobody has to wait for it; never rejects.
   * @param again also what could not be removed before
   */
  removeAside({ again = false } = {}): Promise<void> {
    const due = [...this.#aside].filter(([, state]) => state === 'new' || again)
    for (const [directory] of due) this.#aside.delete(directory)
    if (due.length > 0) this.#removing = this.#removing.then(() => this.#removeAll(due))
    return this.#removing
  }

  async close(): Promise<void> {
    await this.#work
    this.#stop.abort()
    await this.#removing
  }

  async #removeAll(
    due: readonly (readonly [directory: string, state: 'new' | 'failed'])[],
  ): Promise<void> {
    for (const [directory, state] of due)
      if (!this.#stop.signal.aborted) await this.#remove(directory, state)
  }

  async #remove(directory: string, state: 'new' | 'failed'): Promise<void> {
    try {
      await removeTree(directory, this.#stop.signal)
    } catch (error) {
      this.#aside.set(directory, 'failed')
      if (state === 'new')
        this.#log.warn({ directory, err: error }, 'what a workload has left cannot be removed')
      return
    }
    await this.#exclusively(() => this.#removeIfEmpty(path.dirname(directory)))
  }

  /** After the last one of its Instance. */
  async #removeIfEmpty(parent: string): Promise<void> {
    await rmdir(parent).catch(() => undefined)
  }

  /** Renamed within its parent: of a directory that a container has changed the rights of nothing else is sure to succeed. */
  async #putAside(directory: string): Promise<void> {
    this.#prepared.delete(directory)
    const aside = path.join(
      path.dirname(directory),
      `${GONE_PREFIX}${randomBytes(6).toString('hex')}`,
    )
    try {
      await rename(directory, aside)
    } catch (error) {
      if (codeOf(error) === 'ENOENT') return
      throw error
    }
    this.#aside.set(aside, 'new')
  }

  #pathOf(instance: ObjectKey, slot: SlotName): string {
    const { namespace, name } = keyParts(instance)
    for (const step of [namespace, name, slot])
      if (!STEP.test(step)) throw new TypeError(`${JSON.stringify(step)} is no name`)
    return path.join(this.#root, `${namespace}${SEPARATOR}${name}`, slot)
  }

  #exclusively<T>(work: () => Promise<T>): Promise<T> {
    const result = this.#work.then(work)
    this.#work = result.catch(() => undefined)
    return result
  }
}

/** With its parent, where that is missing: nobody but us may enter it. */
async function makeBelow(parent: string, make: () => Promise<void>): Promise<void> {
  await make().catch(async (error: unknown) => {
    if (codeOf(error) !== 'ENOENT') throw error
    await mkdir(parent, { recursive: true, mode: 0o700 })
    await make()
  })
}

/** Whatever the umask says: the user of the container is not known. */
async function makeForAll(directory: string): Promise<void> {
  await mkdir(directory)
  await chmod(directory, 0o777)
}

function codeOf(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

async function directoriesIn(directory: string): Promise<string[]> {
  const entries = await readdir(directory, { withFileTypes: true })
  return entries.filter((entry) => entry.isDirectory()).map(({ name }) => name)
}
