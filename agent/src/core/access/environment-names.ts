import { readerAtStart } from './start-variables.js'

/** The longest name that is compared: no real name is longer. */
export const MAX_NAME = 256

/**
 * A handler describes devices; the author of a broker decides about its programs. No list of names
 * is complete: an operator can allow the names of a handler only.
 * @returns why a handler must not report a property: how a program would read it; undefined for a
 * property that only describes a device
 */
export function startEffect(name: string, value: string): string | undefined {
  if (name.length > MAX_NAME) return `its name has more than ${MAX_NAME} characters`
  // The name of a variable ends at '='.
  if (/[=\p{Cc}\s]/u.test(name)) return "its name has '=', white space or control characters"
  // Old versions of bash run what follows the function in such a value.
  if (value.startsWith('() {')) return 'shells read its value as a function'
  return readerAtStart(name)
}
