import type { ManifestProblem } from '@akrijs/api'
import type { ObjectKey } from '@akrijs/kube'
import { Listeners } from '@akrijs/runtime'
import type { StandaloneCluster } from '../cluster/standalone-cluster.js'
import { retry } from '../retry.js'
import {
  type ConfigurationSource,
  type ManifestSet,
  type WatchOptions,
  watchManifests,
} from './manifest-files.js'

interface ManifestFollowerOptions extends WatchOptions {
  readonly cluster: StandaloneCluster
}

/** Applies manifest files to a cluster, and follows their changes. */
export class ManifestFollower {
  readonly #options: ManifestFollowerOptions
  readonly #sets: AsyncGenerator<ManifestSet, void, void>
  readonly #listeners = new Listeners()
  #problems: readonly ManifestProblem[] = []
  #sources: ManifestSet['sources'] = new Map()

  constructor(paths: readonly string[], options: ManifestFollowerOptions) {
    this.#options = options
    this.#sets = watchManifests(paths, options)
  }

  /** The present problems of the files. */
  get problems(): readonly ManifestProblem[] {
    return this.#problems
  }

  onProblems(listener: () => void, signal: AbortSignal): void {
    this.#listeners.add(listener, signal)
  }

  sourceOf(configuration: ObjectKey): ConfigurationSource | undefined {
    return this.#sources.get(configuration)
  }

  /** @throws StateFileError if the state cannot be written */
  async applyFirst(): Promise<void> {
    const { value } = await this.#sets.next()
    if (value) await this.#apply(value)
  }

  /** Resolves when the signal is aborted. */
  async follow(): Promise<void> {
    const { clock, log, signal } = this.#options
    for await (const set of this.#sets) {
      // A full disk must not lose an edit.
      await retry(() => this.#apply(set), {
        clock,
        signal,
        onFailure: (fields) => log.error(fields, 'manifests not applied'),
      })
    }
  }

  async #apply(set: ManifestSet): Promise<void> {
    const { cluster, log } = this.#options
    this.#sources = set.sources
    await cluster.apply(set.desired)
    this.#problems = set.problems
    for (const { file, document, place, path, message } of set.problems)
      log.error(
        { file, ...(document > 0 && { document }), ...place, path, error: message },
        'manifest refused',
      )
    for (const { file, document, place, path, message } of set.warnings)
      log.warn({ file, document, ...place, path, warning: message }, 'manifest spec found wrong')
    this.#listeners.tell()
  }
}
