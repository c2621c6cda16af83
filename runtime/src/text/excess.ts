/** The most values of a document. An alias counts as all the values that it stands for. */
const MAX_VALUES = 500_000
/** The deepest nesting: the stack of each of our parsers holds more. */
const MAX_DEPTH = 100

/**
 * The bound that a document exceeds; undefined if there is none. With the aliases of YAML, one
 * line can stand for an endless document, or for more values than memory holds.
 * @param mostValues the most values
 */
export function excess(root: unknown, mostValues = MAX_VALUES): string | undefined {
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value: root, depth: 0 }]
  let values = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth } = next
    values++
    if (typeof value !== 'object' || value === null) continue
    if (depth >= MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} deep`
    const inner: unknown[] = Array.isArray(value) ? value : Object.values(value)
    if (values + open.length + inner.length > mostValues)
      return `it has more than ${mostValues} values, with its aliases`
    for (const each of inner) open.push({ value: each, depth: depth + 1 })
  }
  return undefined
}
