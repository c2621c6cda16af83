import { describe, expect, it } from 'vitest'
import {
  argumentsOfSecondRun,
  environmentOf,
  filesToRunAgain,
  withSecondRun,
} from './second-run.mjs'

const good = { name: 'is quick', state: 'passed' }
const bad = { name: 'is quick', state: 'failed', error: 'too slow' }
const fileOf = (file, tests, problems = []) => ({ file, problems, tests })
const reportOf = (...files) => ({ files, unhandled: [] })

describe('a second run of test files', () => {
  it('has the files with a failed test or a failed hook', () => {
    const hook = fileOf('c.test.ts', [good], ['no socket'])
    const first = reportOf(fileOf('a.test.ts', [good]), fileOf('b.test.ts', [good, bad]), hook)
    expect(filesToRunAgain(first)).toEqual(['b.test.ts', 'c.test.ts'])
  })

  it('is left out if many files failed, or if an error is of no file', () => {
    const failed = [...'abcdefg'].map((name) => fileOf(`${name}.test.ts`, [bad]))
    expect(filesToRunAgain(reportOf(...failed))).toEqual([])
    const unhandled = ['a rejection without a handler']
    expect(filesToRunAgain({ files: failed.slice(0, 1), unhandled })).toEqual([])
  })

  it('keeps the options, and has its files one by one', () => {
    const args = ['--project', 'cluster', '--no-file-parallelism', 'test/e2e', 'b.test.ts']
    const isPath = (arg) => /test/.test(arg)
    expect(argumentsOfSecondRun(args, ['b.test.ts'], isPath)).toEqual([
      ...['--project', 'cluster', '--no-file-parallelism', 'b.test.ts'],
    ])
  })

  it('has its files one by one whatever number of workers the environment names', () => {
    const env = { VITEST_MAX_WORKERS: '3', CI: 'true' }
    expect(
      environmentOf(
        argumentsOfSecondRun([], ['b.test.ts'], () => true),
        env,
      ),
    ).toEqual({
      CI: 'true',
    })
    expect(environmentOf(['b.test.ts'], env)).toBe(env)
  })

  it('decides about its files, and tells what failed only once', () => {
    const first = reportOf(
      fileOf('a.test.ts', [good]),
      fileOf('b.test.ts', [bad], ['no socket']),
      fileOf('c.test.ts', [bad]),
    )
    const second = reportOf(fileOf('b.test.ts', [good]), fileOf('c.test.ts', [bad]))
    expect(withSecondRun(first, second)).toEqual({
      files: [fileOf('a.test.ts', [good]), ...second.files],
      unhandled: [],
      unsteady: ['b.test.ts: is quick: too slow', 'b.test.ts: no socket'],
    })
  })

  it('has failed if it ends before a file of the list', () => {
    const first = reportOf(fileOf('b.test.ts', [bad]))
    expect(withSecondRun(first, reportOf())).toEqual({ ...first, unsteady: [] })
  })
})
