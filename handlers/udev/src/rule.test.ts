import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { UdevRuleError } from './errors.js'
import { MAX_RULE_LENGTH, NAMED_KEYS, PLAIN_KEYS, parseRule, type Rule } from './rule.js'

const VALID: readonly (readonly [conditions: number, text: string])[] = [
  [0, ''],
  [0, ' \n'],
  [1, 'KERNEL=="video[0-9]*"'],
  [1, 'SUBSYSTEM == "sound"'],
  [2, 'SUBSYSTEM=="video4linux" , ENV{ID_V4L_CAPABILITIES}=="*:capture:*"'],
  [2, 'ATTRS{idVendor}=="046d",ATTRS{idProduct}!="c52b"'],
  [3, 'SUBSYSTEMS=="usb", DRIVERS=="usb|hub", KERNELS!="usb?"'],
  [2, 'TAG=="systemd", TAGS=="seat"'],
  [1, 'DEVPATH=="/devices/virtual/*"'],
  [1, 'DRIVER!=""'],
  [1, 'ATTR{device/vendor}=="0x8086"'],
  [1, 'ENV{ID_MODEL}=="say \\"hi\\""'],
  [1, 'ENV{ID_MODEL}==e"tab\\t\\x41\\101\\u00e9"'],
  [1, 'ENV{ID_MODEL}==ie"A\\s"'],
  [2, 'KERNEL=="sd*", \\\n  SUBSYSTEM=="block",\n'],
  [2, ',KERNEL=="a",,SUBSYSTEM=="b",'],
]

const INVALID: readonly (readonly [text: string, line: number, column: number, reason: RegExp])[] =
  [
    ...'ACTION NAME SYMLINK PROGRAM RESULT IMPORT{db} TEST CONST{arch} SYSCTL{a}'
      .split(' ')
      .map((key) => [`KERNEL=="a", ${key}=="b"`, 1, 14, /cannot be used to find devices/] as const),
    ...'SECLABEL{x} LABEL GOTO GROUP OPTIONS OWNER MODE RUN WAIT_FOR'
      .split(' ')
      .map((key) => [`${key}="b"`, 1, 1, /it assigns/] as const),
    ['KERNEL="a"', 1, 7, /'=' assigns/],
    ['ENV{A}+="a"', 1, 7, /'\+=' assigns/],
    ['ENV{A}-="a"', 1, 7, /'-=' assigns/],
    ['TAG:="a"', 1, 4, /':=' assigns/],
    ['KERNAL=="a"', 1, 1, /"KERNAL" is not a key/],
    ['kernel=="a"', 1, 1, /capitals: KERNEL/],
    ['KERNEL=="a', 1, 9, /no closing quote/],
    ['KERNEL=="a\n"', 1, 9, /no closing quote/],
    ['KERNEL=="a\\"', 1, 9, /no closing quote/],
    ['KERNEL==a', 1, 9, /double quotes/],
    ['KERNEL==', 1, 9, /the rule ends/],
    ['KERNEL', 1, 7, /the rule ends/],
    ['KERNEL "a"', 1, 8, /'==' or '!=' is expected/],
    ['KERNEL{x}=="a"', 1, 7, /takes no name/],
    ['ATTR=="a"', 1, 5, /needs a name in braces/],
    ['ATTR{}=="a"', 1, 6, /empty/],
    ['ATTR{size=="a"', 1, 5, /not closed/],
    ['ATTR{../../secret}=="a"', 1, 6, /below the device/],
    ['ATTR{/etc/passwd}=="a"', 1, 6, /below the device/],
    ['ATTR{a$kernel}=="a"', 1, 7, /substitutions/],
    ['ATTR{[dmi/id]sys_vendor}=="a"', 1, 6, /other devices/],
    ['KERNEL==e"\\q"', 1, 11, /not an escape/],
    ['KERNEL==e"\\x00"', 1, 11, /NUL/],
    ['KERNEL==e"\\xff"', 1, 11, /UTF-8/],
    ['KERNEL==ee"a"', 1, 9, /double quotes/],
    ['KERNEL=="a",\n  nonsense', 2, 3, /not a key/],
    ['KERNEL=="a" and SUBSYSTEM=="b"', 1, 13, /not a key/],
    ['# KERNEL=="a"', 1, 1, /comment/],
    [' , ', 1, 2, /no condition/],
    ['KERNEL=="a\0"', 1, 11, /NUL/],
  ]

const HEX_DIGIT = fc.constantFrom(...'0123456789abcdef')

