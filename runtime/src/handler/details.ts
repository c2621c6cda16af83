import type { StandardSchemaV1 } from '@standard-schema/spec'
import { load, YAMLException } from 'js-yaml'
import { InvalidDetailsError } from './errors.js'
import { knownFields } from './known-fields.js'

/** The longest `discoveryDetails`, in bytes: what fits into an object of the Kubernetes API. */
const MAX_BYTES = 1024 * 1024

/** Something in `discoveryDetails` that is not as it should be. */
export interface DetailsProblem {
  /** Such as `udevRules[0]`; empty for all of it. */
  readonly path: string
  readonly message: string
}

export type ReadDetails<Details> =
  | { readonly ok: true; readonly details: Details }
  | { readonly ok: false; readonly problems: readonly DetailsProblem[] }

/** How many problems are told; how many more there are is told too. */
const MAX_PROBLEMS = 10

/**
 * Reads `discoveryDetails` (YAML, and so JSON too; nothing at all is `{}`) and validates it by the handler's schema. Throws only
 * what the schema throws.
 */
export async function readDetails<Details>(
  text: string,
  schema: StandardSchemaV1<unknown, Details>,
): Promise<ReadDetails<Details>> {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_BYTES) return refusal(`it has ${bytes} bytes, more than ${MAX_BYTES}`)
  const read = readYaml(text)
  if (!read.ok) return refusal(read.message)
  const { value } = read
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return { ok: true, details: result.value }
  const problems = result.issues
    .slice(0, MAX_PROBLEMS)
    .map((issue) => describeIssue(issue, value, schema))
  const more = result.issues.length - problems.length
  return {
    ok: false,
    problems: more === 0 ? problems : [...problems, { path: '', message: `and ${more} more` }],
  }
}

/** {@link readDetails}, for who has no use for problems. @throws InvalidDetailsError naming line and column, or the path of each wrong field */
export async function parseDetails<Details>(
  text: string,
  schema: StandardSchemaV1<unknown, Details>,
): Promise<Details> {
  const read = await readDetails(text, schema)
  if (read.ok) return read.details
  const problems = read.problems.map(({ path, message }) =>
    path === '' ? message : `${path}: ${message}`,
  )
  throw new InvalidDetailsError(`discoveryDetails: ${problems.join('; ')}`)
}

function refusal(message: string): ReadDetails<never> {
  return { ok: false, problems: [{ path: '', message }] }
}

function readYaml(
  text: string,
):
  | { readonly ok: true; readonly value: unknown }
  | { readonly ok: false; readonly message: string } {
  if (text.trim() === '') return { ok: true, value: {} }
  try {
    return { ok: true, value: load(text) ?? {} }
  } catch (error) {
    if (!(error instanceof YAMLException))
      return { ok: false, message: 'it cannot be read as YAML' }
    const place = error.mark
      ? ` in line ${error.mark.line + 1}, column ${error.mark.column + 1}`
      : ''
    return { ok: false, message: `it is not YAML: ${error.reason}${place}` }
  }
}

function describeIssue(
  issue: StandardSchemaV1.Issue,
  root: unknown,
  schema: StandardSchemaV1,
): DetailsProblem {
  const keys = (issue.path ?? []).map((segment) =>
    typeof segment === 'object' ? segment.key : segment,
  )
  const fields = knownFields(schema, keys, valueAt(root, keys))
  const message =
    fields === undefined ? issue.message : `${issue.message}; there are ${fields.join(', ')}`
  if (keys.length === 0) return { path: '', message }
  const path = keys
    .map((key, index) =>
      typeof key === 'number' ? `[${key}]` : `${index > 0 ? '.' : ''}${String(key)}`,
    )
    .join('')
  // One of several lines has an excerpt of its own.
  const value =
    fields !== undefined || message.includes('\n')
      ? ''
      : ` (it is ${shortened(valueAt(root, keys))})`
  return { path, message: `${message}${value}` }
}

function valueAt(root: unknown, keys: readonly PropertyKey[]): unknown {
  let value = root
  for (const key of keys) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, key)) return undefined
    value = Reflect.get(value, key)
  }
  return value
}

function shortened(value: unknown): string {
  if (value === undefined) return 'missing'
  // An array or object may hold itself, by a YAML alias.
  if (typeof value === 'object' && value !== null)
    return Array.isArray(value) ? 'a list' : 'a mapping'
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
