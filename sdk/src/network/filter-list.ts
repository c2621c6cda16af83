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

/** Options of {@link passesFilter}. */
export interface FilterOptions {
  /** Whether upper case equals lower case. @default false */
  readonly ignoreCase?: boolean
}

/**
 * Whether a device passes a filter. All devices pass without a filter, and with `Exclude` and no
 * items. In all other cases a device without a known value does not pass. A device with several
 * values (scopes, addresses) matches if any of its values matches.
 * @param filter undefined: no filter
 * @param value the value of a device, or all its values
 * @param options how values are compared
 *
 * @example
 * const filter = { items: ['Axis', 'Bosch'], action: 'Exclude' } as const
 * passesFilter(filter, 'axis', { ignoreCase: true }) // false
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
  const fold = (text: string) => (ignoreCase ? text.toLowerCase() : text)
  const sets = ignoreCase ? LOWER_CASE_SETS : EXACT_SETS
  const set = sets.get(items) ?? new Set(items.map(fold))
  sets.set(items, set)
  const matches = [value].flat().some((text) => set.has(fold(text)))
  return action === 'Include' ? matches : !matches
}

/** The items of each list as a set: a list can have thousands, and each device is compared. */
const EXACT_SETS = new WeakMap<readonly string[], ReadonlySet<string>>()
const LOWER_CASE_SETS: typeof EXACT_SETS = new WeakMap()
