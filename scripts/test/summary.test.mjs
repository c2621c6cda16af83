import { execFileSync } from 'node:child_process'
import { describe, expect, it } from 'vitest'
import { skipLines, summarize } from './summary.mjs'

const passed = { name: 'a clock > ticks', title: 'ticks', state: 'passed' }
const failed = {
  name: 'a clock > strikes (once a day) at 12',
  title: "strikes (once a day) at 12 o'clock",
  state: 'failed',
  error: 'expected 11 to be 12\nat clock.test.ts:3:1',
}
const skipped = { name: 'a clock (needs root)', title: 'a clock (needs root)', state: 'skipped' }
const fileOf = (...tests) => ({ file: 'a.test.ts', project: 'user', problems: [], tests })

describe('the end of a test run', () => {
  it('has each failure once, with its error and the command that repeats it', () => {
    const { passed: count, failed: texts } = summarize({
      files: [fileOf(passed, failed)],
      unhandled: [],
    })
    expect(count).toBe(1)
    expect(texts).toHaveLength(1)
    const [first, error, place, repeat] = texts[0].split('\n')
    expect([first, error, place]).toEqual([
      'a.test.ts: a clock > strikes (once a day) at 12',
      '  expected 11 to be 12',
      '  at clock.test.ts:3:1',
    ])
    // A shell gives vitest a regular expression for this title.
    const [, command, pattern] = /^ {2}repeat: (npm test -- a\.test\.ts) -t (.*)$/.exec(repeat)
    const argument = execFileSync('sh', ['-c', `printf %s ${pattern}`], { encoding: 'utf8' })
    expect(command).toBe('npm test -- a.test.ts')
    expect(new RegExp(`^${argument}$`).test(failed.title)).toBe(true)
  })

  it('counts a file that cannot be loaded as one failure', () => {
    const broken = { ...fileOf(), problems: ['no module x'] }
    expect(summarize({ files: [broken], unhandled: ['a rejection'] }).failed).toEqual([
      'a.test.ts\n  no module x\n  repeat: npm test -- a.test.ts',
      'outside of any test: a rejection',
    ])
  })

  it('has one line for each reason of skips, with the number of tests', () => {
    const noted = { ...skipped, name: 'a clock > ticks', reason: 'no Pod security' }
    const files = [fileOf(skipped, noted, skipped, { ...noted, reason: undefined })]
    expect(skipLines(summarize({ files, unhandled: [] }).skipped)).toEqual([
      '2 tests: needs root',
      '1 test: no Pod security',
      '1 test: no reason given',
    ])
  })

  it('has 15 lines for skips at most', () => {
    const reasons = Array.from({ length: 20 }, (_, index) => ({ reason: `needs ${index}` }))
    const lines = skipLines([...reasons, { reason: 'needs 19' }])
    expect(lines).toHaveLength(15)
    expect(lines[0]).toBe('2 tests: needs 19')
    expect(lines[14]).toBe('6 tests: 6 other reasons')
  })
})
