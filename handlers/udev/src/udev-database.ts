import { readAssignment } from './uevent-message.js'

/** The record that udevd wrote about a device. */
export interface UdevRecord {
  readonly properties: ReadonlyMap<string, string>
  readonly links: readonly string[]
  readonly tags: ReadonlySet<string>
  readonly currentTags: ReadonlySet<string>
  readonly initialized: string | undefined
}

/** Reads the text of a file of the database of udev; the empty text is an empty record. */
export function parseUdevRecord(text: string): UdevRecord {
  const lines = text.split('\n')
  const values = (prefix: string) =>
    lines.filter((line) => line.startsWith(prefix)).map((line) => line.slice(prefix.length))
  const [tags, currentTags] = [new Set(values('G:')), new Set(values('Q:'))]
  // Before version 1 of the database, all tags were current.
  const hasCurrentTags = Number(values('V:').at(-1) ?? 0) >= 1 || currentTags.size > 0
  return {
    properties: new Map(values('E:').flatMap(readAssignment)),
    links: values('S:'),
    tags,
    currentTags: hasCurrentTags ? currentTags : tags,
    initialized: values('I:').at(-1),
  }
}

/** The limit of remembered records. */
const MAX_RECORDS = 1000

/**
 * Records of devices that disappeared. A record stays until udevd processes the removal, and the
 * next device with the same number must not have it.
 */
export class StaleRecords {
  readonly #texts = new Map<string, string>()

  add(name: string, text: string): void {
    this.#texts.delete(name)
    this.#texts.set(name, text)
    for (const oldest of this.#texts.keys()) {
      if (this.#texts.size <= MAX_RECORDS) break
      this.#texts.delete(oldest)
    }
  }

  /** Whether a record is about a device that disappeared. */
  has(name: string, text: string): boolean {
    const stale = this.#texts.get(name)
    if (stale === undefined) return false
    if (stale === text) return true
    this.#texts.delete(name)
    return false
  }
}
