import { describe, expect, it } from 'vitest'
import { readerAtStart, START_VARIABLES } from './start-variables.js'

describe('the variables that programs read when they start', () => {
  it.each(START_VARIABLES)('are sorted: %s', (_reason, names) => {
    expect(names).toEqual([...names].sort())
  })

  it('have one entry each, and no entry that another entry covers', () => {
    const all = START_VARIABLES.flatMap(([, names]) => names)
    expect(new Set(all).size).toBe(all.length)
    const wildcards = all.filter((name) => name.includes('*'))
    const covers = (pattern: string, name: string) =>
      pattern !== name &&
      new RegExp(`^${pattern.replace(/[()]/g, '\\$&').replaceAll('*', '.*')}$`).test(name)
    expect(all.filter((name) => wildcards.some((pattern) => covers(pattern, name)))).toEqual([])
  })

  it('are found by each entry, in upper and lower case', () => {
    for (const [reason, names] of START_VARIABLES)
      for (const name of names) {
        const example = name.replaceAll('*', 'X')
        expect(readerAtStart(example), example).toBeTypeOf('string')
        if (!name.includes('*')) expect(readerAtStart(example.toLowerCase())).toBe(reason)
      }
  })
})
