import type { ManifestProblem } from '@akrijs/api'
import { keyOf, type ObjectKey, objectKey } from '@akrijs/kube'
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

  /** Those of the cluster, and those that have Instances of an earlier run. */
  #configurations(): Set<ObjectKey> {
    const { configurations, instances } = this.#options.cluster
    return new Set([
      ...configurations.list().map(keyOf),
      ...instances
        .list()
        .map(({ metadata, spec }) => objectKey(metadata.namespace, spec.configurationName)),
    ])
  }

  /** Logs each Configuration that has left the files, with the file that had it. */
  #tellMissing(before: ReadonlySet<ObjectKey>, sources: ManifestSet['sources']): void {
    const { log } = this.#options
    const present = this.#configurations()
    for (const configuration of before) {
      const file = this.#sources.get(configuration)?.file
      if (!present.has(configuration)) log.info({ configuration, file }, 'configuration removed')
      // Once, and not at each further change of the files.
      else if (!sources.has(configuration) && (file !== undefined || this.#sources.size === 0))
        log.warn({ configuration, file }, 'configuration kept: it may be in a file that is invalid')
    }
  }

  async #apply(set: ManifestSet): Promise<void> {
    const { cluster, log } = this.#options
    const before = this.#configurations()
    await cluster.apply(set.desired)
    this.#tellMissing(before, set.sources)
    this.#sources = set.sources
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
