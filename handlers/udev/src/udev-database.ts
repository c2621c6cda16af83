import { readAssignment, readText } from './sysfs-files.js'

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

const EMPTY: UdevRecord = {
  properties: new Map(),
  links: [],
  tags: new Set(),
  currentTags: new Set(),
  initialized: undefined,
}

/** Reads a file of the database of udev; an absent file is an empty record. */
export function readUdevRecord(file: string): UdevRecord {
  const text = readText(file, MAX_BYTES)
  if (text === undefined) return EMPTY
  const properties = new Map<string, string>()
  const links: string[] = []
  const tags = new Set<string>()
  const currentTags = new Set<string>()
  let initialized: string | undefined
  let version = 0
  for (const line of text.split('\n')) {
    const value = line.slice(2)
    if (line.startsWith('E:'))
      for (const [name, text] of readAssignment(value)) properties.set(name, text)
    if (line.startsWith('S:')) links.push(value)
    if (line.startsWith('G:')) tags.add(value)
    if (line.startsWith('Q:')) currentTags.add(value)
    if (line.startsWith('I:')) initialized = value
    if (line.startsWith('V:')) version = Number(value)
  }
  // Before version 1 of the database, all tags were current.
  return {
    properties,
    links,
    tags,
    currentTags: version >= 1 || currentTags.size > 0 ? currentTags : tags,
    initialized,
  }
}
