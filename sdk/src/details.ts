import type { StandardSchemaV1 } from '@standard-schema/spec'
import { load, YAMLException } from 'js-yaml'
import { InvalidDetailsError } from './errors.js'

/** The longest `discoveryDetails`, in bytes: what fits into an object of the Kubernetes API. */
const MAX_BYTES = 1024 * 1024

/**
 * Parses `discoveryDetails` (YAML, and so JSON too; nothing at all is `{}`) and validates it by the handler's schema.
 * @throws InvalidDetailsError naming line and column, or the path of each wrong field
 */
export async function parseDetails<Details>(text: string, schema: StandardSchemaV1<unknown, Details>): Promise<Details> {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_BYTES) throw new InvalidDetailsError(`discoveryDetails has ${bytes} bytes, more than ${MAX_BYTES}`)
  const value = parseYaml(text)
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return result.value
  const shown = result.issues.slice(0, 10).map((issue) => describeIssue(issue, value))
  const more = result.issues.length > shown.length ? [`and ${result.issues.length - shown.length} more`] : []
  throw new InvalidDetailsError(`discoveryDetails: ${[...shown, ...more].join('; ')}`)
}

function parseYaml(text: string): unknown {
  if (text.trim() === '') return {}
  try {
    return load(text) ?? {}
  } catch (error) {
    if (!(error instanceof YAMLException))
      throw new InvalidDetailsError(`discoveryDetails cannot be read as YAML`, { cause: error })
    const place = error.mark ? ` in line ${error.mark.line + 1}, column ${error.mark.column + 1}` : ''
    throw new InvalidDetailsError(`discoveryDetails is not YAML: ${error.reason}${place}`, { cause: error })
  }
}

function describeIssue(issue: StandardSchemaV1.Issue, root: unknown): string {
  const keys = (issue.path ?? []).map((segment) => (typeof segment === 'object' ? segment.key : segment))
  if (keys.length === 0) return issue.message
  const path = keys.map((key, index) => (typeof key === 'number' ? `[${key}]` : `${index > 0 ? '.' : ''}${String(key)}`)).join('')
  return `${path}: ${issue.message} (it is ${shortened(valueAt(root, keys))})`
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
  if (typeof value === 'object' && value !== null) return Array.isArray(value) ? 'a list' : 'a mapping'
  const text = typeof value === 'string' ? JSON.stringify(value) : String(value)
  return text.length > 80 ? `${text.slice(0, 80)}…` : text
}
