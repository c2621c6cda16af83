// The vitest reporter of all test runs: a line for each file as progress, and the result of each
// test in the file AKRI_TEST_REPORT. summary.mjs makes the last lines of a run of it.
import { writeFileSync } from 'node:fs'
import path from 'node:path'
import { DefaultReporter } from 'vitest/node'
import { root } from '../workspaces.mjs'

/**
 * @typedef {object} TestReport
 * @property {TestFile[]} files
 * @property {string[]} unhandled errors outside of any file
 * @property {Failure[]} [unsteady] failures of a first run that passed in a second one
 *
 * @typedef {object} TestFile
 * @property {string} file
 * @property {string} project of vitest.config.ts
 * @property {string[]} problems errors of the file itself, and of the hooks of its blocks
 * @property {TestResult[]} tests
 *
 * @typedef {object} TestResult
 * @property {string} name with the names of its blocks
 * @property {string} title without them
 * @property {'passed' | 'failed' | 'skipped'} state
 * @property {string} [reason] of a skip
 * @property {string} [error] of a failure
 *
 * @typedef {Pick<TestFile, 'file' | 'project'> & Partial<TestResult> & { error: string }} Failure
 */

/** The most lines of an error: the message, and what differs. */
const MAX_ERROR_LINES = 25
const MAX_LINE_LENGTH = 300

export default class TestReporter extends DefaultReporter {
  /** Without vitest's banner: the last lines say all. */
  onInit(vitest) {
    this.ctx = vitest
    this.silent = vitest.config.silent
    this.summary?.onInit(vitest)
  }

  onTestRunEnd(modules, unhandledErrors) {
    this.summary?.onTestRunEnd()
    const report = {
      files: modules.map((module) => ({
        file: module.relativeModuleId,
        project: module.project.name,
        problems: [module, ...module.children.allSuites()]
          .flatMap((part) => part.errors())
          .map(textOf),
        tests: [...module.children.allTests()].map(resultOf),
      })),
      unhandled: unhandledErrors.map(textOf),
    }
    writeFileSync(process.env.AKRI_TEST_REPORT, JSON.stringify(report))
  }
}

/** @returns {TestResult} */
function resultOf(test) {
  const { state, note, errors = [] } = test.result()
  const { fullName: name, name: title } = test
  if (state === 'failed') return { name, title, state, error: errors.map(textOf).join('\n') }
  if (state === 'passed') return { name, title, state }
  return { name, title, state: 'skipped', ...(note && { reason: note }) }
}

function textOf({ message = '', diff, stacks = [] }) {
  const here = stacks.find(({ file }) => file.startsWith(root) && !file.includes('node_modules'))
  const place = here && `at ${path.relative(root, here.file)}:${here.line}:${here.column}`
  const lines = [message, ...(diff ? [diff] : [])]
    .join('\n')
    .split('\n')
    .map((line) => line.slice(0, MAX_LINE_LENGTH))
  const more = lines.length - MAX_ERROR_LINES
  if (more > 0) lines.splice(MAX_ERROR_LINES, more, `(${more} more lines)`)
  return [...lines, ...(place ? [place] : [])].join('\n')
}
