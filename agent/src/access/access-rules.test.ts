import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Pattern, readDeviceRule, readMountRule, readNameRule } from './access-rules.js'

describe('a pattern', () => {
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
