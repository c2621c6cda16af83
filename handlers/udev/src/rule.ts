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

/** A condition of a rule. */
export type Match = (
  | { readonly key: PlainKey }
  /** `attribute` is the name in the braces. */
  | { readonly key: NamedKey; readonly attribute: string }
) & {
  readonly operator: '==' | '!='
  /** The value without quotes and escapes, in the syntax of `Glob`. */
  readonly value: string
  readonly ignoreCase: boolean
  /** No comma separates the condition from the one before. It has the same meaning in udev. */
  readonly withoutComma?: true
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
  return new RuleParser(text).rule()
}

// A backslash at the end of a line continues the rule, as in rules files.
const SPACE = /(?:[ \t\n\r\v\f]|\\\r?\n)*/y
const SEPARATORS = /(?:[ \t\n\r\v\f,]|\\\r?\n)*/y
const KEY = /(?:(?![+\-!:]=)[^\s={",}])*/y
const NAME = /\{[^}\n]*\}/y
const OPERATOR = /[=!+\-:]?=/y
// The prefixes `e` and `i`, each once, in any order. Only systemd 258 and later accepts `i`.
const VALUE_START = /(?:ei?|ie?)?"/y
const VALUE_END = /(?:[^"\n\\]|\\"|\\(?!"))*"/y
const ESCAPED_VALUE_END = /(?:[^"\n\\]|\\.)*"/sy

/** Match keys of udev that a handler cannot evaluate, with the reason of the refusal. */
const REFUSED: Readonly<Record<string, string>> = {
  ACTION: 'matches events, and a device that is present has none',
  NAME:
    'matches what earlier rules of udev have set, which udev does not store; try ' +
    'ENV{INTERFACE}',
  SYMLINK: 'matches what earlier rules of udev have set; try ENV{DEVLINKS}',
  PROGRAM: 'runs a program',
  RESULT: 'needs a program to run',
  IMPORT: 'runs a program or reads a file',
  TEST: 'looks at files',
  CONST: 'matches the machine, not a device',
  SYSCTL: 'matches the machine, not a device',
}
const ASSIGNING = /^(?:SECLABEL|LABEL|GOTO|GROUP|OPTIONS|OWNER|MODE|RUN|WAIT_FOR|WAIT_FOR_SYSFS)$/

/** Reads a rule from its start to its end. */
class RuleParser {
  readonly #text: string
  #at = 0

  constructor(text: string) {
    this.#text = text
  }

  rule(): Rule {
    const matches: Match[] = []
    this.#take(SPACE)
    const start = this.#at
    if (this.#text[start] === '#')
      throw this.#error('this is a comment, not a rule; write comments in the YAML around it')
    this.#take(SEPARATORS)
    if (this.#at >= this.#text.length && start < this.#text.length)
      throw this.#error('a comma, but no condition', start)
    for (let hasComma = true; this.#at < this.#text.length; ) {
      const match = this.#match()
      matches.push(hasComma ? match : { ...match, withoutComma: true })
      hasComma = this.#take(SEPARATORS).includes(',')
    }
    return matches
  }

  #match(): Match {
    const start = this.#at
    const key = this.#take(KEY)
    if (key === '') throw this.#error(`${this.#next()} where a key such as KERNEL is expected`)
    const brace = this.#at
    const name = this.#text[brace] === '{' ? this.#take(NAME).slice(1, -1) : undefined
    if (name !== undefined && this.#at === brace)
      throw this.#error("this brace is not closed; '}' is missing")
    const plain = PLAIN_KEYS.find((candidate) => candidate === key)
    if (plain !== undefined) {
      if (name !== undefined) throw this.#error(`${key} takes no name in braces`, brace)
      return { key: plain, ...this.#comparison(key) }
    }
    const named = NAMED_KEYS.find((candidate) => candidate === key)
    if (named === undefined) throw this.#error(keyProblem(key), start)
    if (name === undefined)
      throw this.#error(`${key} needs a name in braces, as in ${key}{name}=="value"`, brace)
    const comparison = this.#comparison(key)
    this.#checkName(named, name, brace + 1)
    return { key: named, attribute: name, ...comparison }
  }

  #comparison(key: string): Omit<Match, 'key'> {
    this.#take(SPACE)
    const operator = this.#operator(key)
    this.#take(SPACE)
    return { operator, ...this.#value() }
  }

  #operator(key: string): Match['operator'] {
    const start = this.#at
    const operator = this.#take(OPERATOR)
    if (operator === '==' || operator === '!=') return operator
    throw this.#error(
      operator === ''
        ? `${this.#next()} where '==' or '!=' is expected`
        : `'${operator}' assigns; to find devices, write ${key}=="value" or ${key}!="value"`,
      start,
    )
  }

  #value(): Pick<Match, 'value' | 'ignoreCase'> {
    const prefixes = this.#take(VALUE_START)
    if (prefixes === '')
      throw this.#error(`${this.#next()} where a value in double quotes is expected`)
    const isEscaped = prefixes.includes('e')
    const start = this.#at
    const text = this.#take(isEscaped ? ESCAPED_VALUE_END : VALUE_END).slice(0, -1)
    if (this.#at === start)
      throw this.#error(
        'this value has no closing quote; if it is cut at a comma or at #, put the rule in ' +
          'quotes: \'KERNEL=="a,b"\'',
        start - 1,
      )
    return {
      value: isEscaped ? this.#withoutEscapes(text, start) : text.replaceAll('\\"', '"'),
      ignoreCase: prefixes.includes('i'),
    }
  }

  #checkName(key: NamedKey, name: string, at: number): void {
    if (name === '') throw this.#error(`the braces of ${key} are empty`, at)
    if (key === 'ENV') return
    // In udev, `$` and `%` stand for values of the event, and `[subsystem/device]` for another
    // device.
    const substitution = /[$%]/.exec(name)
    if (substitution)
      throw this.#error(
        `${quote(substitution[0])}: substitutions are not possible here`,
        at + substitution.index,
      )
    if (name.startsWith('['))
      throw this.#error(
        'attributes of other devices, [subsystem/device], are not possible here',
        at,
      )
    // udev only warns here. But an author of a Configuration must not probe arbitrary files of the
    // node.
    if (name.split('/').some((part) => part === '..' || part === '.' || part === ''))
      throw this.#error(
        `${quote(name)} must stay below the device: no '..', '.', '//' and no '/' at the ends`,
        at,
      )
  }

  /**
   * Decodes the C escapes of systemd (escape.c, cunescape_one). `\x` and octal numbers are bytes of
   * UTF-8.
   */
  #withoutEscapes(value: string, start: number): string {
    const bytes: number[] = []
    const hex = (digits: number) => `([0-9a-fA-F]{${digits}})`
    const escapes = new RegExp(
      `\\\\(?:([abfnrtv\\\\"'s])|x${hex(2)}|u${hex(4)}|U${hex(8)}|([0-3][0-7]{2}))`,
      'y',
    )
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
        throw this.#error(`${quote(value.slice(at, at + 2))} is not an escape`, start + at)
      const [all, single, hex, short, long, octal] = found
      const code =
        single === undefined
          ? Number.parseInt(hex ?? short ?? long ?? octal ?? '', octal === undefined ? 16 : 8)
          : (SINGLE[single] ?? 0)
      if (code === 0) throw this.#error('a NUL character is not allowed in a value', start + at)
      if (short !== undefined || long !== undefined) {
        if (code > 0x10ffff || (code >= 0xd800 && code <= 0xdfff))
          throw this.#error(`${quote(all)} is not a Unicode character`, start + at)
        bytes.push(...Buffer.from(String.fromCodePoint(code), 'utf8'))
      } else bytes.push(code)
      at += all.length
    }
    try {
      const decoder = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true })
      return decoder.decode(Uint8Array.from(bytes))
    } catch {
      throw this.#error('the bytes of this value are not UTF-8', start)
    }
  }

  /** Moves behind a part of the text. @returns the part, empty if the text is different here */
  #take(part: RegExp): string {
    part.lastIndex = this.#at
    const found = part.exec(this.#text)?.[0] ?? ''
    this.#at += found.length
    return found
  }

  /** The start of an error about the present position. */
  #next(): string {
    const character = this.#text[this.#at]
    return character === undefined ? 'the rule ends' : `${quote(character)} stands`
  }

  #error(reason: string, at = this.#at): UdevRuleError {
    return new UdevRuleError(reason, this.#text, at)
  }
}

/** Why a text is no match key of a handler. */
function keyProblem(key: string): string {
  const assigning = ASSIGNING.test(key) ? 'matches nothing, it assigns' : undefined
  const reason = Object.hasOwn(REFUSED, key) ? REFUSED[key] : assigning
  if (reason !== undefined) return `${key} cannot be used to find devices: it ${reason}`
  const expected = [...PLAIN_KEYS, ...NAMED_KEYS.map((name) => `${name}{…}`)].join(', ')
  const meant = [...PLAIN_KEYS, ...NAMED_KEYS].find((candidate) => candidate === key.toUpperCase())
  const hint =
    meant === undefined ? `the keys are ${expected}` : `keys are written in capitals: ${meant}`
  return `${quote(key)} is not a key; ${hint}`
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

function quote(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}
