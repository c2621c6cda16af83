import { readText } from './sysfs-files.js'
import { readAssignment } from './uevent-message.js'

/** The limit of a database file, in bytes. */
const MAX_BYTES = 1024 * 1024

/** The record that udevd wrote about a device. */
export interface UdevRecord {
  readonly properties: ReadonlyMap<string, string>
  readonly links: readonly string[]
  readonly tags: ReadonlySet<string>
  readonly currentTags: ReadonlySet<string>
  readonly initialized: string | undefined
}

/** Reads a file of the database of udev; an absent file is an empty record. */
export function readUdevRecord(file: string): UdevRecord {
  const lines = (readText(file, MAX_BYTES) ?? '').split('\n')
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
