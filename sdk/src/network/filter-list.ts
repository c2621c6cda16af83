/** A filter in the `discoveryDetails` of the built-in handlers. */
export interface FilterList {
  /** Read once, when the filter is first used: do not change the list after that. */
  readonly items: readonly string[]
  /**
   * `Include`: only the items pass. `Exclude`: all values but the items pass.
   * @default 'Include'
   */
  readonly action?: 'Include' | 'Exclude' | undefined
}

export interface FilterOptions {
  /** @default false */
  readonly ignoreCase?: boolean
}

/**
 * Whether a device passes a filter. All devices pass without a filter, and with `Exclude` and no
 * items. In all other cases a device without a known value does not pass. A device with several
 * values (scopes, addresses) matches if any of its values matches.
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
  const folded = comparison.read(items)
  const matches = (typeof value === 'string' ? [value] : value).some((text) =>
    folded.has(comparison.fold(text)),
  )
  return action === 'Include' ? matches : !matches
}

/**
 * A way to compare texts. Keeps the folded items of each list: a list can have thousands, and each
 * device is compared.
 */
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
