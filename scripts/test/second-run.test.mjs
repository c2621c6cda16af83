import { describe, expect, it } from 'vitest'
import { filesToRunAgain, withSecondRun } from './second-run.mjs'

const good = { name: 'is quick', state: 'passed' }
const bad = { name: 'is quick', state: 'failed', error: 'too slow' }
const fileOf = (file, tests, problems = []) => ({ file, project: 'unit', problems, tests })
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

  it('decides about its files, and tells what failed only once', () => {
    const first = reportOf(
      fileOf('a.test.ts', [good]),
      fileOf('b.test.ts', [bad]),
      fileOf('c.test.ts', [bad]),
      fileOf('d.test.ts', [good], ['no socket']),
    )
    const second = reportOf(
      fileOf('b.test.ts', [good]),
      fileOf('c.test.ts', [bad]),
      fileOf('d.test.ts', [good]),
    )
    expect(withSecondRun(first, second)).toEqual({
      files: [fileOf('a.test.ts', [good]), ...second.files],
      unhandled: [],
      unsteady: [
        { file: 'b.test.ts', project: 'unit', ...bad },
        { file: 'd.test.ts', project: 'unit', error: 'no socket' },
      ],
    })
  })

  it('has failed if it ends before a file of the list', () => {
    const first = reportOf(fileOf('b.test.ts', [bad]))
    expect(withSecondRun(first, reportOf())).toEqual({ ...first, unsteady: [] })
  })
})
