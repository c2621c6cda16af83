import { type FSWatcher, watch } from 'node:fs'
import type { BrokerReport } from '../ports/cluster.js'
import { type Refusal, readWorkload } from './read-workload.js'
import { boundWorkload, type Excess, MAX_DISK_BYTES, MAX_DISK_FILES } from './workload-bound.js'

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
  /** Nothing is reported after the directory was beyond its bound. */
  #wasOverBound = false
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
    const excess = await boundWorkload(this.path, this.#stop.signal)
    const removal = excess === undefined ? [] : [removalOf(excess)]
    this.#wasOverBound ||= excess?.isOverBound === true
    if (this.#wasOverBound) return { files: new Map(), refused: removal }
    const { files, refused } = await readWorkload(this.path)
    return { files, refused: [...refused, ...removal] }
  }

  #watch(): void {
    if (this.#watcher !== undefined || this.#stop.signal.aborted) return
    try {
      this.#watcher = watch(this.path, { persistent: false }, () => this.#changed())
      this.#watcher.on('error', () => this.#changed())
    } catch {
      // The directory is gone, or the kernel has no watch left. The reconciler polls instead.
    }
  }

  #changed(): void {
    if (this.#watcher === undefined) return
    this.#unwatch()
    this.isDue = true
    this.#onChange()
  }

  #unwatch(): void {
    this.#watcher?.close()
    this.#watcher = undefined
  }
}

function removalOf({ isOverBound, isLeft }: Excess): Refusal {
  const what = isOverBound
    ? `it kept more than ${MAX_DISK_BYTES / 1024} KiB or ${MAX_DISK_FILES} files; they are ` +
      'removed, and nothing is reported until another Pod has the slot'
    : 'it had a directory, which is removed; write files only'
  const rest = 'the agent may not remove a part of another user: delete the Pod'
  return { reason: isOverBound ? 'disk' : 'directory', message: isLeft ? `${what}; ${rest}` : what }
}
