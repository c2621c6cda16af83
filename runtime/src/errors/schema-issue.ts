import type { StandardSchemaV1 } from '@standard-schema/spec'
import { fieldOf, isRecord, pathText, valueAt } from '../text/json.js'
import { shorten } from '../text/printable.js'
import { isSecretAt, MASK, maskUrls } from '../text/secrets.js'
import { knownIssue } from './library-issue.js'

// The words for what a schema refuses. Libraries of schemas write for programmers: "Invalid input:
// expected string, received undefined".

/** The messages that zod writes itself. All others are the author's. */
const LIBRARY_MESSAGE = new RegExp(
  '^(Invalid (input$|input: (expected|more than)|option: expected|string: must|number: must|' +
    'key in |value in |discriminator )|Too (big|small): expected|' +
    'Unrecognized keys?: |Required$|Expected \\w+, received )',
)
/** So many issues stand in the text of an error, and so many values in a message. */
const MAX_ISSUES = 5
const MAX_VALUES = 20
const MAX_PATTERN = 100

/** The path of an issue, without the objects in which some libraries put its keys. */
export function issuePath({ path = [] }: StandardSchemaV1.Issue): PropertyKey[] {
  // Not `path.map`: the path of arktype is of a class, whose `map` would add an item.
  return Array.from(path, (segment) => (typeof segment === 'object' ? segment.key : segment))
}

/** Whether an issue is about a field that a mapping may not have. */
export function isUnknownField(issue: StandardSchemaV1.Issue): boolean {
  return knownIssue(issue).code === 'unknown_field'
}

/**
 * What is at the place of an issue, and what would be right: `it is missing; write a text`. The
 * message of the author of a schema is kept. Shows no secret.
 * @param root the value that the schema refused
 */
export function issueMessage(found: StandardSchemaV1.Issue, root: unknown): string {
  const issue = knownIssue(found)
  const keys = issuePath(issue)
  const value = valueAt(root, ...keys)
  // A schema can repeat the value.
  const right = maskUrls(rightText(issue)) + quotesHint(fieldOf(issue, 'expected'), value)
  // Such a message is about a name, or has its own excerpt of the value.
  if (codeOf(issue) === 'invalid_key' || right.includes('\n')) return right
  if (keys.length === 0)
    return codeOf(issue) === 'invalid_type' ? `${right}; it is ${nounOf(value)}` : right
  if (value === undefined) return `it is missing; ${right}`
  return `${right}; it is ${isSecretAt(root, keys) ? MASK : shorten(value, 80)}`
}

/**
 * The text of an error with the issues of a schema, without the values.
 * @returns undefined if the error has none
 */
export function issuesText(error: unknown): string | undefined {
  const issues = fieldOf(error, 'issues')
  if (!Array.isArray(issues) || issues.length === 0 || !issues.every(isIssue)) return undefined
  const texts = issues.slice(0, MAX_ISSUES).map((found) => {
    const issue = knownIssue(found)
    const path = pathText(issuePath(issue))
    return path === '' ? rightText(issue) : `${path}: ${rightText(issue)}`
  })
  const more = issues.length - texts.length
  return [...texts, ...(more > 0 ? [`and ${more} more`] : [])].join('; ')
}

function isIssue(value: unknown): value is StandardSchemaV1.Issue {
  const path = fieldOf(value, 'path')
  return isRecord(value) && typeof value.message === 'string' && (!path || Array.isArray(path))
}

/** What would be right, as an order to the author of a value. */
function rightText(issue: StandardSchemaV1.Issue): string {
  const { message } = issue
  // Such as `Invalid email address`.
  const isFormat = codeOf(issue) === 'invalid_format' && /^Invalid [^:]+$/.test(message)
  if (!isFormat && !LIBRARY_MESSAGE.test(message)) return message
  return wordsFor(issue) ?? 'write another value'
}

/** The kind of an issue, as zod names it. */
function codeOf(issue: object): unknown {
  return fieldOf(issue, 'code')
}

function wordsFor(issue: object): string | undefined {
  const of = (field: string) => fieldOf(issue, field)
  switch (codeOf(issue)) {
    case 'invalid_type':
      return typeof of('expected') === 'string' ? typeWords(String(of('expected'))) : undefined
    case 'invalid_value':
      return oneOf(of('values'))
    case 'too_small':
      return boundWords(issue, 'minimum', of('inclusive') === false ? 'more than' : 'at least')
    case 'too_big':
      return boundWords(issue, 'maximum', of('inclusive') === false ? 'less than' : 'at most')
    case 'not_multiple_of':
      return `write a multiple of ${of('divisor')}`
    case 'invalid_format':
      return formatWords(issue)
    case 'unrecognized_keys':
      return `there is no such field: ${listOf(of('keys'), ', ')}`
    case 'unknown_field':
      return 'there is no such field'
    case 'invalid_key':
      return `its name is not allowed: ${firstOf(of('issues')) ?? 'write another name'}`
    case 'invalid_union':
      return unionWords(issue)
    default:
      return undefined
  }
}

