/** Which values are wanted, as `discoveryDetails` of the built-in handlers say it. */
export interface FilterList {
  /** Not to be changed once the filter has been asked: they are read then, and not again. */
  readonly items: readonly string[]
  /** `Include`: only the items are wanted. `Exclude`: all but the items. @default 'Include' */
  readonly action?: 'Include' | 'Exclude' | undefined
}

export interface FilterOptions {
  /** @default false */
  readonly ignoreCase?: boolean
}

/**
 * Whether a device passes. Without a filter, and by `Exclude` of nothing, all pass. Otherwise a device whose value is not
 * known does not pass, whatever the action: nobody can tell. A device with several values (scopes, addresses) matches when
 * one of them does.
 */
export function passesFilter(
  filter: FilterList | undefined,
  value: string | readonly string[] | undefined,
  { ignoreCase = false }: FilterOptions = {},
): boolean {
  if (filter === undefined) return true
  const { items, action = 'Include' } = filter
  if (action === 'Exclude' && items.length === 0) return true
  if (value === undefined) return false
  const comparison = ignoreCase ? IGNORING_CASE : EXACT
  const wanted = comparison.read(items)
  const matches = (typeof value === 'string' ? [value] : value).some((one) =>
    wanted.has(comparison.fold(one)),
  )
  return action === 'Include' ? matches : !matches
}

/** A way to compare, with what it has made of the lists so far: one may have thousands of items, and is asked for each device. */
class Comparison {
  readonly fold: (text: string) => string
  readonly #read = new WeakMap<readonly string[], ReadonlySet<string>>()

  constructor(fold: (text: string) => string) {
    this.fold = fold
  }

  read(items: readonly string[]): ReadonlySet<string> {
    let read = this.#read.get(items)
    if (read === undefined) {
      read = new Set(items.map(this.fold))
      this.#read.set(items, read)
    }
    return read
  }
}

const EXACT = new Comparison((text) => text)
const IGNORING_CASE = new Comparison((text) => text.toLowerCase())
