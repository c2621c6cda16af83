import { describe, expect, it } from 'vitest'
import { judge } from './summary.mjs'

const FILE = 'test/usb.test.ts'
const passing = { name: 'a bus > finds a stick', title: 'finds a stick', state: 'passed' }
const failing = { ...passing, state: 'failed', error: 'too slow' }
const skipping = { ...passing, name: 'a bus (needs QEMU) > finds a stick', state: 'skipped' }
const fileOf = (...tests) => ({ file: FILE, project: 'system', problems: [], tests })
const jobOf = (name, ...files) => ({
  ...{ name, code: 0, seconds: 7, tests: true },
  report: { files, unhandled: [] },
})
const start = { name: 'start', code: 0, seconds: 9, tests: false }
const linesOf = (jobs, maySkip = [], files = [FILE]) => judge(jobs, maySkip, files).lines

describe('the summary of CI', () => {
  it('has each job with its time, and the sum', () => {
    expect(linesOf([start, jobOf('all', fileOf(passing))])).toEqual([
      'start: 0 passed in 9 s',
      'all: 1 passed in 7 s',
      '1 passed, 0 failed, 0 skipped',
    ])
  })

  it('has what failed in a first run and passed in a second one, with its command', () => {
    const all = jobOf('all', fileOf(passing))
    const unsteady = [{ file: FILE, project: 'system', ...failing }]
    const lines = linesOf([{ ...all, report: { ...all.report, unsteady } }])
    expect(lines).toContain(
      `failed once: all: ${FILE}: a bus > finds a stick\n  too slow\n` +
        `  repeat: npm run test:all -- ${FILE} -t 'finds a stick'`,
    )
    expect(lines.at(-1)).toBe('1 passed, 0 failed, 0 skipped')
  })

  it.each([
    [
      'a test failed',
      [jobOf('all', fileOf(failing))],
      `failed: all: ${FILE}: a bus > finds a stick`,
    ],
    [
      'a job ended with an error',
      [{ ...start, code: 1 }, jobOf('all', fileOf(passing))],
      'failed: start: it ended with 1',
    ],
    [
      'a job left no report',
      [{ ...start, tests: true }, jobOf('all', fileOf(passing))],
      'failed: start: it left no report of its tests',
    ],
    [
      'a test skipped in each job',
      [jobOf('all', fileOf(skipping)), jobOf('node-24', fileOf(skipping))],
      `failed: ${FILE} > a bus > finds a stick: ran in no job`,
    ],
    ['a file is in no job', [start], `failed: ${FILE}: ran in no job`],
  ])('fails if %s', (_, jobs, failure) => {
    const lines = linesOf(jobs)
    expect(
      lines.filter((line) => line.startsWith('failed: ')).map((line) => line.split('\n')[0]),
    ).toEqual([failure])
    expect(lines.at(-1)).toMatch(/ 1 failed, /)
  })

  it('passes if a test that skipped ran in another job, or may skip', () => {
    const skipped = 'skipped: 1 test: needs QEMU'
    const other = [jobOf('all', fileOf(skipping)), jobOf('node-24', fileOf(passing))]
    expect(linesOf(other).slice(2)).toEqual([skipped, '1 passed, 0 failed, 1 skipped'])
    const maySkip = [{ tests: /usb.*stick/, why: 'no bus' }]
    expect(linesOf([jobOf('all', fileOf(skipping))], maySkip).slice(1)).toEqual([
      skipped,
      '0 passed, 0 failed, 1 skipped',
    ])
  })
})
