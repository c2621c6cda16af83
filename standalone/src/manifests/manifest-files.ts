import { watch } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import {
  BUNDLED_TYPES,
  MAX_MANIFEST_BYTES,
  type Manifest,
  ManifestPlaces,
  type ManifestProblem,
  type Manifests,
  nameClashes,
  type Place,
  parseManifests,
  specFindings,
} from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube'
import { aborted, type Clock, type Logger, messageOf } from '@akrijs/runtime'
import type { DesiredObjects } from '../cluster/standalone-cluster.js'

/** The place where a Configuration is written. */
export interface ConfigurationSource {
  readonly file: string
  placeOf(path: string): Place | undefined
}

export interface ManifestSet {
  readonly desired: DesiredObjects
  readonly sources: ReadonlyMap<ObjectKey, ConfigurationSource>
  readonly problems: readonly ManifestProblem[]
  /** What the files have that a cluster would refuse, and that refuses no Configuration here. */
  readonly warnings: readonly ManifestProblem[]
}

export interface WatchOptions {
  readonly clock: Clock
  readonly log: Logger
  readonly signal: AbortSignal
}

/** Changed files are read after so many quiet milliseconds: editors write in several steps. */
const QUIET_MS = 100
/**
 * How often files are read without a change event, in milliseconds: some file systems send none.
 */
const POLL_MS = 30_000

/**
 * The content of files, and of the `*.yaml`, `*.yml` and `*.json` of directories. Yields at once
 * and after every change. A file that becomes invalid counts with its last valid content.
 */
export async function* watchManifests(
  paths: readonly string[],
  { clock, log, signal }: WatchOptions,
): AsyncGenerator<ManifestSet, void, void> {
  const reader = new ManifestReader(paths)
  let last: string | undefined
  while (!signal.aborted) {
    // The watch starts before the read, so that no change between them is missed.
    const changed = nextChange(paths, { clock, log, signal })
    const set = await reader.read()
    const text = JSON.stringify(set, (_key, value) => (value instanceof Map ? [...value] : value))
    if (text !== last) yield set
    last = text
    await changed
  }
}

/** The most warnings of a file. */
const MAX_WARNINGS = 100

interface FoundManifest {
  readonly file: string
  readonly manifest: Manifest
}

/** The content of a file that counts. */
interface FileContent {
  /** Undefined for a file that was never valid. */
  readonly valid: readonly Manifest[] | undefined
  /** They can move without another change. */
  readonly places: ManifestPlaces
}

/** Reads files, and keeps the last valid content of each. */
export class ManifestReader {
  readonly #paths: readonly string[]
  readonly #contents = new Map<string, FileContent>()

  constructor(paths: readonly string[]) {
    this.#paths = paths
  }

