import { UdevRuleError } from './errors.js'

/** The match keys of udev(7) that apply to a device, not to an event. */
export const PLAIN_KEYS = [
  'DEVPATH',
  'KERNEL',
  'SUBSYSTEM',
  'DRIVER',
  'TAG',
  'KERNELS',
  'SUBSYSTEMS',
  'DRIVERS',
  'TAGS',
] as const
/** The match keys with a name in braces. */
export const NAMED_KEYS = ['ATTR', 'ENV', 'ATTRS'] as const

type PlainKey = (typeof PLAIN_KEYS)[number]
type NamedKey = (typeof NAMED_KEYS)[number]
type MatchOperator = '==' | '!='

/** A condition of a rule. */
export type Match = (
  | { readonly key: PlainKey }
  /** `attribute` is the name in the braces. */
  | { readonly key: NamedKey; readonly attribute: string }
) & {
  readonly operator: MatchOperator
  /** The value without quotes and escapes, in the syntax of `Glob`. */
  readonly value: string
  readonly ignoreCase: boolean
}

/** All conditions must hold. A rule without conditions matches every device. */
export type Rule = readonly Match[]

/** The limit of a rule, in characters: the longest line that udev reads. */
export const MAX_RULE_LENGTH = 16_384

/**
 * Parses the match part of a udev rule by the grammar of systemd (udev-rules.c, parse_line):
 * conditions `KEY operator "value"` or `KEY{name} operator "value"`, separated by commas, white
 * space, or nothing. A rule may have several lines. Any other text is an error.
 *
 * @throws UdevRuleError with line, column and reason
 */
export function parseRule(text: string): Rule {
  if (text.length > MAX_RULE_LENGTH) {
    throw new UdevRuleError(
      `the rule has ${text.length} characters; the longest may have ${MAX_RULE_LENGTH}`,
      '',
      0,
    )
  }
  const nul = text.indexOf('\0')
  if (nul >= 0) throw new UdevRuleError('a NUL character is not allowed in a rule', text, nul)
  const matches: Match[] = []
  let at = skip(text, 0, SEPARATORS)
  const start = skip(text, 0, SPACE)
  if (text[start] === '#')
    throw new UdevRuleError(
      'this is a comment, not a rule; write comments in the YAML around it',
      text,
      start,
    )
  if (at >= text.length && start < text.length)
    throw new UdevRuleError('a comma, but no condition', text, start)
  while (at < text.length) {
    const { value, end } = parseMatch(text, at)
    matches.push(value)
    at = skip(text, end, SEPARATORS)
  }
  return matches
}

// A backslash at the end of a line continues the rule, as in rules files.
const SPACE = /(?:[ \t\n\r\v\f]|\\\r?\n)*/y
const SEPARATORS = /(?:[ \t\n\r\v\f,]|\\\r?\n)*/y

/** Match keys of udev that a handler cannot evaluate, with the reason of the refusal. */
const REFUSED: Readonly<Record<string, string>> = {
  ACTION: 'matches events, and a device that is present has none',
  NAME: 'matches what earlier rules of udev have set, which udev does not store; try ENV{INTERFACE}',
  SYMLINK: 'matches what earlier rules of udev have set; try ENV{DEVLINKS}',
  PROGRAM: 'runs a program',
  RESULT: 'needs a program to run',
  IMPORT: 'runs a program or reads a file',
  TEST: 'looks at files',
  CONST: 'matches the machine, not a device',
  SYSCTL: 'matches the machine, not a device',
}
const ASSIGNING = new Set([
  'SECLABEL',
  'LABEL',
  'GOTO',
  'GROUP',
  'OPTIONS',
  'OWNER',
  'MODE',
  'RUN',
  'WAIT_FOR',
  'WAIT_FOR_SYSFS',
])

interface Parsed<T> {
  readonly value: T
  readonly end: number
}

