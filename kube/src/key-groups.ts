interface Group<Key> {
  /** In the order of their additions. */
  readonly waiting: Set<Key>
  readonly running: Set<Key>
}

interface Call {
  readonly group: string
  readonly startedAt: number
}

/** A call that takes so long waits for a slow answer, in milliseconds. */
const SLOW_MS = 2000
/** For how long its group counts as slow after its end, in milliseconds. */
const REMEMBERED_MS = 60_000
/** The most groups that are remembered as slow. */
const MAX_REMEMBERED = 1000

/**
 * The keys of a queue by their group: those that wait for their turn, and those that run. The next
 * key is of the group that runs the fewest keys; of such groups, of that whose turn was the longest
 * ago. A key never runs twice at once. All slow groups together may run as many keys as one group:
 * several of them must not stop the others.
 */
export class KeyGroups<Key extends string> {
  readonly #groupOf: (key: Key) => string
  readonly #limit: number
  readonly #now: () => number
  /** When the last slow call of a group ended, the oldest first. */
  readonly #slowAt = new Map<string, number>()
  /** Groups that have keys, that whose turn was the longest ago first. */
  readonly #groups = new Map<string, Group<Key>>()
  #waiting = 0
  /** The keys that run. */
  readonly #calls = new Map<Key, Call>()

  /**
   * @param groupOf the group of a key, always the same
   * @param limit how many keys of a group, or of all slow groups, may run at once
   * @param now a time in milliseconds
   */
  constructor(groupOf: (key: Key) => string, limit: number, now: () => number) {
    this.#groupOf = groupOf
    this.#limit = limit
    this.#now = now
  }

  /** How many keys wait. */
  get waiting(): number {
    return this.#waiting
  }

  /** How many keys run. */
  get running(): number {
    return this.#calls.size
  }

  isWaiting(key: Key): boolean {
    return this.#groups.get(this.#groupOf(key))?.waiting.has(key) === true
  }

  add(key: Key): void {
    if (this.isWaiting(key)) return
    const name = this.#groupOf(key)
    const group = this.#groups.get(name) ?? { waiting: new Set(), running: new Set() }
    this.#groups.set(name, group)
    group.waiting.add(key)
    this.#waiting++
  }

  /** @returns the key whose turn it is, which runs now; undefined if no key may run */
  begin(): Key | undefined {
    let next: { name: string; group: Group<Key>; key: Key } | undefined
    const now = this.#now()
    const slow = this.#slowGroups(now)
    for (const [name, group] of this.#groups) {
      if (group.running.size >= (next?.group.running.size ?? this.#limit)) continue
      if (slow.running >= this.#limit && slow.has(name)) continue
      const key = firstIdle(group)
      if (key === undefined) continue
      next = { name, group, key }
      if (group.running.size === 0) break
    }
    if (next === undefined) return undefined
    const { name, group, key } = next
    group.waiting.delete(key)
    this.#waiting--
    group.running.add(key)
    this.#calls.set(key, { group: name, startedAt: now })
    this.#groups.delete(name)
    this.#groups.set(name, group)
    return key
  }

  end(key: Key): void {
    const call = this.#calls.get(key)
    if (call === undefined) return
    this.#calls.delete(key)
    const now = this.#now()
    if (now - call.startedAt >= SLOW_MS) this.#remember(call.group, now)
    const group = this.#groups.get(call.group)
    group?.running.delete(key)
    if (group?.running.size === 0 && group.waiting.size === 0) this.#groups.delete(call.group)
  }

  #remember(name: string, now: number): void {
    this.#slowAt.delete(name)
    this.#slowAt.set(name, now)
    const [oldest] = this.#slowAt.keys()
    if (this.#slowAt.size > MAX_REMEMBERED && oldest !== undefined) this.#slowAt.delete(oldest)
  }

  /** The slow groups, and how many of their keys run. */
  #slowGroups(now: number): { has(group: string): boolean; readonly running: number } {
    for (const [group, at] of this.#slowAt) {
      if (now - at < REMEMBERED_MS) break
      this.#slowAt.delete(group)
    }
    const calls = [...this.#calls.values()]
    const long = calls.filter(({ startedAt }) => now - startedAt >= SLOW_MS)
    const waiting = new Set(long.map(({ group }) => group))
    const has = (group: string) => waiting.has(group) || this.#slowAt.has(group)
    return { has, running: calls.filter(({ group }) => has(group)).length }
  }

  /** Drops the keys that wait. */
  clear(): void {
    for (const [name, { waiting, running }] of this.#groups) {
      waiting.clear()
      if (running.size === 0) this.#groups.delete(name)
    }
    this.#waiting = 0
  }
}

/** A key that was added during its call waits for the end of that call. */
function firstIdle<Key>({ waiting, running }: Group<Key>): Key | undefined {
  for (const key of waiting) if (!running.has(key)) return key
  return undefined
}
