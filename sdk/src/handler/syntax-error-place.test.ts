import { describe, expect, it } from 'vitest'
import { excerptOf } from './syntax-error-place.js'

describe('the place of a syntax error', () => {
  it.each([
    ['JavaScript', ['file:///h.mjs:3', 'const b = = 2', '          ^', '', 'SyntaxError: x']],
    ['TypeScript', ['file:///h.mts:3', '', 'const b = = 2', '          ^', '', 'SyntaxError: x']],
  ])('has the code and the mark, as Node.js prints them of %s', (_language, lines) => {
    expect(excerptOf(lines)).toEqual([
      expect.stringMatching(/^\/h\.m[jt]s:3$/),
      'const b = = 2',
      '          ^',
    ])
  })

  it('has the code alone if there is no mark', () => {
    expect(excerptOf(['/h.cjs:1', 'const b = = 2', ''])).toEqual(['/h.cjs:1', 'const b = = 2'])
  })

  it('is none of lines that begin otherwise', () => {
    expect(excerptOf(['SyntaxError: x', '    at h (file:///h.mjs:3:1)'])).toBeUndefined()
    expect(excerptOf([''])).toBeUndefined()
  })
})
