import { type FSWatcher, watch } from 'node:fs'
import type { BrokerReport } from '../cluster/cluster.js'
import { type Refusal, readWorkload } from './read-workload.js'
import { boundWorkload, MAX_DISK_BYTES, MAX_DISK_FILES } from './workload-bound.js'

const ENDS = 'nothing is reported until another Pod has the slot'
const MESSAGES = {
  disk: `it kept more than ${MAX_DISK_BYTES / 1024} KiB or ${MAX_DISK_FILES} files; ${ENDS}`,
  closed: `the agent may not look into its directory, or empty it; ${ENDS}`,
  inner: `it had files in a directory, which are removed; ${ENDS}`,
  hidden: `it writes into a file that it has removed; ${ENDS}`,
  directory: 'it had a directory, which is removed; write files only',
}

/**
 * After so many looks in a row for which a write was the reason, while nothing that has a name had
 * changed, the workload writes into a file without a name. Nobody sees how large that is.
 */
const MAX_UNSEEN_WRITES = 5

/**
 * The directory of one workload, and the files of the last reading. A watch reports only the first
 * change after each reading: a workload that writes in a loop does not wake the agent in a loop.
 */
export class FollowedWorkload implements BrokerReport {
  readonly path: string
  files: ReadonlyMap<string, string> = new Map()
  readonly fresh = new Set<string>()
  /** Whether a file may have changed since the last reading. */
  isDue = true
  readonly #onChange: () => void
  readonly #reported = new Set<Refusal['reason']>()
  #isRead: boolean
  #watcher: FSWatcher | undefined
  /** See {@link isOverBound}. */
  #isOverBound = false
  /** Whether a write is the reason of the next look. */
  #isWoken = false
  #changeTimes = 0n
  #unseenWrites = 0
  readonly #stop = new AbortController()

  /**
   * @param isNew whether the workload has yet to start: its directory is empty. The age of older
   * files is not known
   */
  constructor(path: string, isNew: boolean, onChange: () => void) {
    this.path = path
    this.#isRead = isNew
    this.#onChange = onChange
    if (!isNew) return
    // The directory is empty: it need not be read before its first change.
    this.#watch()
    this.isDue = !this.isWatched
  }

  /** False if the kernel has no watch left. */
  get isWatched(): boolean {
    return this.#watcher !== undefined
  }

  /**
   * Whether the directory was beyond its bound, or cannot be looked into. Then nothing is reported,
   * and the workload should end: only then its files without a name are gone.
   */
  get isOverBound(): boolean {
    return this.#isOverBound
  }

  /**
   * Also keeps the directory within its bound.
   * @returns new refusals: each reason once per workload. Rejects as {@link readWorkload} does, and
   * changes nothing then
   */
  async read(): Promise<readonly Refusal[]> {
    this.isDue = false
    this.#watch()
    try {
      const { files, refused } = await this.#contents()
      for (const [name, content] of files)
        if (this.#isRead && this.files.get(name) !== content) this.fresh.add(name)
      for (const name of this.fresh) if (!files.has(name)) this.fresh.delete(name)
      this.files = files
      this.#isRead = true
      const news = refused.filter(({ reason }) => !this.#reported.has(reason))
      for (const { reason } of news) this.#reported.add(reason)
      return news
    } catch (error) {
      this.isDue = true
      throw error
    }
  }

  close(): void {
    this.#stop.abort()
    this.#unwatch()
  }

  async #contents(): ReturnType<typeof readWorkload> {
    const isWoken = this.#isWoken
    this.#isWoken = false
    const { excess, changeTimes } = await boundWorkload(this.path, this.#stop.signal)
    if (changeTimes !== this.#changeTimes) this.#unseenWrites = 0
    else if (isWoken) this.#unseenWrites++
    this.#changeTimes = changeTimes
    const reason = this.#unseenWrites >= MAX_UNSEEN_WRITES ? 'hidden' : excess
    const news: Refusal[] = reason === undefined ? [] : [{ reason, message: MESSAGES[reason] }]
    this.#isOverBound ||= reason !== undefined && reason !== 'directory'
    if (this.#isOverBound) return { files: new Map(), refused: news }
    const { files, refused } = await readWorkload(this.path)
    return { files, refused: [...refused, ...news] }
  }

  #watch(): void {
    if (this.#watcher !== undefined || this.#stop.signal.aborted) return
    try {
      this.#watcher = watch(this.path, { persistent: false }, () => this.#changed({ woken: true }))
      this.#watcher.on('error', () => this.#changed({ woken: false }))
    } catch {
      // The directory is gone, or the kernel has no watch left. The reconciler polls instead.
    }
  }

  #changed({ woken }: { readonly woken: boolean }): void {
    if (this.#watcher === undefined) return
    this.#unwatch()
    this.isDue = true
    this.#isWoken = woken
    this.#onChange()
  }

  #unwatch(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }
}
