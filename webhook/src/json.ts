/** What stands at a place of a JSON value; undefined where nothing does. */
export function at(value: unknown, ...path: readonly string[]): unknown {
  let found = value
  for (const name of path) {
    if (
      typeof found !== 'object' ||
      found === null ||
      Array.isArray(found) ||
      !Object.hasOwn(found, name)
    )
      return undefined
    found = Reflect.get(found, name)
  }
  return found
}

/** Whether two JSON values are the same, however deep they are. */
export function isSameJson(one: unknown, other: unknown): boolean {
  const open: [unknown, unknown][] = [[one, other]]
  for (let pair = open.pop(); pair !== undefined; pair = open.pop()) {
    const [a, b] = pair
    if (a === b) continue
    if (
      typeof a !== 'object' ||
      typeof b !== 'object' ||
      a === null ||
      b === null ||
      Array.isArray(a) !== Array.isArray(b)
    )
      return false
    const keys = Object.keys(a)
    if (keys.length !== Object.keys(b).length) return false
    for (const key of keys) {
      if (!Object.hasOwn(b, key)) return false
      open.push([Reflect.get(a, key), Reflect.get(b, key)])
    }
  }
  return true
}
