import {
  excess,
  fieldOf,
  isRecord,
  issueMessage,
  issuePath,
  isUnknownField,
  maskUrls,
  nearest,
  nextTurn,
  pathText,
  valueAt,
} from '@akrijs/runtime'
import type { StandardSchemaV1 } from '@standard-schema/spec'
import { load, YAMLException } from 'js-yaml'
import { InvalidDetailsError } from './errors.js'
import { allowedFields } from './unknown-fields.js'

/** The longest `discoveryDetails`, in bytes: the limit of an object of the Kubernetes API. */
const MAX_BYTES = 1024 * 1024
/**
 * The longest text that is read as YAML, in bytes. No other work has a turn meanwhile, and YAML
 * takes fifty times as long as JSON.
 */
const MAX_YAML_BYTES = 256 * 1024

/** What begins further out than the details: a whole Configuration, in YAML or JSON. */
const WHOLE = /\bapiVersion["']?\s*:\s*["']?akri\.sh\//
/** The fields of a Configuration around its details. */
const AROUND = ['spec', 'discoveryHandler', 'discoveryDetails']
const NOT_DETAILS =
  'it is a whole Configuration, or a part of one: write only the text of its ' +
  'spec.discoveryHandler.discoveryDetails'

/** A problem in `discoveryDetails`. */
export interface DetailsProblem {
  /** The path of the field, such as `udevRules[0]`; empty for the whole text. */
  readonly path: string
  /** What is wrong, and what would be right. */
  readonly message: string
}

export type ReadDetails<Details> =
  | { readonly ok: true; readonly details: Details }
  | { readonly ok: false; readonly problems: readonly DetailsProblem[] }

/** The number of problems that are reported. The last message counts the others. */
const MAX_PROBLEMS = 10

/**
 * Reads `discoveryDetails` (YAML or JSON; an empty text is `{}`), and validates them with the
 * handler's schema. Throws only the errors of the schema.
 */
export async function readDetails<Details>(
  text: string,
  schema: StandardSchemaV1<unknown, Details>,
): Promise<ReadDetails<Details>> {
  const bytes = Buffer.byteLength(text)
  if (bytes > MAX_BYTES) return refusal(`it has ${bytes} bytes, more than ${MAX_BYTES}`)
  if (WHOLE.test(text)) return refusal(NOT_DETAILS)
  // All Configurations are read at a start, and others would wait for the last of them.
  await nextTurn()
  const read = bytes > MAX_YAML_BYTES ? readLongJson(text, bytes) : readYaml(text)
  if ('wrong' in read) return refusal(read.wrong)
  const { value } = read
  const result = await schema['~standard'].validate(value)
  if (result.issues === undefined) return { ok: true, details: result.value }
  // A schema can have such a field.
  if (AROUND.some((key) => fieldOf(value, key) !== undefined)) return refusal(NOT_DETAILS)
  const first = result.issues.slice(0, MAX_PROBLEMS)
  const found = first.flatMap((issue) => problemsOf(issue, value, schema))
  const problems = found.slice(0, MAX_PROBLEMS).map((describe) => describe())
  const more = result.issues.length - first.length + found.length - problems.length
  return {
    ok: false,
    problems: more === 0 ? problems : [...problems, { path: '', message: `and ${more} more` }],
  }
}

/**
 * {@link readDetails} for callers without a use for problems.
 * @throws InvalidDetailsError with line and column, or the path of each wrong field
 */
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

type ReadText = { readonly value: unknown } | { readonly wrong: string }

function readLongJson(text: string, bytes: number): ReadText {
  try {
    return checked(JSON.parse(text))
  } catch {
    // The message of the parser quotes the text, which can have passwords.
    return { wrong: `it has ${bytes} bytes: with more than ${MAX_YAML_BYTES}, write it as JSON` }
  }
}

function readYaml(text: string): ReadText {
  if (text.trim() === '') return { value: {} }
  try {
    return checked(load(text) ?? {})
  } catch (error) {
    if (!(error instanceof YAMLException)) return { wrong: 'it cannot be read as YAML' }
    const { reason, mark } = error
    const place = mark ? ` in line ${mark.line + 1}, column ${mark.column + 1}` : ''
    return { wrong: `it is not YAML: ${reason}${place}${ruleHint(text, mark?.line)}` }
  }
}

/** As in `ATTR{size}=="1"`: between `[` and `]`, YAML refuses the brace of a condition of udev. */
const UDEV_CONDITION = /\b[A-Z]{2,}(?:\{|\s*[=!]=)/

/**
 * What to do about a YAML error in a udev rule; empty for any other error.
 * @param line of the error, from 0
 */
export function ruleHint(details: string, line: number | undefined): string {
  if (line === undefined || !UDEV_CONDITION.test(details.split('\n')[line] ?? '')) return ''
  const rule = 'ATTR{size}=="1"'
  return `; put the rule in quotes: ['${rule}'], or on a line of its own: - ${rule}`
}

/** Schemas follow aliases, also without an end. */
function checked(value: unknown): ReadText {
  const tooMuch = excess(value)
  return tooMuch === undefined ? { value } : { wrong: tooMuch }
}

/**
 * Each unknown field is a problem of its own: it has its own place, and may mean another field.
 * @returns describes each problem: there can be very many
 */
function problemsOf(
  issue: StandardSchemaV1.Issue,
  root: unknown,
  schema: StandardSchemaV1,
): (() => DetailsProblem)[] {
  const keys = issuePath(issue)
  if (isUnknownField(issue))
    return [() => unknownField(keys, allowedFields(schema, keys.slice(0, -1)))]
  const known = allowedFields(schema, keys)
  const value = valueAt(root, ...keys)
  const unknown =
    known && isRecord(value) ? Object.keys(value).filter((key) => !known.includes(key)) : []
  // Another check of the same mapping can have failed.
  const isNamed = (key: string) => issue.message.includes(key)
  if (unknown.length === 0 || !unknown.slice(0, MAX_PROBLEMS).every(isNamed))
    return [() => ({ path: pathText(keys), message: issueMessage(issue, root) })]
  return unknown.map((key) => () => unknownField([...keys, key], known))
}

function unknownField(keys: readonly PropertyKey[], known: readonly string[] = []): DetailsProblem {
  const meant = nearest(String(keys.at(-1)), known)
  const others = known.length === 0 ? '' : `; there are ${known.join(', ')}`
  const right = meant === undefined ? others : `; did you mean ${meant}?`
  return { path: maskUrls(pathText(keys)), message: `there is no such field${right}` }
}
