import { type FSWatcher, statSync, watch } from 'node:fs'
import path from 'node:path'
import { type Logger, systemClock } from '@akrijs/runtime'

/** The most files that are watched. */
const MAX_FILES = 1000
/** Changes within this time count as one, in milliseconds: an editor or a compiler writes often. */
const SETTLE_MS = 200

/**
 * The files of an author that are watched for a change. Their directories are watched: editors
 * replace a file by another.
 */
export class SourceFiles {
  /** Resolves with a changed file, some time after the change. */
  readonly changed: Promise<string>
  readonly #log: Logger
  readonly #files = new Set<string>()
  /** The names that matter in each watched directory. */
  readonly #names = new Map<string, Set<string>>()
  readonly #watchers: FSWatcher[] = []
  readonly #stop = new AbortController()
  #onChange: (file: string) => void = () => {}

  constructor(files: Iterable<string>, log: Logger) {
    this.#log = log
    this.changed = new Promise((resolve) => {
      this.#onChange = (file) => {
        this.#onChange = () => {}
        systemClock.sleep(SETTLE_MS, this.#stop.signal).then(
          () => resolve(file),
          () => undefined,
        )
      }
    })
    for (const file of files) this.add(file)
  }

  get files(): ReadonlySet<string> {
    return this.#files
  }

  /** Also watches a file. Code that is installed does not change while its user works. */
  add(file: string): void {
    if (this.#files.has(file) || file.split(path.sep).includes('node_modules')) return
    if (this.#stop.signal.aborted || this.#files.size >= MAX_FILES) return
    this.#files.add(file)
    if (this.#files.size === MAX_FILES) this.#log.warn({ most: MAX_FILES }, 'too many source files')
    let [directory, name] = [path.dirname(file), path.basename(file)]
    // A file that is not there comes with the first of its directories that is not there.
    while (!isDirectory(directory) && directory !== path.dirname(directory))
      [directory, name] = [path.dirname(directory), path.basename(directory)]
    const names = this.#names.get(directory) ?? this.#watch(directory)
    names.add(name)
  }

  close(): void {
    this.#stop.abort()
    for (const watcher of this.#watchers) watcher.close()
  }

  #watch(directory: string): Set<string> {
    const names = new Set<string>()
    this.#names.set(directory, names)
    const fail = (err: unknown) => this.#log.warn({ directory, err }, 'directory not watched')
    try {
      const watcher = watch(directory, (_event, name) => {
        if (name === null || names.has(name)) this.#onChange(path.join(directory, name ?? ''))
      })
      watcher.on('error', fail)
      this.#watchers.push(watcher)
    } catch (error) {
      fail(error)
    }
    return names
  }
}

function isDirectory(file: string): boolean {
  return statSync(file, { throwIfNoEntry: false })?.isDirectory() ?? false
}
