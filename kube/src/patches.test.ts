import { describe, expect, it } from 'vitest'
import type { JsonPatch } from './objects.js'
import { applyJsonPatch } from './patches.js'

// The cluster tests hold a real API server to the same rules.

describe('a JSON patch', () => {
  const document = { list: ['a', 'b'], map: { 'x/y': 1, 'm~n': 2 }, empty: '' }

  it.each<[string, JsonPatch, object]>([
    ['adds a key', [{ op: 'add', path: '/new', value: 1 }], { new: 1 }],
    [
      'inserts into a list',
      [{ op: 'add', path: '/list/1', value: 'x' }],
      { list: ['a', 'x', 'b'] },
    ],
    ['appends to a list', [{ op: 'add', path: '/list/-', value: 'x' }], { list: ['a', 'b', 'x'] }],
    ['replaces a value', [{ op: 'replace', path: '/empty', value: 'x' }], { empty: 'x' }],
    ['reads escaped keys', [{ op: 'remove', path: '/map/x~1y' }], { map: { 'm~n': 2 } }],
    ['removes from a list', [{ op: 'remove', path: '/list/0' }], { list: ['b'] }],
    ['goes on after a test that holds', [{ op: 'test', path: '/list', value: ['a', 'b'] }], {}],
  ])('%s', (_what, patch, change) => {
    expect(applyJsonPatch(document, patch)).toEqual({ value: { ...document, ...change } })
  })

  it.each<[string, JsonPatch]>([
    ['a test that does not hold', [{ op: 'test', path: '/empty', value: 'x' }]],
    ['a test of an absent key', [{ op: 'test', path: '/absent', value: undefined }]],
    ['a replacement of an absent key', [{ op: 'replace', path: '/absent', value: 1 }]],
    ['a removal of an absent key', [{ op: 'remove', path: '/map/absent' }]],
    ['an addition below an absent key', [{ op: 'add', path: '/absent/key', value: 1 }]],
    ['an index beyond the list', [{ op: 'add', path: '/list/3', value: 1 }]],
  ])('is refused as a whole for %s', (_what, patch) => {
    const whole: JsonPatch = [{ op: 'add', path: '/new', value: 1 }, ...patch]
    expect(applyJsonPatch(document, whole)).toHaveProperty('refused')
    expect(document).not.toHaveProperty('new')
  })
})
