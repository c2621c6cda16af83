// A vitest reporter: writes the result of each test, with the reason of each skip, to the file
// AKRI_TEST_REPORT.
import { writeFileSync } from 'node:fs'

/**
 * @typedef {object} TestReport
 * @property {{ file: string, problems: string[], tests: TestResult[] }[]} files
 * @property {string[]} unhandled errors outside of any file
 * @property {string[]} [unsteady] failures of a first run that passed in a second one
 *
 * @typedef {object} TestResult
 * @property {string} name
 * @property {'passed' | 'failed' | 'skipped'} state
 * @property {string} [reason] of a skip
 * @property {string} [error] of a failure
 */

export default class ReportWriter {
  onTestRunEnd(modules, unhandledErrors) {
    const report = {
      files: modules.map((module) => ({
        file: module.relativeModuleId,
        // Errors of the file itself, and of the hooks of its blocks.
        problems: [module, ...module.children.allSuites()]
          .flatMap((part) => part.errors())
          .map(firstLine),
        tests: [...module.children.allTests()].map(resultOf),
      })),
      unhandled: unhandledErrors.map(firstLine),
    }
    writeFileSync(process.env.AKRI_TEST_REPORT, JSON.stringify(report))
  }
}

/** @returns {TestResult} */
function resultOf(test) {
  const { state, note, errors = [] } = test.result()
  if (state === 'failed')
    return { name: test.fullName, state, error: errors.map(firstLine).join('; ') }
  if (state === 'passed') return { name: test.fullName, state }
  return { name: test.fullName, state: 'skipped', ...(note && { reason: note }) }
}

function firstLine({ message = '' }) {
  return message.split('\n', 1)[0].slice(0, 500)
}
