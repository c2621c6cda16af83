/** What `akri doctor` found out about one part of a cluster. */
export interface Finding {
  /** `unknown`: this user may not read what shows it. */
  readonly level: 'ok' | 'warning' | 'problem' | 'unknown'
  readonly text: string
  /** What to do. @default nothing */
  readonly remedy?: string
}

/** The finding about a list of things that are wrong, with the first of them. */
export function findingOf(
  level: 'warning' | 'problem',
  wrong: readonly string[],
  remedy: string,
): Finding[] {
  const [first, ...others] = wrong
  if (first === undefined) return []
  const more = others.length === 0 ? '' : ` (and ${others.length} more)`
  return [{ level, text: first + more, remedy }]
}