  async read(): Promise<ManifestSet> {
    const problems: ManifestProblem[] = []
    const warnings: ManifestProblem[] = []
    const found: FoundManifest[] = []
    const files = await this.#files(problems)
    let complete = problems.length === 0
    for (const file of files) {
      const { text, parsed } = await readManifests(file)
      const places = new ManifestPlaces(text)
      const placed = (problem: ManifestProblem) => ({ ...problem, place: places.placeOf(problem) })
      problems.push(...parsed.problems.map(placed))
      warnings.push(...warningsOf(file, parsed).map(placed))
      const isValid = parsed.problems.length === 0
      const valid = isValid ? parsed.manifests : this.#contents.get(file)?.valid
      if (isValid || valid === undefined) this.#contents.set(file, { valid, places })
      // The rest of a file that was never valid is not known.
      if (valid === undefined) complete = false
      for (const manifest of valid ?? parsed.manifests) found.push({ file, manifest })
    }
    for (const file of this.#contents.keys()) if (!files.includes(file)) this.#contents.delete(file)
    const { sources, ...objects } = withoutClashes(found, problems, this.#contents)
    return { desired: { ...objects, complete }, sources, problems, warnings }
  }

  async #files(problems: ManifestProblem[]): Promise<string[]> {
    const files: string[] = []
    for (const source of this.#paths) {
      try {
        files.push(...(await manifestFilesIn(source)))
      } catch (error) {
        problems.push({
          file: source,
          document: 0,
          path: '',
          message: `it cannot be read: ${messageOf(error)}`,
        })
      }
    }
    // Two options can name one file, with and without `./`. Messages have the first name.
    const byPath = new Map<string, string>()
    for (const file of files) {
      const key = path.resolve(file)
      if (!byPath.has(key)) byPath.set(key, file)
    }
    return [...byPath.values()]
  }
}

/**
 * The path itself, or the `*.yaml`, `*.yml` and `*.json` of a directory.
 * @throws the error of the file system
 */
export async function manifestFilesIn(source: string): Promise<string[]> {
  if (!(await stat(source)).isDirectory()) return [source]
  return (await readdir(source))
    .filter((name) => /\.(ya?ml|json)$/.test(name) && !name.startsWith('.'))
    .sort()
    .map((name) => path.join(source, name))
}

async function readManifests(
  file: string,
): Promise<{ readonly text: string; readonly parsed: Manifests }> {
  try {
    const found = await stat(file)
    // A read of a pipe waits for a writer, and a read of a device may have no end.
    if (!found.isFile()) return unreadable(file, 'it is not a regular file')
    if (found.size > MAX_MANIFEST_BYTES)
      return unreadable(file, `it has more than ${MAX_MANIFEST_BYTES} bytes`)
    const text = await readFile(file, 'utf8')
    return { text, parsed: parseManifests(text, file) }
  } catch (error) {
    return unreadable(file, `it cannot be read: ${messageOf(error)}`)
  }
}

/** The checks of the webhook that have no meaning here, or need no refusal. */
function warningsOf(file: string, { configurations }: Manifests): ManifestProblem[] {
  const warnings: ManifestProblem[] = []
  for (const { document, at, object } of configurations) {
    for (const { path, message } of specFindings(object, { types: BUNDLED_TYPES, usedIn: 'node' }))
      warnings.push({ file, document, path: at + path, message })
    if (warnings.length >= MAX_WARNINGS) break
  }
  return warnings.slice(0, MAX_WARNINGS)
}

function unreadable(file: string, message: string): { text: string; parsed: Manifests } {
  const problems = [{ file, document: 0, path: '', message }]
  return { text: '', parsed: { manifests: [], configurations: [], problems } }
}

/** What counts: a Configuration without a right to its name is left out. */
function withoutClashes(
  found: readonly FoundManifest[],
  problems: ManifestProblem[],
  contents: ReadonlyMap<string, FileContent>,
): Omit<DesiredObjects, 'complete'> & Pick<ManifestSet, 'sources'> {
  const configurations = found.flatMap(({ file, manifest: { document, at, content } }) => {
    if (content.kind !== 'Configuration') return []
    const placeOf = (path: string) =>
      contents.get(file)?.places.placeOf({ document, path: at + path })
    return [{ file, document, at, placeOf, configuration: content.configuration }]
  })
  const data = new Map<string, DesiredObjects['data'][number]>()
  for (const { manifest } of found) {
    if (manifest.content.kind !== 'Data') continue
    const { kind, namespace, name } = manifest.content.data
    data.set(`${kind}/${namespace}/${name}`, manifest.content.data)
  }
  const clashes = nameClashes(configurations)
  for (const { item, message } of clashes) {
    const { file, document, at, placeOf } = item
    problems.push({
      file,
      document,
      place: placeOf('metadata.name'),
      path: `${at}metadata.name`,
      message: `${message}; this one is left out`,
    })
  }
  const leftOut = new Set(clashes.map(({ item }) => item))
  const kept = configurations.filter((item) => !leftOut.has(item))
  const sources = new Map(
    kept.map(({ file, placeOf, configuration: { namespace, name } }) => [
      objectKey(namespace, name),
      { file, placeOf },
    ]),
  )
  return {
    configurations: kept.map(({ configuration }) => configuration),
    data: [...data.values()],
    sources,
  }
}

/**
 * Resolves once files have changed and are quiet, after the poll interval, or when the signal is
 * aborted.
 */
async function nextChange(
  paths: readonly string[],
  { clock, log, signal }: WatchOptions,
): Promise<void> {
  const changed = new AbortController()
  const done = new AbortController()
  const watched = (source: string, onChange: (name: string | null) => void) => {
    const watcher = watch(source, { persistent: false }, (_event, name) => onChange(name))
    return watcher.on('error', (error) =>
      log.debug({ path: source, err: error }, 'file watch ended'),
    )
  }
  const watchers = paths.flatMap((source) => {
    const { dir, base } = path.parse(path.resolve(source))
    const change = () => changed.abort()
    // Until a path is there, its parent shows when it comes: an editor or git can remove it first.
    for (const start of [
      () => watched(source, change),
      () => watched(dir, (name) => name === base && change()),
    ])
      try {
        return [start()]
      } catch (error) {
        log.debug({ path: source, err: error }, 'file watch not started')
      }
    return []
  })
  const sleep = (ms: number) => clock.sleep(ms, done.signal).catch(() => undefined)
  try {
    await Promise.race([
      aborted(signal, done.signal),
      aborted(changed.signal, done.signal).then(() => sleep(QUIET_MS)),
      sleep(POLL_MS),
    ])
  } finally {
    done.abort()
    for (const watcher of watchers) watcher.close()
  }
}
