import { type FSWatcher, watch } from 'node:fs'
import type { ObjectKey } from '@akrijs/kube/objects'
import type { BrokerReport } from '../cluster/cluster.js'
import { Refusals, readWorkload } from './read-workload.js'

/**
 * After so many looks in a row for which a write was the reason, while nothing that has a name had
 * changed, the workload writes into a file without a name. No program sees how large that is.
 */
const MAX_UNSEEN_WRITES = 5

interface WorkloadListeners {
  /** Called when a file may have changed. */
  onChange(): void
  onRefusal(message: string): void
}

/**
 * The directory of one workload, and the files of the last reading. A watch reports only the first
 * change after each reading: a workload that writes in a loop does not wake the agent in a loop.
 */
export class FollowedWorkload implements BrokerReport {
  readonly path: string
  files: ReadonlyMap<string, string> = new Map()
  readonly fresh = new Set<string>()
  readonly refusals: Refusals
  /**
   * The uids of its Pods, if it should end. Another Pod can have the name of such a Pod before the
   * slot is free.
   */
  readonly podUids = new Map<ObjectKey, string>()
  readonly #onChange: () => void
  #isRead: boolean
  #watcher: FSWatcher | undefined
  /** Whether a write is the reason of the next look. */
  #isWoken = false
  #changeTimes = 0n
  #unseenWrites = 0
  readonly #stop = new AbortController()

  /**
   * @param isNew whether the workload has yet to start: its directory is empty, and need not be
   * read before its first change. The age of older files is not known
   */
  constructor(path: string, isNew: boolean, { onChange, onRefusal }: WorkloadListeners) {
    this.path = path
    this.#isRead = isNew
    this.#onChange = onChange
    this.refusals = new Refusals(onRefusal)
    if (isNew) this.#watch()
  }

  /**
   * Whether a file may have changed since the last reading. Always true if the kernel has no watch
   * left.
   */
  get isDue(): boolean {
    return this.#watcher === undefined
  }

  /** Makes the next reading due, although no change was seen. */
  expire(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }

  /** Also keeps the directory within its bound. Rejects as {@link readWorkload} does. */
  async read(): Promise<void> {
    this.#watch()
    const isWoken = this.#isWoken
    this.#isWoken = false
    const { files, changeTimes } = await this.#contents()
    if (changeTimes !== this.#changeTimes) this.#unseenWrites = 0
    else if (isWoken && ++this.#unseenWrites >= MAX_UNSEEN_WRITES) this.refusals.add('hidden')
    this.#changeTimes = changeTimes
    if (this.refusals.mustEnd) files.clear()
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

  async #contents() {
    try {
      return await readWorkload(this.path, this.refusals, this.#stop.signal)
    } catch (error) {
      this.expire()
      throw error
    }
  }

  #watch(): void {
    if (this.#watcher !== undefined || this.#stop.signal.aborted) return
    try {
      this.#watcher = watch(this.path, { persistent: false }, () => this.#changed({ woken: true }))
      this.#watcher.on('error', () => this.#changed({ woken: false }))
    } catch {
      // The directory is gone, or the kernel has no watch left: it is read again and again.
    }
  }

  #changed({ woken }: { readonly woken: boolean }): void {
    if (this.#watcher === undefined) return
    this.expire()
    this.#isWoken = woken
    this.#onChange()
  }
}
