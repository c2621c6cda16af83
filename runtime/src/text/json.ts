/** Whether a value of JSON is an object, not a list. */
export function isRecord(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** The field of an object or the item of a list; undefined if there is none. */
export function fieldOf(value: unknown, key: PropertyKey): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, key)
    ? Reflect.get(value, key)
    : undefined
}

/** The value at a path; undefined if the path does not exist. */
export function valueAt(root: unknown, ...path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(fieldOf, root)
}

/** A path as text, such as `spec.rules[0].name`. */
export function pathText(path: readonly PropertyKey[]): string {
  return path
    .map((key, index) =>
      typeof key === 'number' ? `[${key}]` : `${index > 0 ? '.' : ''}${String(key)}`,
    )
    .join('')
}
