interface Group<Key> {
  /** In the order of their additions. */
  readonly waiting: Set<Key>
  readonly running: Set<Key>
}

/**
 * The keys of a queue by their group: those that wait for their turn, and those that run. The next
 * key is of the group that runs the fewest keys; of such groups, of that whose turn was the longest
 * ago. A key never runs twice at once.
 */
export class KeyGroups<Key extends string> {
  readonly #groupOf: (key: Key) => string
  readonly #limit: number
  /** Groups that have keys, that whose turn was the longest ago first. */
  readonly #groups = new Map<string, Group<Key>>()
  #waiting = 0
  #running = 0

  /**
   * @param groupOf the group of a key, always the same
   * @param limit how many keys of a group may run at once
   */
  constructor(groupOf: (key: Key) => string, limit: number) {
    this.#groupOf = groupOf
    this.#limit = limit
  }

  /** How many keys wait. */
  get waiting(): number {
    return this.#waiting
  }

  /** How many keys run. */
  get running(): number {
    return this.#running
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
    for (const [name, group] of this.#groups) {
      if (group.running.size >= (next?.group.running.size ?? this.#limit)) continue
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
    this.#running++
    this.#groups.delete(name)
    this.#groups.set(name, group)
    return key
  }

  end(key: Key): void {
    const name = this.#groupOf(key)
    const group = this.#groups.get(name)
    if (group?.running.delete(key) !== true) return
    this.#running--
    if (group.running.size + group.waiting.size === 0) this.#groups.delete(name)
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
