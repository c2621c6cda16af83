/** The most values that a document may have, each alias counted with all that it stands for. */
const MAX_VALUES = 500_000
/** Less than what the stack of any of our readers holds. */
const MAX_DEPTH = 100

/**
 * What is too much about a value, if anything is. Aliases of YAML make it possible to write something endless in one line,
 * or something that has more values than memory holds.
 */
export function excess(root: unknown): string | undefined {
  const open: { readonly value: unknown; readonly depth: number }[] = [{ value: root, depth: 0 }]
  let values = 0
  for (let next = open.pop(); next !== undefined; next = open.pop()) {
    const { value, depth } = next
    values++
    if (values + open.length > MAX_VALUES)
      return `it has more than ${MAX_VALUES} values, with its aliases`
    if (typeof value !== 'object' || value === null) continue
    if (depth >= MAX_DEPTH) return `it is nested more than ${MAX_DEPTH} deep`
    for (const inner of Object.values(value)) open.push({ value: inner, depth: depth + 1 })
  }
  return undefined
}
