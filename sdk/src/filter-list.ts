/** Which values are wanted, as `discoveryDetails` of the built-in handlers say it. */
export interface FilterList {
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
  const fold = (text: string) => (ignoreCase ? text.toLowerCase() : text)
  const wanted = new Set(items.map(fold))
  const matches = (typeof value === 'string' ? [value] : value).some((one) => wanted.has(fold(one)))
  return action === 'Include' ? matches : !matches
}
