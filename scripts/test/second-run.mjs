// A second run of the test files that failed, in CI: chance should hold up no work. A test that
// fails twice has failed. A test that fails once is a fault too: the last lines of a run have it.
import { failuresOf } from './summary.mjs'

/**
 * @typedef {import('./reporter.mjs').TestReport} TestReport
 */

/** More files than these fail for a reason of the code. */
const MOST_FILES = 6

/**
 * @param {TestReport} report of the first run
 * @returns {string[]} the files to run again; none if too many failed, or an error is of no file
 */
export function filesToRunAgain({ files, unhandled }) {
  const failed = files.filter(hasFailed).map(({ file }) => file)
  return unhandled.length > 0 || failed.length > MOST_FILES ? [] : failed
}

/**
 * @param {TestReport} first
 * @param {TestReport} second of the files that failed
 * @returns {TestReport} the result of each file in its last run, and what failed only once
 */
export function withSecondRun(first, second) {
  const again = new Map(second.files.map((entry) => [entry.file, entry]))
  const files = first.files.map((entry) => again.get(entry.file) ?? entry)
  const unsteady = first.files
    .filter(({ file }) => again.has(file) && !hasFailed(again.get(file)))
    .flatMap(failuresOf)
  return { files, unhandled: second.unhandled, unsteady }
}

/** @param {import('./reporter.mjs').TestFile} entry */
function hasFailed(entry) {
  return failuresOf(entry).length > 0
}
