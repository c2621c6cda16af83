import { type FSWatcher, watch } from 'node:fs'
import type { BrokerReport } from '../ports/cluster.js'
import { type Refusal, readWorkload } from './read-workload.js'

/**
 * The directory of one workload, and what was read there last. It listens for the first change only, and again from just
 * before the next reading: whoever writes in a loop wakes nobody more often than it is read.
 */
export class FollowedWorkload implements BrokerReport {
  readonly path: string
  files: ReadonlyMap<string, string>
  readonly fresh = new Set<string>()
  readonly #onChange: () => void
  readonly #said = new Set<Refusal['reason']>()
  #known: boolean
  #due = true
  #watcher: FSWatcher | undefined
  #closed = false

  /** @param isNew whether its workload has yet to begin: of another one nobody knows what it wrote when */
  constructor(path: string, isNew: boolean, onChange: () => void) {
    this.path = path
    this.files = new Map()
    this.#known = isNew
    this.#onChange = onChange
  }

  /** Whether something may have changed since it was read. */
  get due(): boolean {
    return this.#due
  }

  /** Whether changes are told. Not where the kernel has no watch left. */
  get listening(): boolean {
    return this.#watcher !== undefined
  }

  /** To be read again, changed or not. */
  expire(): void {
    this.#due = true
  }

  /** @returns what is left out, each reason once in its life. Rejects as {@link readWorkload} does, and all stays as it was */
  async read(): Promise<readonly Refusal[]> {
    this.#due = false
    this.#listen()
    try {
      const { files, refused } = await readWorkload(this.path)
      for (const [name, content] of files)
        if (this.#known && this.files.get(name) !== content) this.fresh.add(name)
      for (const name of this.fresh) if (!files.has(name)) this.fresh.delete(name)
      this.files = files
      this.#known = true
      const unsaid = refused.filter(({ reason }) => !this.#said.has(reason))
      for (const { reason } of unsaid) this.#said.add(reason)
      return unsaid
    } catch (error) {
      this.#due = true
      throw error
    }
  }

  close(): void {
    this.#closed = true
    this.#deaf()
  }

  #listen(): void {
    if (this.#watcher !== undefined || this.#closed) return
    try {
      this.#watcher = watch(this.path, { persistent: false }, () => this.#changed())
      this.#watcher.on('error', () => this.#changed())
    } catch {
      // It is gone, or the kernel has no watch left: then it is looked at now and then.
    }
  }

  #changed(): void {
    if (this.#watcher === undefined) return
    this.#deaf()
    this.#due = true
    this.#onChange()
  }

  #deaf(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }
}
