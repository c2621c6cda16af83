import { describe, expect, it } from 'vitest'
import { costOf } from '../../../test/support/cost.js'
import { Glob, matchesGlob } from './glob.js'

describe('globs', () => {
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

  it('D1 need at most text × glob comparisons for texts that block other matchers', async () => {
    const match = () => expect(matchesGlob(`${'*a'.repeat(1000)}*b`, 'a'.repeat(4096))).toBe(false)
    expect(await costOf(match)).toBeLessThan(5000)
  })
})
