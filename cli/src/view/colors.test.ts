import { describe, expect, it } from 'vitest'
import { hasColors, withColoredLevel, withoutColors } from './colors.js'

describe('colours', () => {
  it.each([
    ['auto', true, {}, true],
    ['auto', false, {}, false],
    ['auto', true, { TERM: 'dumb' }, false],
    ['auto', true, { NO_COLOR: '1' }, false],
    ['auto', true, { NO_COLOR: '' }, true],
    ['auto', false, { FORCE_COLOR: '1' }, true],
    ['auto', true, { FORCE_COLOR: '0' }, false],
    ['auto', true, { FORCE_COLOR: '' }, true],
    ['auto', true, { FORCE_COLOR: '1', NO_COLOR: '1' }, true],
    ['always', false, { NO_COLOR: '1' }, true],
    ['never', true, { FORCE_COLOR: '1' }, false],
  ] as const)('%s, in a terminal: %s, with %j: %s', (choice, isTTY, environment, expected) => {
    expect(hasColors(choice, { isTTY, environment })).toBe(expected)
  })

  it('are those of the level, and can be taken away', () => {
    const colored = withColoredLevel('10:00:00 error it failed error=x')
    expect(colored).toBe('10:00:00 \u001b[31merror\u001b[39m it failed error=x')
    expect(withoutColors([colored])).toEqual(['10:00:00 error it failed error=x'])
    expect(withColoredLevel('10:00:00 info  error')).toBe('10:00:00 info  error')
  })
})
