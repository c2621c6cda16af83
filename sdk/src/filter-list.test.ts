import { describe, expect, it } from 'vitest'
import { passesFilter } from './filter-list.js'

describe('passesFilter', () => {
  it.each([
    ['no filter, value unknown', undefined, undefined, true],
    ['Include of it', { items: ['a'] }, 'a', true],
    ['Include of another', { items: ['b'] }, 'a', false],
    ['Include of nothing', { items: [] }, 'a', false],
    ['Exclude of it', { items: ['a'], action: 'Exclude' as const }, 'a', false],
    ['Exclude of another', { items: ['b'], action: 'Exclude' as const }, 'a', true],
    ['Exclude of nothing, value unknown', { items: [], action: 'Exclude' as const }, undefined, true],
    ['Exclude of something, value unknown', { items: ['b'], action: 'Exclude' as const }, undefined, false],
    ['Include of one of several values', { items: ['b'] }, ['a', 'b'], true],
    ['Exclude of one of several values', { items: ['b'], action: 'Exclude' as const }, ['a', 'b'], false],
  ])('%s', (_, filter, value, passes) => {
    expect(passesFilter(filter, value)).toBe(passes)
  })

  it('tells upper from lower case unless told not to', () => {
    expect(passesFilter({ items: ['AA:BB'] }, 'aa:bb')).toBe(false)
    expect(passesFilter({ items: ['AA:BB'] }, 'aa:bb', { ignoreCase: true })).toBe(true)
  })
})
