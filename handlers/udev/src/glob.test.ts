import { spawnSync } from 'node:child_process'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { processorMs } from '../../../test/support/processor-ms.js'
import { Glob, matchesGlob } from './glob.js'

const FNMATCH = `
import ctypes, json, sys
libc = ctypes.CDLL(None)
pairs = json.load(sys.stdin)
print(json.dumps([libc.fnmatch(glob.encode(), text.encode(), 0) == 0 for glob, text in pairs]))
`
const python = spawnSync('python3', ['--version']).status === 0

describe('globs', () => {
  it.skipIf(!python)(
    'D1 match exactly what fnmatch of the C library matches (needs python3)',
    () => {
      const glob = fc.string({
        unit: fc.constantFrom('a', 'b', 'c', '*', '?', '[', ']', '!', '^', '-', '\\', '/', '.'),
        maxLength: 9,
      })
      const text = fc.string({
        unit: fc.constantFrom('a', 'b', 'c', '[', ']', '!', '^', '-', '\\', '/', '.', '*'),
        maxLength: 6,
      })
      const special = fc.constantFrom(
        '[[:alpha:]]*',
        '[[:digit:]-]',
        '[![:space:]]',
        '[[:nonsense:]]',
        '[a-c]?[!b]',
        '*a*b*',
        '[]a]',
        '[a-]',
        'tty[SR]*',
      )
      // The result of glibc for an unclosed bracket, or an unclosed collating symbol (`[.`),
      // depends on the text.
      const usual = glob.filter(
        (pattern) =>
          !/\[[^\]]*-$/.test(pattern) && !/\[\][^\]]*-$/.test(pattern) && !/\[.*\[\./.test(pattern),
      )
      const cases = fc.sample(
        fc.tuple(fc.oneof({ weight: 6, arbitrary: usual }, special), text),
        30_000,
      )
      const expected: unknown = JSON.parse(
        spawnSync('python3', ['-c', FNMATCH], {
          input: JSON.stringify(cases),
          encoding: 'utf8',
          maxBuffer: 1 << 24,
        }).stdout,
      )
      const wrong = cases.filter(
        ([g, t], index) => matchesGlob(g, t) !== (Array.isArray(expected) && expected[index]),
      )
      expect(wrong.slice(0, 20)).toEqual([])
    },
  )

  it('D1 treat `|` as a separator of alternatives, also in brackets', () => {
    const either = new Glob('abc|x*')
    expect(['abc', 'xyz', 'abc|x*', 'ab'].map((text) => either.matches(text))).toEqual([
      true,
      true,
      false,
      false,
    ])
    expect(new Glob('a|b').matches('a|b')).toBe(false)
    expect(new Glob('tty|').matches('')).toBe(true)
    expect(new Glob('').matches('')).toBe(true)
    expect(new Glob('').matches('a')).toBe(false)
  })

  it('D1 match any non-empty text with ?*, and never act as a regular expression', () => {
    expect(new Glob('?*').matches('a')).toBe(true)
    expect(new Glob('?*').matches('')).toBe(false)
    expect(new Glob('a.c').matches('abc')).toBe(false)
    expect(new Glob('(a+)+').matches('aaa')).toBe(false)
    expect(new Glob('a|ab').matches('ab')).toBe(true)
  })

  it('keep a backslash in a plain text, as udev does', () => {
    expect(new Glob('a\\b').matches('a\\b')).toBe(true)
    expect(new Glob('a\\b*').matches('ab')).toBe(true)
  })

  it('ignore the case of ASCII letters only on request', () => {
    expect(new Glob('Usb*').matches('uSB1')).toBe(false)
    expect(new Glob('Usb*', { ignoreCase: true }).matches('uSB1')).toBe(true)
    expect(new Glob('[A-C]1', { ignoreCase: true }).matches('b1')).toBe(true)
    expect(new Glob('É', { ignoreCase: true }).matches('é')).toBe(false)
  })

  it('D1 need at most text × glob comparisons for texts that block other matchers', () => {
    const started = processorMs()
    expect(matchesGlob(`${'*a'.repeat(1000)}*b`, 'a'.repeat(4096))).toBe(false)
    expect(processorMs() - started).toBeLessThan(5000)
  })
})