describe('the rule language', () => {
  it.each(VALID)('has %i conditions in %j', (conditions, text) => {
    expect(parseRule(text)).toHaveLength(conditions)
  })

  it.each(INVALID)(
    'D1 refuses %j in line %i, column %i, with the reason',
    (text, line, column, reason) => {
      const error = errorOf(text)
      expect(error.code).toBe('AKRI_ERR_UDEV_RULE')
      expect(error.position).toEqual({ line, column })
      expect(error.reason).toMatch(reason)
      expect(error.message).toContain(`line ${line}, column ${column}`)
    },
  )

  it('shows the line with a caret below the position', () => {
    expect(errorOf('KERNEL=="a",\n  OWNER="root"').excerpt).toBe('    OWNER="root"\n    ^')
    const long = errorOf(`KERNEL=="${'a'.repeat(500)}", OWNER="root"`).excerpt.split('\n')
    expect(long[0]?.length).toBeLessThan(100)
    expect(long[0]?.slice(long[1]?.indexOf('^'))).toMatch(/^OWNER/)
  })

  it('D1 keeps every condition without commas, as udev does', () => {
    const expected = [
      { key: 'KERNEL', operator: '==', value: 'a', ignoreCase: false },
      { key: 'SUBSYSTEM', operator: '!=', value: 'b', ignoreCase: false, withoutComma: true },
    ]
    expect(parseRule('KERNEL=="a" SUBSYSTEM!="b"')).toEqual(expected)
    expect(parseRule('KERNEL=="a"SUBSYSTEM!="b"')).toEqual(expected)
  })

  it('reads values as udev does: \\" is an escape, e has C escapes, i ignores case', () => {
    const value = (text: string) => parseRule(`KERNEL==${text}`)[0]
    expect(value('"a\\tb\\"c"')).toMatchObject({ value: 'a\\tb"c', ignoreCase: false })
    expect(value('e"a\\tb\\"\\x41\\101\\xc3\\xa9"')).toMatchObject({ value: 'a\tb"AAé' })
    expect(value('ei"a"')).toMatchObject({ value: 'a', ignoreCase: true })
  })

  it('refuses a rule that is too long', () => {
    expect(errorOf('x'.repeat(MAX_RULE_LENGTH + 1)).reason).toMatch(/longest/)
  })

  it('D1 throws only its own error, for any text', () => {
    const marks = ['{', '}', '==', '!=', '=', '"', 'e"', '\\', ',', ' ', '\n', '|', 'x', '\\x4']
    const pieces = fc.constantFrom('KERNEL', 'ATTR{a}', '\u{1f600}', ...marks)
    const digits = (length: number) =>
      fc.string({ unit: HEX_DIGIT, minLength: length, maxLength: length })
    const escapes = fc.oneof(
      digits(2).map((code) => `\\x${code}`),
      digits(4).map((code) => `\\u${code}`),
      // Beyond Unicode too.
      digits(6).map((code) => `\\U00${code}`),
      digits(3).map((code) => `\\${code}`),
    )
    const text = fc.oneof(
      fc.string({ unit: 'binary' }),
      fc.array(pieces).map((list) => list.join('')),
      fc.array(escapes).map((list) => `KERNEL==e"${list.join('')}"`),
    )
    fc.assert(
      fc.property(text, (rule) => {
        try {
          parseRule(rule)
        } catch (error) {
          if (!(error instanceof UdevRuleError)) throw error
        }
      }),
      { numRuns: 2000 },
    )
  })

  it('reads every condition exactly', () => {
    const operator = fc.constantFrom('==' as const, '!=' as const)
    const value = fc.string({
      unit: fc.constantFrom('a', '"', '\\', '|', '*', '\n', '\t', 'é', ','),
    })
    const attribute = fc.stringMatching(/^[a-z_]+(\/[a-z_ ,"]+)?$/)
    const match = fc.oneof(
      fc.record({ key: fc.constantFrom(...PLAIN_KEYS), operator, value, ignoreCase: fc.boolean() }),
      fc.record({
        key: fc.constantFrom(...NAMED_KEYS),
        attribute,
        operator,
        value,
        ignoreCase: fc.boolean(),
      }),
    )
    fc.assert(
      fc.property(fc.array(match, { maxLength: 5 }), (rule) => {
        expect(parseRule(printRule(rule))).toEqual(rule)
      }),
    )
  })
})

function errorOf(text: string): UdevRuleError {
  try {
    parseRule(text)
  } catch (error) {
    if (error instanceof UdevRuleError) return error
    throw error
  }
  throw new TypeError(`${JSON.stringify(text)} was accepted`)
}

/** A text that {@link parseRule} parses into the same conditions. */
function printRule(rule: Rule): string {
  return rule
    .map((match) => {
      const key = 'attribute' in match ? `${match.key}{${match.attribute}}` : match.key
      return `${key}${match.operator}${printValue(match)}`
    })
    .join(', ')
}

function printValue({ value, ignoreCase }: Rule[number]): string {
  const insensitive = ignoreCase ? 'i' : ''
  // A value without escapes cannot contain a line feed, or a backslash before the closing quote.
  if (!/\n|\\$/.test(value)) return `${insensitive}"${value.replaceAll('"', '\\"')}"`
  return `e${insensitive}"${value.replace(/[\\"]/g, '\\$&').replaceAll('\n', '\\n')}"`
}
