import { createHash } from 'node:crypto'
import { renameSync, writeFileSync } from 'node:fs'
import { readFile } from 'node:fs/promises'

/** The end of a Job. */
export type JobEnd =
  | { readonly outcome: 'completed' }
  | { readonly outcome: 'failed'; readonly reason: string }

type Entry = JobEnd & { readonly spec: string }

/**
 * A file with the Jobs that have ended, by the uid of their Instance and their spec. A Job that
 * updates a firmware must not run again after a restart of the agent.
 */
export class FinishedJobs {
  readonly file: string
  readonly #entries: Map<string, Entry>

  private constructor(file: string, entries: Iterable<[string, Entry]>) {
    this.file = file
    this.#entries = new Map(entries)
  }

  static async open(file: string): Promise<FinishedJobs> {
    return new FinishedJobs(file, await read(file))
  }

  get(instance: string, spec: string): JobEnd | undefined {
    const entry = this.#entries.get(instance)
    return entry?.spec === digestOf(spec) ? entry : undefined
  }

  /** Throws the system's error if the file cannot be written; the caller tries again. */
  add(instance: string, spec: string, end: JobEnd): void {
    this.#entries.set(instance, { ...end, spec: digestOf(spec) })
    this.#write()
  }

  /** Forgets the Jobs of all other Instances; the file follows with the next write. */
  keepOnly(instances: ReadonlySet<string>): void {
    for (const uid of [...this.#entries.keys()]) if (!instances.has(uid)) this.#entries.delete(uid)
  }

  #write(): void {
    // A rename is atomic: a kill during the write must not lose entries.
    const next = `${this.file}.next`
    writeFileSync(next, JSON.stringify(Object.fromEntries(this.#entries)), {
      mode: 0o600,
      flush: true,
    })
    renameSync(next, this.file)
  }
}

async function read(file: string): Promise<[string, Entry][]> {
  try {
    const entries: unknown = JSON.parse(await readFile(file, 'utf8'))
    if (typeof entries !== 'object' || entries === null) return []
    return Object.entries(entries).filter((entry): entry is [string, Entry] => isEntry(entry[1]))
  } catch {
    // Without a valid file no Job counts as ended.
    return []
  }
}

function isEntry(value: unknown): value is Entry {
  if (
    typeof value !== 'object' ||
    value === null ||
    !('spec' in value) ||
    typeof value.spec !== 'string'
  )
    return false
  if (!('outcome' in value)) return false
  return (
    value.outcome === 'completed' ||
    (value.outcome === 'failed' && 'reason' in value && typeof value.reason === 'string')
  )
}

function digestOf(spec: string): string {
  return createHash('sha256').update(spec).digest('hex')
}