const TYPES = new Map([
  ['string', 'a text'],
  ['number', 'a number'],
  ['int', 'a whole number'],
  ['bigint', 'a whole number'],
  ['boolean', 'true or false'],
  ['array', 'a list'],
  ['tuple', 'a list'],
  ['object', 'a mapping'],
  ['record', 'a mapping'],
  ['date', 'a date'],
  ['nonoptional', 'a value'],
])

function typeWords(expected: string): string {
  if (['never', 'undefined', 'void'].includes(expected)) return 'leave it out'
  return `write ${TYPES.get(expected.toLowerCase()) ?? expected}`
}

/** In YAML, quotes decide whether a value is a text. */
function quotesHint(expected: unknown, value: unknown): string {
  if (expected === 'string')
    return ['number', 'boolean'].includes(typeof value) ? ', in quotes' : ''
  const isScalar = ['number', 'int', 'boolean'].includes(String(expected))
  return isScalar && typeof value === 'string' ? ', without quotes' : ''
}

/** All of the details, which can be long, and have passwords. */
function nounOf(value: unknown): string {
  return typeof value === 'string' ? 'a text' : shorten(value)
}

const UNITS = new Map([
  ['string', ['character', 'characters']],
  ['array', ['item', 'items']],
  ['set', ['item', 'items']],
  ['map', ['entry', 'entries']],
  ['object', ['entry', 'entries']],
  ['record', ['entry', 'entries']],
])

function boundWords(issue: object, bound: 'minimum' | 'maximum', comparison: string): string {
  const amount = String(fieldOf(issue, bound))
  const units = UNITS.get(String(fieldOf(issue, 'origin')))
  const unit = units === undefined ? '' : ` ${units[amount === '1' ? 0 : 1]}`
  return `write ${fieldOf(issue, 'exact') === true ? 'exactly' : comparison} ${amount}${unit}`
}

const FORMATS = new Map([
  ['email', 'an e-mail address'],
  ['url', 'a URL, such as http://host/path'],
  ['uuid', 'a UUID'],
  ['ipv4', 'an IPv4 address'],
  ['ipv6', 'an IPv6 address'],
  ['cidrv4', 'an IPv4 network, such as 192.168.1.0/24'],
  ['cidrv6', 'an IPv6 network, such as fd00::/8'],
  ['datetime', 'a time, such as 2026-01-31T12:00:00Z'],
  ['date', 'a date, such as 2026-01-31'],
])

function formatWords(issue: object): string {
  const [format, pattern] = [fieldOf(issue, 'format'), String(fieldOf(issue, 'pattern'))]
  for (const [name, field, verb] of [
    ['starts_with', 'prefix', 'begins with'],
    ['ends_with', 'suffix', 'ends with'],
    ['includes', 'includes', 'contains'],
  ] as const)
    if (format === name) return `write a text that ${verb} ${shorten(fieldOf(issue, field))}`
  if (format === 'regex' && pattern.length <= MAX_PATTERN)
    return `write a text that matches ${pattern}`
  return `write ${FORMATS.get(String(format)) ?? `a text of the right form (${format})`}`
}

/** What each branch of a union would take. */
function unionWords(issue: object): string | undefined {
  const options = fieldOf(issue, 'options')
  if (Array.isArray(options) && options.length > 0) return oneOf(options)
  const branches = fieldOf(issue, 'errors')
  if (!Array.isArray(branches)) return undefined
  const texts = new Set(branches.slice(0, MAX_VALUES).flatMap((each) => firstOf(each) ?? []))
  return texts.size > 0 ? [...texts].join(', or ') : undefined
}

/** The first issue of a list. */
function firstOf(issues: unknown): string | undefined {
  const first: unknown = Array.isArray(issues) ? issues[0] : undefined
  if (!isIssue(first)) return undefined
  const path = pathText(issuePath(first))
  return path === '' ? rightText(first) : `in ${path}, ${rightText(first)}`
}

function oneOf(values: unknown): string | undefined {
  return Array.isArray(values) ? `write ${listOf(values, ' or ')}` : undefined
}

/** `a, b or c` */
function listOf(values: unknown, last: string): string {
  const all = Array.isArray(values) ? values.map((value) => bare(value)) : []
  if (all.length > MAX_VALUES) return `${all.slice(0, MAX_VALUES).join(', ')}, …`
  return [all.slice(0, -1).join(', '), ...all.slice(-1)].filter(Boolean).join(last)
}

/** A text that YAML reads as a text has no quotes. */
function bare(value: unknown): string {
  return typeof value === 'string' && /^(?!(true|false|null)$)[a-z][\w./-]*$/i.test(value)
    ? value
    : shorten(value)
}
