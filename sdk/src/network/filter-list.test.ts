import { describe, expect, it } from 'vitest'
import { countReads } from '../../../test/support/reads.js'
import { passesFilter } from './filter-list.js'

describe('passesFilter', () => {
  it.each([
    ['no filter, value unknown', undefined, undefined, true],
    ['Include of it', { items: ['a'] }, 'a', true],
    ['Include of another', { items: ['b'] }, 'a', false],
    ['Include of nothing', { items: [] }, 'a', false],
    ['Exclude of it', { items: ['a'], action: 'Exclude' as const }, 'a', false],
    ['Exclude of another', { items: ['b'], action: 'Exclude' as const }, 'a', true],
    [
      'Exclude of nothing, value unknown',
      { items: [], action: 'Exclude' as const },
      undefined,
      true,
    ],
    [
      'Exclude of something, value unknown',
      { items: ['b'], action: 'Exclude' as const },
      undefined,
      false,
    ],
    ['Include of one of several values', { items: ['b'] }, ['a', 'b'], true],
    [
      'Exclude of one of several values',
      { items: ['b'], action: 'Exclude' as const },
      ['a', 'b'],
      false,
    ],
  ])('%s', (_, filter, value, passes) => {
    expect(passesFilter(filter, value)).toBe(passes)
  })

  it('compares upper and lower case, unless ignoreCase is set', () => {
    expect(passesFilter({ items: ['AA:BB'] }, 'aa:bb')).toBe(false)
    expect(passesFilter({ items: ['AA:BB'] }, 'aa:bb', { ignoreCase: true })).toBe(true)
  })

  it('gives the same answer for a list after any earlier use of the list', () => {
    const items = ['AA:BB', 'cc:dd']
    for (let time = 0; time < 2; time++) {
      for (const [value, exactly, ignoringCase] of [
        ['AA:BB', true, true],
        ['aa:bb', false, true],
        ['CC:DD', false, true],
        ['ee:ff', false, false],
      ] as const) {
        expect(passesFilter({ items }, value)).toBe(exactly)
        expect(passesFilter({ items }, value, { ignoreCase: true })).toBe(ignoringCase)
        expect(passesFilter({ items, action: 'Exclude' }, value)).toBe(!exactly)
        expect(passesFilter({ items, action: 'Exclude' }, value, { ignoreCase: true })).toBe(
          !ignoringCase,
        )
      }
    }
    expect(passesFilter({ items: ['aa:bb'] }, 'aa:bb')).toBe(true)
  })

  it('reads its items once, however many devices are compared', () => {
    const { value, reads } = countReads({ items: ['AA:BB:0', 'AA:BB:1'] })
    const { items } = value
    expect(passesFilter({ items }, 'aa:bb:1', { ignoreCase: true })).toBe(true)
    expect(passesFilter({ items, action: 'Exclude' }, 'AA:BB:1')).toBe(false)
    const before = reads()
    expect(passesFilter({ items }, 'aa:bb:1', { ignoreCase: true })).toBe(true)
    expect(passesFilter({ items }, 'aa:bb:2', { ignoreCase: true })).toBe(false)
    // The length of the list, which may be empty.
    expect(passesFilter({ items, action: 'Exclude' }, 'AA:BB:2')).toBe(true)
    expect(reads() - before).toBeLessThanOrEqual(1)
  })
})
