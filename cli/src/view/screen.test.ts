import { describe, expect, it } from 'vitest'
import { afterKey, OVERVIEW, type ScreenState } from './screen.js'

const objects = Array.from({ length: 30 }, (_, index) => ({
  kind: 'instance' as const,
  name: `cam-${index}`,
}))

/** Presses keys: names such as `down`, or characters. */
function after(keys: readonly string[], from: ScreenState = OVERVIEW, lines = 25) {
  return keys.reduce<ScreenState | undefined>((state, key) => {
    const text = key.length === 1 ? key : ''
    return state && afterKey(state, { name: key, text }, { objects, lines, page: 10 })
  }, from)
}

describe('the keys of the live view', () => {
  it.each<[string, readonly string[], Partial<ScreenState> | undefined]>([
    ['open the list', ['down'], { screen: 'list', at: 0 }],
    ['do nothing else in the overview', ['x', 'tab'], OVERVIEW],
    ['select the next object', ['down', 'down', 'j'], { screen: 'list', at: 2 }],
    ['stop at the ends of the list', ['down', 'up', 'up'], { at: 0 }],
    ['select by pages', ['down', 'pagedown', 'pagedown', 'pageup'], { at: 10 }],
    ['select the last object', ['return', 'end', 'down'], { at: 29 }],
    ['select the first object', ['return', 'end', 'home'], { at: 0 }],
    ['open an object', ['down', 'down', 'return'], { screen: 'details', opened: objects[1] }],
    ['scroll in an object', ['down', 'return', 'down', 'pagedown'], { at: 11 }],
    ['stop at the end of an object', ['down', 'return', 'end', 'down'], { at: 15 }],
    [
      'return to the selected object',
      ['down', 'end', 'return', 'down', 'escape'],
      { screen: 'list', at: 29, opened: undefined },
    ],
    ['return to the overview', ['down', 'end', 'escape'], OVERVIEW],
    ['follow the end of the log', ['l'], { screen: 'log', at: Number.POSITIVE_INFINITY }],
    ['scroll in the log', ['l', 'up', 'up'], { at: 13 }],
    ['follow its end again', ['l', 'up', 'down'], { at: Number.POSITIVE_INFINITY }],
    ['leave the log', ['l', 'l'], OVERVIEW],
    ['type a filter', ['/', 'l', 'q', '1'], { screen: 'list', filter: 'lq1', isTyping: true }],
    ['correct a filter', ['/', 'a', 'b', 'backspace'], { filter: 'a' }],
    ['keep a filter', ['/', 'a', 'return', 'down'], { filter: 'a', isTyping: false, at: 1 }],
    ['remove a filter while it is typed', ['/', 'a', 'escape'], { filter: '', isTyping: false }],
    ['remove a filter, and then leave', ['/', 'a', 'return', 'escape'], { screen: 'list' }],
    ['end the program', ['q'], undefined],
    ['end the program from the list', ['down', 'q'], undefined],
    ['leave an object by q', ['down', 'return', 'q'], { screen: 'list' }],
  ])('%s', (_what, keys, expected) => {
    const state = after(keys)
    if (expected === undefined) expect(state).toBeUndefined()
    else expect(state).toMatchObject(expected)
  })

  it('open nothing where nothing is listed', () => {
    const state = { ...OVERVIEW, screen: 'list' } as const
    const none = { objects: [], lines: 0, page: 10 }
    expect(afterKey(state, { name: 'return', text: '' }, none)).toEqual(state)
    expect(afterKey(state, { name: 'end', text: '' }, none)).toEqual(state)
  })

  it('hold a filter of 100 characters', () => {
    const state = after(['/', ...'x'.repeat(200)])
    expect(state?.filter).toHaveLength(100)
  })
})
