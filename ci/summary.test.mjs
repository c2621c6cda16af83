import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { judge } from './summary.mjs'

const expected = {
  jobs: [
    { name: 'check', tests: false },
    { name: 'unit', tests: true },
  ],
  tests: [{ name: 'the USB machine', job: 'unit', tests: 'usb.*bus' }],
}
const FILES = ['test/usb.test.ts']

const passing = { name: 'finds a stick on the bus', state: 'passed' }
const skipping = { name: 'finds a stick on the bus', state: 'skipped', reason: 'needs QEMU' }
const fileOf = (...tests) => ({ file: 'test/usb.test.ts', problems: [], tests })
const jobsOf = (...files) => [
  { name: 'check', status: 0 },
  { name: 'unit', status: 0, report: { files, unhandled: [] } },
]
const failuresOf = (jobs, files = FILES) => judge(jobs, expected, files).failed

describe('the summary of CI', () => {
  it('passes when all jobs passed and all of the list ran', () => {
    expect(judge(jobsOf(fileOf(passing)), expected, FILES)).toEqual({
      passed: 1,
      failed: [],
      skipped: 0,
      skips: [],
      unsteady: [],
    })
  })

  it('names what failed in a first run and passed in a second one', () => {
    const [check, unit] = jobsOf(fileOf(passing))
    const report = { ...unit.report, unsteady: ['test/usb.test.ts: finds a stick: too slow'] }
    const { failed, unsteady } = judge([check, { ...unit, report }], expected, FILES)
    expect(failed).toEqual([])
    expect(unsteady).toEqual(['unit: test/usb.test.ts: finds a stick: too slow'])
  })

  it('fails when a job has not ended, or left no report of its tests', () => {
    expect(failuresOf([{ name: 'check' }, { name: 'unit', status: 0 }])).toEqual([
      'expected to run: the job check did not end',
      'expected to run: the job unit left no report of its tests',
      'expected to run: the USB machine: no test of unit matches usb.*bus',
      'expected to run: test/usb.test.ts: no job ran a test of this file',
    ])
  })

  it('names a job that a late run left out, and expects nothing of it', () => {
    const again = { name: 'node-24', tests: true }
    const tests = { name: 'the USB machine, on Node 24', job: 'node-24', tests: 'usb' }
    const list = { jobs: [...expected.jobs, again], tests: [...expected.tests, tests] }
    const jobs = jobsOf(fileOf(passing))
    expect(judge([...jobs, { name: 'node-24', late: 41 }], list, FILES)).toEqual({
      passed: 1,
      failed: [],
      skipped: 1,
      skips: ['all of node-24, as 41 min had passed before it'],
      unsteady: [],
    })
    expect(judge([...jobs, { name: 'node-24' }], list, FILES).failed).toHaveLength(2)
  })

  it('fails when a job fails that runs no test', () => {
    const [, unit] = jobsOf(fileOf(passing))
    expect(failuresOf([{ name: 'check', status: 1 }, unit])).toEqual(['check: it ended with 1'])
  })

  it('fails when a part of the list is missing', () => {
    const other = { file: 'test/other.test.ts', problems: [], tests: [passing] }
    expect(failuresOf(jobsOf(other), ['test/other.test.ts'])).toEqual([
      'expected to run: the USB machine: no test of unit matches usb.*bus',
    ])
  })

  it('fails when a part of the list was skipped as a whole, and names the reason', () => {
    const { failed, skips, skipped } = judge(jobsOf(fileOf(skipping)), expected, FILES)
    expect(failed).toEqual([
      'expected to run: the USB machine: unit skipped all 1 tests',
      'expected to run: test/usb.test.ts: no job ran a test of this file',
    ])
    expect(skips).toEqual(['test/usb.test.ts: finds a stick on the bus: needs QEMU [unit]'])
    expect(skipped).toBe(1)
  })

  it('fails with each skip of a job that can run all of its tests', () => {
    const list = { ...expected, jobs: [expected.jobs[0], { ...expected.jobs[1], skips: false }] }
    const jobs = jobsOf(fileOf(passing, { ...skipping, name: 'finds a hub' }))
    expect(judge(jobs, expected, FILES).failed).toEqual([])
    expect(judge(jobs, list, FILES).failed).toEqual([
      'expected to run: test/usb.test.ts: finds a hub: needs QEMU [unit]',
    ])
  })

  it('fails when a file of tests ran in no job', () => {
    expect(failuresOf(jobsOf(fileOf(passing)), [...FILES, 'sdk/src/new.test.ts'])).toEqual([
      'expected to run: sdk/src/new.test.ts: no job ran a test of this file',
    ])
  })

  it('fails with the test, the broken file or the error, and the name of the job', () => {
    const [check, unit] = jobsOf(
      fileOf(passing, { name: 'reads it', state: 'failed', error: 'expected 1 to be 2' }),
      { file: 'test/broken.test.ts', problems: ['cannot load'], tests: [] },
    )
    const report = { ...unit.report, unhandled: ['late'] }
    expect(failuresOf([check, { ...unit, status: 1, report }])).toEqual([
      'unit: test/usb.test.ts: reads it: expected 1 to be 2',
      'unit: test/broken.test.ts: cannot load',
      'unit: outside of any test: late',
    ])
  })
})

it('the list of CI names jobs that it has', () => {
  const list = JSON.parse(readFileSync(path.join(import.meta.dirname, 'expected.json'), 'utf8'))
  const names = list.jobs.map(({ name }) => name)
  const run = readFileSync(path.join(import.meta.dirname, '../.ci/run'), 'utf8')
  for (const { job, tests } of list.tests) {
    expect(names).toContain(job)
    expect(() => new RegExp(tests)).not.toThrow()
  }
  for (const name of names) expect(run).toMatch(new RegExp(`ci/(job|repeat) ${name} `))
})
