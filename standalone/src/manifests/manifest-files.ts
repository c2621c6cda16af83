import { watch } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import {
  BUNDLED_TYPES,
  MAX_MANIFEST_BYTES,
  type Manifest,
  type ManifestProblem,
  type Manifests,
  nameClashes,
  parseManifests,
  specFindings,
} from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube'
import { aborted, type Clock, type Logger, messageOf } from '@akrijs/runtime'
import type { DesiredObjects } from '../cluster/standalone-cluster.js'

export interface ManifestSet {
  readonly desired: DesiredObjects
  /** The file of each Configuration. */
  readonly files: ReadonlyMap<ObjectKey, string>
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

/** Reads files, and keeps the last valid content of each. */
export class ManifestReader {
  readonly #paths: readonly string[]
  readonly #valid = new Map<string, readonly Manifest[]>()

  constructor(paths: readonly string[]) {
    this.#paths = paths
  }

  async read(): Promise<ManifestSet> {
    const problems: ManifestProblem[] = []
    const warnings: ManifestProblem[] = []
    const found: { readonly file: string; readonly manifest: Manifest }[] = []
    const files = await this.#files(problems)
    let complete = problems.length === 0
    for (const file of files) {
      const parsed = await readManifests(file)
      problems.push(...parsed.problems)
      warnings.push(...warningsOf(file, parsed))
      if (parsed.problems.length === 0) this.#valid.set(file, parsed.manifests)
      const valid = this.#valid.get(file)
      // The rest of a file that was never valid is not known.
      if (valid === undefined) complete = false
      for (const manifest of valid ?? parsed.manifests) found.push({ file, manifest })
    }
    for (const file of [...this.#valid.keys()]) if (!files.includes(file)) this.#valid.delete(file)
    const { files: places, ...objects } = withoutClashes(found, problems)
    return { desired: { ...objects, complete }, files: places, problems, warnings }
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

async function readManifests(file: string): Promise<Manifests> {
  try {
    const found = await stat(file)
    // A read of a pipe waits for a writer, and a read of a device may have no end.
    if (!found.isFile()) return unreadable(file, 'it is not a regular file')
    if (found.size > MAX_MANIFEST_BYTES)
      return unreadable(file, `it has more than ${MAX_MANIFEST_BYTES} bytes`)
    return parseManifests(await readFile(file, 'utf8'), file)
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

function unreadable(file: string, message: string): Manifests {
  return { manifests: [], configurations: [], problems: [{ file, document: 0, path: '', message }] }
}

/** What counts: a Configuration without a right to its name is left out. */
function withoutClashes(
  found: readonly { readonly file: string; readonly manifest: Manifest }[],
  problems: ManifestProblem[],
): Omit<DesiredObjects, 'complete'> & Pick<ManifestSet, 'files'> {
  const configurations = found.flatMap(({ file, manifest: { document, at, content } }) =>
    content.kind === 'Configuration'
      ? [{ file, document, at, configuration: content.configuration }]
      : [],
  )
  const data = new Map<string, DesiredObjects['data'][number]>()
  for (const { manifest } of found) {
    if (manifest.content.kind !== 'Data') continue
    const { kind, namespace, name } = manifest.content.data
    data.set(`${kind}/${namespace}/${name}`, manifest.content.data)
  }
  const clashes = nameClashes(configurations)
  for (const { item, message } of clashes) {
    const { file, document, at } = item
    const path = `${at}metadata.name`
    problems.push({ file, document, path, message: `${message}; this one is left out` })
  }
  const leftOut = new Set(clashes.map(({ item }) => item))
  const kept = configurations.filter((item) => !leftOut.has(item))
  const files = new Map(
    kept.map(({ file, configuration: { namespace, name } }) => [objectKey(namespace, name), file]),
  )
  return {
    configurations: kept.map(({ configuration }) => configuration),
    data: [...data.values()],
    files,
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
