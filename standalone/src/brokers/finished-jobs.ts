import { createHash } from 'node:crypto'
import { isRecord } from '@akrijs/runtime'
import { readJson, writeJson } from './json-file.js'

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

  private constructor(file: string, content: unknown) {
    this.file = file
    // Without a valid file no Job counts as ended.
    const entries = Object.entries(isRecord(content) ? content : {})
    this.#entries = new Map(entries.filter((entry): entry is [string, Entry] => isEntry(entry[1])))
  }

  static async open(file: string): Promise<FinishedJobs> {
    return new FinishedJobs(file, await readJson(file))
  }

  get(instance: string, spec: string): JobEnd | undefined {
    const entry = this.#entries.get(instance)
    return entry?.spec === digestOf(spec) ? entry : undefined
  }

  /** Throws the system's error if the file cannot be written; the caller tries again. */
  add(instance: string, spec: string, end: JobEnd): void {
    this.#entries.set(instance, { ...end, spec: digestOf(spec) })
    writeJson(this.file, Object.fromEntries(this.#entries), { flush: true })
  }

  /** Forgets the Jobs of all other Instances; the file follows with the next write. */
  keepOnly(instances: ReadonlySet<string>): void {
    for (const uid of [...this.#entries.keys()]) if (!instances.has(uid)) this.#entries.delete(uid)
  }
}

function isEntry(value: unknown): value is Entry {
  if (!isRecord(value) || typeof value.spec !== 'string') return false
  const { outcome, reason } = value
  return outcome === 'completed' || (outcome === 'failed' && typeof reason === 'string')
}

function digestOf(spec: string): string {
  return createHash('sha256').update(spec).digest('hex')
}
