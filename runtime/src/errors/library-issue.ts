import type { StandardSchemaV1 } from '@standard-schema/spec'

/**
 * An issue as zod writes it. `unknown_field` is of valibot and arktype alone: there, the path leads
 * to the field.
 */
export interface KnownIssue extends StandardSchemaV1.Issue {
  readonly code?: unknown
  readonly expected?: unknown
}

/** An issue of valibot or arktype in the form of zod. All others are as they are. */
export function knownIssue(issue: StandardSchemaV1.Issue): KnownIssue {
  // In arktype these are getters of a class.
  const get = (field: string): unknown => Reflect.get(issue, field)
  const { path = [], message } = issue
  const problem = get('problem')
  // An author can give another message.
  if (typeof problem === 'string' && message.endsWith(problem))
    return { path, ...ofArktype(problem) }
  if (typeof get('kind') === 'string' && OF_VALIBOT.test(message))
    return { path, message: LIBRARY, ...ofValibot(get) }
  return issue
}

/** The message of zod that stands for no words of an author. */
const LIBRARY = 'Invalid input'
const UNKNOWN_FIELD = { message: LIBRARY, code: 'unknown_field' }

/** @param problem such as `must be a number (was a string)`; of a union, it begins with the path */
function ofArktype(problem: string): KnownIssue {
  if (problem === 'must be removed') return UNKNOWN_FIELD
  const [expected = ''] = (problem.split(MUST_BE).slice(1).join(MUST_BE) || problem).split(' (was ')
  const [, type] = /^an? (string|number|object|array)$/.exec(expected) ?? []
  return type === undefined
    ? { message: `it must be ${expected}` }
    : { message: LIBRARY, code: 'invalid_type', expected: type }
}

const MUST_BE = 'must be '
const OF_VALIBOT = /^Invalid [\w- ]+: (Expected .* but r|R)eceived /s

const BOUNDS = new Map<unknown, object>([
  ['min_value', { code: 'too_small' }],
  ['gt_value', { code: 'too_small', inclusive: false }],
  ['min_length', { code: 'too_small' }],
  ['non_empty', { code: 'too_small' }],
  ['max_value', { code: 'too_big' }],
  ['lt_value', { code: 'too_big', inclusive: false }],
  ['max_length', { code: 'too_big' }],
  ['length', { code: 'too_small', exact: true }],
])
/** Formats by their names, and the fields that zod has their texts in. */
const FORMATS = new Map<unknown, { readonly format: string; readonly field?: string }>([
  ...['email', 'url', 'uuid', 'ipv4', 'ipv6'].map((format) => [format, { format }] as const),
  ['iso_date', { format: 'date' }],
  ['iso_timestamp', { format: 'datetime' }],
  ['regex', { format: 'regex', field: 'pattern' }],
  ['starts_with', { format: 'starts_with', field: 'prefix' }],
  ['ends_with', { format: 'ends_with', field: 'suffix' }],
  ['includes', { format: 'includes', field: 'includes' }],
])

/** All but the path and the message. */
function ofValibot(get: (field: string) => unknown): Record<string, unknown> {
  const [type, expected, requirement] = [get('type'), get('expected'), get('requirement')]
  if (get('kind') === 'schema') return ofExpected(String(type), String(expected))
  if (type === 'integer') return { code: 'invalid_type', expected: 'int' }
  if (type === 'multiple_of') return { code: 'not_multiple_of', divisor: requirement }
  const bound = BOUNDS.get(type)
  if (bound !== undefined) {
    const ofText = typeof get('input') === 'string' ? 'string' : 'array'
    const origin = /length|empty/.test(String(type)) ? ofText : 'number'
    return { ...bound, minimum: requirement ?? 1, maximum: requirement, origin }
  }
  const { format, field } = FORMATS.get(type) ?? {}
  if (format === undefined) return {}
  return { code: 'invalid_format', format, ...(field && { [field]: requirement }) }
}

/** @param expected such as `string`, `(string | null)`, `("a" | "b")`, or a field: `"name"` */
function ofExpected(type: string, expected: string): Record<string, unknown> {
  if (expected === 'never' && type !== 'never') return UNKNOWN_FIELD
  // A mapping lacks this field, whatever its type is.
  if (/object/.test(type) && expected.startsWith('"'))
    return { code: 'invalid_type', expected: 'nonoptional' }
  const options = expected.replace(/^\((.*)\)$/, '$1').split(' | ')
  const values = options.flatMap((option) => literalOf(option) ?? [])
  if (values.length === options.length) return { code: 'invalid_value', values }
  const errors = options.map((each) => [
    { message: LIBRARY, code: 'invalid_type', expected: each.toLowerCase() },
  ])
  return errors.length === 1 ? { ...errors[0]?.[0] } : { code: 'invalid_union', errors }
}

/** The value that a text of valibot stands for; undefined for the name of a type. */
function literalOf(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