function parseMatch(text: string, start: number): Parsed<Match> {
  const key = parseKey(text, start)
  const name = text[key.end] === '{' ? parseName(text, key.end) : undefined
  const match = checkKey(text, start, key.value, name !== undefined)
  const operator = parseOperator(text, skip(text, name?.end ?? key.end, SPACE), key.value)
  const { value, end } = parseValue(text, skip(text, operator.end, SPACE))
  if (!match.named) return { value: { key: match.key, operator: operator.value, ...value }, end }
  const attribute = checkName(text, key.end + 1, match.key, name?.value ?? '')
  return { value: { key: match.key, attribute, operator: operator.value, ...value }, end }
}

function parseKey(text: string, start: number): Parsed<string> {
  let end = start
  while (
    end < text.length &&
    !/[\s={",}]/.test(text[end] ?? '') &&
    !/^[+\-!:]=/.test(text.slice(end, end + 2))
  )
    end++
  if (end === start)
    throw new UdevRuleError(
      `${quote(text[start] ?? '')} stands where a key such as KERNEL is expected`,
      text,
      start,
    )
  return { value: text.slice(start, end), end }
}

function checkKey(
  text: string,
  at: number,
  key: string,
  hasName: boolean,
):
  | { readonly named: false; readonly key: PlainKey }
  | { readonly named: true; readonly key: NamedKey } {
  const named = NAMED_KEYS.find((candidate) => candidate === key)
  if (named !== undefined) {
    if (hasName) return { named: true, key: named }
    throw new UdevRuleError(
      `${key} needs a name in braces, as in ${key}{name}=="value"`,
      text,
      at + key.length,
    )
  }
  const plain = PLAIN_KEYS.find((candidate) => candidate === key)
  if (plain !== undefined) {
    if (!hasName) return { named: false, key: plain }
    throw new UdevRuleError(`${key} takes no name in braces`, text, at + key.length)
  }
  const reason = Object.hasOwn(REFUSED, key) ? REFUSED[key] : undefined
  if (reason !== undefined)
    throw new UdevRuleError(`${key} cannot be used to find devices: it ${reason}`, text, at)
  if (ASSIGNING.has(key))
    throw new UdevRuleError(
      `${key} cannot be used to find devices: it matches nothing, it assigns`,
      text,
      at,
    )
  const expected = [...PLAIN_KEYS, ...NAMED_KEYS.map((name) => `${name}{…}`)].join(', ')
  const meant = [...PLAIN_KEYS, ...NAMED_KEYS].find((candidate) => candidate === key.toUpperCase())
  const hint =
    meant === undefined ? `the keys are ${expected}` : `keys are written in capitals: ${meant}`
  throw new UdevRuleError(`${quote(key)} is not a key; ${hint}`, text, at)
}

function parseName(text: string, brace: number): Parsed<string> {
  const end = text.indexOf('}', brace)
  const lineEnd = text.indexOf('\n', brace)
  if (end < 0 || (lineEnd >= 0 && lineEnd < end))
    throw new UdevRuleError("this brace is not closed; '}' is missing", text, brace)
  return { value: text.slice(brace + 1, end), end: end + 1 }
}

function checkName(text: string, at: number, key: NamedKey, name: string): string {
  if (name === '') throw new UdevRuleError(`the braces of ${key} are empty`, text, at)
  if (key === 'ENV') return name
  // In udev, `$` and `%` stand for values of the event, and `[subsystem/device]` for another
  // device.
  const substitution = /[$%]/.exec(name)
  if (substitution)
    throw new UdevRuleError(
      `${quote(substitution[0])}: substitutions are not possible here`,
      text,
      at + substitution.index,
    )
  if (name.startsWith('['))
    throw new UdevRuleError(
      'attributes of other devices, [subsystem/device], are not possible here',
      text,
      at,
    )
  // udev only warns here. But an author of a Configuration must not probe arbitrary files of the
  // node.
  if (
    name.startsWith('/') ||
    name.split('/').some((part) => part === '..' || part === '.' || part === '')
  ) {
    throw new UdevRuleError(
      `${quote(name)} must stay below the device: no '..', '.', '//' and no '/' at the ends`,
      text,
      at,
    )
  }
  return name
}

function parseOperator(text: string, at: number, key: string): Parsed<MatchOperator> {
  const two = text.slice(at, at + 2)
  if (two === '==' || two === '!=') return { value: two, end: at + 2 }
  const assigns =
    two === '+=' || two === '-=' || two === ':=' ? two : two.startsWith('=') ? '=' : undefined
  if (assigns !== undefined) {
    throw new UdevRuleError(
      `'${assigns}' assigns; to find devices, write ${key}=="value" or ${key}!="value"`,
      text,
      at,
    )
  }
  const found = at < text.length ? `${quote(text[at] ?? '')} stands` : 'the rule ends'
  throw new UdevRuleError(`${found} where '==' or '!=' is expected`, text, at)
}

function parseValue(text: string, start: number): Parsed<Pick<Match, 'value' | 'ignoreCase'>> {
  // The prefixes `e` and `i`, each once, in any order. Only systemd 258 and later accepts `i`.
  const prefix = /(?:ei?|ie?)?(?=")/y
  prefix.lastIndex = start
  const prefixes = prefix.exec(text)?.[0]
  if (prefixes === undefined) {
    const found = start < text.length ? `${quote(text[start] ?? '')} stands` : 'the rule ends'
    throw new UdevRuleError(`${found} where a value in double quotes is expected`, text, start)
  }
  const open = start + prefixes.length
  const escaped = prefixes.includes('e')
  let value = ''
  let at = open + 1
  for (; text[at] !== '"'; at++) {
    const character = text[at]
    if (character === undefined || character === '\n')
      throw new UdevRuleError('this value has no closing quote', text, open)
    if (character === '\\' && (escaped || text[at + 1] === '"')) {
      if (text[at + 1] === undefined)
        throw new UdevRuleError('this value has no closing quote', text, open)
      value += escaped ? character + text[at + 1] : '"'
      at++
    } else value += character
  }
  const plain = escaped ? withoutEscapes(value, text, open + 1) : value
  return { value: { value: plain, ignoreCase: prefixes.includes('i') }, end: at + 1 }
}

const SINGLE: Readonly<Record<string, number>> = {
  a: 7,
  b: 8,
  f: 12,
  n: 10,
  r: 13,
  t: 9,
  v: 11,
  '\\': 92,
  '"': 34,
  "'": 39,
  s: 32,
}

/**
 * Decodes the C escapes of systemd (escape.c, cunescape_one). `\x` and octal numbers are bytes of
 * UTF-8.
 */
function withoutEscapes(value: string, text: string, start: number): string {
  const bytes: number[] = []
  const escapes =
    /\\(?:([abfnrtv\\"'s])|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([0-3][0-7]{2}))/y
  for (let at = 0; at < value.length; ) {
    if (value[at] !== '\\') {
      const next = value.indexOf('\\', at)
      const end = next < 0 ? value.length : next
      bytes.push(...Buffer.from(value.slice(at, end), 'utf8'))
      at = end
      continue
    }
    escapes.lastIndex = at
    const found = escapes.exec(value)
    if (found === null)
      throw new UdevRuleError(
        `${quote(value.slice(at, at + 2))} is not an escape`,
        text,
        start + at,
      )
    const [all, single, hex, short, long, octal] = found
    const code =
      single === undefined
        ? Number.parseInt(hex ?? short ?? long ?? octal ?? '', octal === undefined ? 16 : 8)
        : (SINGLE[single] ?? 0)
    if (code === 0)
      throw new UdevRuleError('a NUL character is not allowed in a value', text, start + at)
    if (short !== undefined || long !== undefined) {
      if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff)) {
        throw new UdevRuleError(`${quote(all)} is not a Unicode character`, text, start + at)
      }
      bytes.push(...Buffer.from(String.fromCodePoint(code), 'utf8'))
    } else bytes.push(code)
    at += all.length
  }
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(Uint8Array.from(bytes))
  } catch {
    throw new UdevRuleError('the bytes of this value are not UTF-8', text, start)
  }
}

function skip(text: string, at: number, what: RegExp): number {
  what.lastIndex = at
  return at + (what.exec(text)?.[0].length ?? 0)
}

function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}
