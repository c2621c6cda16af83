import { watch } from 'node:fs'
import { readdir, readFile, stat } from 'node:fs/promises'
import path from 'node:path'
import {
  MAX_MANIFEST_BYTES,
  type Manifest,
  type ManifestProblem,
  parseManifests,
  possibleOwner,
} from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube'
import { aborted, type Clock, type Logger, messageOf } from '@akrijs/runtime'
import type { DesiredObjects } from '../cluster/standalone-cluster.js'

export interface ManifestSet {
  readonly desired: DesiredObjects
  /** The file of each Configuration. */
  readonly files: ReadonlyMap<ObjectKey, string>
  readonly problems: readonly ManifestProblem[]
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

/** Reads files, and keeps the last valid content of each. */
export class ManifestReader {
  readonly #paths: readonly string[]
  readonly #valid = new Map<string, readonly Manifest[]>()

  constructor(paths: readonly string[]) {
    this.#paths = paths
  }

  async read(): Promise<ManifestSet> {
    const problems: ManifestProblem[] = []
    const found: { readonly file: string; readonly manifest: Manifest }[] = []
    const files = await this.#files(problems)
    let complete = problems.length === 0
    for (const file of files) {
      const parsed = await readManifests(file)
      problems.push(...parsed.problems)
      if (parsed.problems.length === 0) this.#valid.set(file, parsed.manifests)
      const valid = this.#valid.get(file)
      // The rest of a file that was never valid is not known.
      if (valid === undefined) complete = false
      for (const manifest of valid ?? parsed.manifests) found.push({ file, manifest })
    }
    for (const file of [...this.#valid.keys()]) if (!files.includes(file)) this.#valid.delete(file)
    const { files: places, ...objects } = withoutClashes(found, problems)
    return { desired: { ...objects, complete }, files: places, problems }
  }

  async #files(problems: ManifestProblem[]): Promise<string[]> {
    const files: string[] = []
    for (const source of this.#paths) {
      try {
        if (!(await stat(source)).isDirectory()) files.push(source)
        else {
          const names = (await readdir(source))
            .filter((name) => /\.(ya?ml|json)$/.test(name) && !name.startsWith('.'))
            .sort()
          files.push(...names.map((name) => path.join(source, name)))
        }
      } catch (error) {
        problems.push({
          file: source,
          document: 0,
          path: '',
          message: `it cannot be read: ${messageOf(error)}`,
        })
      }
    }
    return [...new Set(files)]
  }
}

async function readManifests(file: string): Promise<ReturnType<typeof parseManifests>> {
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

function unreadable(file: string, message: string): ReturnType<typeof parseManifests> {
  return { manifests: [], problems: [{ file, document: 0, path: '', message }] }
}

interface FoundConfiguration {
  readonly file: string
  readonly document: number
  readonly content: DesiredObjects['configurations'][number]
}

/**
 * Names of resources have no namespace. The first Configuration of a name counts, and none counts
 * whose name another Configuration could give to an Instance.
 */
function withoutClashes(
  found: readonly { readonly file: string; readonly manifest: Manifest }[],
  problems: ManifestProblem[],
): Omit<DesiredObjects, 'complete'> & Pick<ManifestSet, 'files'> {
  const configurations = new Map<string, FoundConfiguration>()
  const data = new Map<string, DesiredObjects['data'][number]>()
  const refuse = ({ file, document }: { file: string; document: number }, message: string) =>
    problems.push({ file, document, path: 'metadata.name', message })
  for (const { file, manifest } of found) {
    const { content, document } = manifest
    if (content.kind === 'Data') {
      data.set(`${content.data.kind}/${content.data.namespace}/${content.data.name}`, content.data)
      continue
    }
    const { name } = content.configuration
    const first = configurations.get(name)
    if (first === undefined)
      configurations.set(name, { file, document, content: content.configuration })
    else {
      const message =
        `there is a Configuration ${name} in ${first.file} already (namespace ` +
        `${first.content.namespace}); this one is left out`
      refuse({ file, document }, message)
    }
  }
  const kept = [...configurations.values()].filter((configuration) => {
    const { name } = configuration.content
    const owner = configurations.get(possibleOwner(name) ?? '')
    if (owner === undefined) return true
    const message =
      `${name} could be the name of an Instance of the Configuration ${owner.content.name} in ` +
      `${owner.file}; this one is left out; write another name`
    refuse(configuration, message)
    return false
  })
  const files = new Map(
    kept.map(({ file, content }) => [objectKey(content.namespace, content.name), file]),
  )
  return { configurations: kept.map(({ content }) => content), data: [...data.values()], files }
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
  const watchers = paths.flatMap((source) => {
    try {
      const watcher = watch(source, { persistent: false }, () => changed.abort())
      watcher.on('error', (error) => log.debug({ path: source, err: error }, 'file watch ended'))
      return [watcher]
    } catch (error) {
      log.debug({ path: source, err: error }, 'file watch not started')
      return []
    }
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
