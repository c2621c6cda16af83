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

  it('are found as a regular expression of each entry finds them', () => {
    const expressions = START_VARIABLES.map(([reason, names]) => {
      const sources = names.map((name) => name.replace(/[^\w*]/g, '\\$&').replaceAll('*', '.*'))
      return { reason, names: new RegExp(`^(?:${sources.join('|')})$`, 'is') }
    })
    for (const name of START_VARIABLES.flatMap(([, names]) => names))
      for (const like of [
        name.replaceAll('*', ''),
        name.toLowerCase().replaceAll('*', 'x_\n'),
        `A${name.replaceAll('*', 'ſ')}`,
        `${name.replaceAll('*', '')}Z`,
        name.slice(0, 3),
      ]) {
        const expected = expressions.find(({ names }) => names.test(like))?.reason
        const isHarmless = ['CUDA', 'HIP', 'ROCR'].some((of) => like === `${of}_VISIBLE_DEVICES`)
        expect(readerAtStart(like), like).toBe(isHarmless ? undefined : expected)
      }
  })
})
