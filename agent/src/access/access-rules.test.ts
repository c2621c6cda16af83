import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Pattern, readDeviceRule, readMountRule, readNameRule } from './access-rules.js'

describe('a pattern', () => {
  it.each<[string, string, boolean]>([
    ['/dev/video0', '/dev/video0', true],
    ['/dev/video0', '/dev/video00', false],
    ['/dev/video*', '/dev/video', true],
    ['/dev/video*', '/dev/video12', true],
    ['/dev/video*', '/dev/video1/x', false],
    ['/dev/**', '/dev/bus/usb/001/002', true],
    ['/dev/**', '/devil', false],
    ['/dev/**', '/dev', false],
    ['/dev/tty?', '/dev/tty1', true],
    ['/dev/tty?', '/dev/tty', false],
    ['/dev/tty?', '/dev/tty/', false],
    ['/dev/*/c', '/dev/a/c', true],
    ['/dev/*/c', '/dev/a/b/c', false],
    ['/a.c', '/abc', false],
  ])('%s and %s: %s', (pattern, text, matches) => {
    expect(new Pattern(pattern).matches(text)).toBe(matches)
  })

  it('matches as a regular expression does', () => {
    const character = fc.constantFrom('a', 'b', '/', '*', '?')
    const text = fc
      .array(fc.constantFrom('a', 'b', '/'), { maxLength: 8 })
      .map((all) => all.join(''))
    const pattern = fc.array(character, { maxLength: 6 }).map((all) => all.join(''))
    const parts: Readonly<Record<string, string>> = { '**': '.*', '*': '[^/]*', '?': '[^/]' }
    fc.assert(
      fc.property(pattern, text, (wildcards, subject) => {
        const source = wildcards.replace(/\*\*|[*?]/g, (part) => parts[part] ?? part)
        const expected = new RegExp(`^${source}$`).test(subject)
        expect(new Pattern(wildcards).matches(subject)).toBe(expected)
      }),
      { numRuns: 500, seed: 7 },
    )
  })

  it('answers for a text that would occupy a regular expression for ever', () => {
    expect(new Pattern('*a*a*a*a*a*a*a*b').matches('a'.repeat(4096))).toBe(false)
  })
})

describe('a rule', () => {
  it.each([
    ...['', 'sensor', 'sensor=', '=/a', 'sensor=a', 'sensor=/a/', 'sensor=/a/../b', 'sensor=//a'],
    ...['sen sor=/a', 'sensor=/a:b', 'sensor=/a:/b:/c', 'sensor=/a:rw:ro', 'sensor=/a:/b/:rw'],
    ...['sensor=/a\n', 'sensor=/a:'],
  ])('is not %j', (text) => {
    expect(readMountRule(text)).toBeUndefined()
    expect(readDeviceRule(text)).toBeUndefined()
  })

  it('has the modes of its kind', () => {
    expect(readMountRule('a=/b')?.mode).toBe('ro')
    expect(readMountRule('a=/b:rwm')).toBeUndefined()
    expect(readDeviceRule('a=/b')?.mode).toBe('rwm')
    for (const mode of ['ro', 'rr', 'rwmr', 'x'])
      expect(readDeviceRule(`a=/b:${mode}`)).toBeUndefined()
  })

  it('of a name has a name', () => {
    for (const text of ['a', 'a=', 'a=B=C', 'a=B C', 'a b=C'])
      expect(readNameRule(text)).toBeUndefined()
    expect(readNameRule('a=B_*')?.matches('B_/x')).toBe(true)
  })
})
