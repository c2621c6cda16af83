import { InvalidOptionError } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { kindOf } from './kinds.js'

describe('the name of a kind', () => {
  it.each([
    ['akric', 'configurations'],
    ['Configuration', 'configurations'],
    ['akrii', 'instances'],
    ['instance', 'instances'],
    ['node', 'nodes'],
    ['Handlers', 'handlers'],
  ])('%s means %s', (text, kind) => {
    expect(kindOf(text)).toBe(kind)
  })

  it.each(['pods', '', 'constructor', '__proto__'])('is refused with all kinds: %j', (text) => {
    expect(() => kindOf(text)).toThrow(InvalidOptionError)
    expect(() => kindOf(text)).toThrow(
      'the kinds are configurations (akric), instances (akrii), nodes and handlers',
    )
  })
})
