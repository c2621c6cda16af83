// The end of a CI run: each job with its time, each skip reason, each failure with the command that
// repeats it, also of a test that passed in a second run, and the sum as the last line.
import { failureText, skipLines, summarize } from '../scripts/test/summary.mjs'

/**
 * @typedef {object} Result of a job
 * @property {string} name
 * @property {number | null} code its exit code
 * @property {number} seconds
 * @property {boolean} tests whether it should have left a report
 * @property {import('../scripts/test/reporter.mjs').TestReport} [report] of its tests
 */

/**
 * @param {Result[]} jobs
 * @param {{ tests: RegExp, why: string }[]} maySkip what may skip in all jobs, as `file > name`
 * @param {string[]} files all files of tests
 * @returns {{ lines: string[], failed: number }}
 */
export function judge(jobs, maySkip, files) {
  const sums = jobs.map(({ report = { files: [], unhandled: [] } }) => summarize(report))
  const failures = jobs.flatMap(({ name, code, tests, report }, index) => {
    const { failed } = sums[index]
    if (tests && report === undefined) failed.push('it left no report of its tests')
    if (code !== 0 && failed.length === 0) failed.push(`it ended with ${code}`)
    return failed.map((text) => `${name}: ${text}`)
  })
  const results = jobs.flatMap(({ report }) => report?.files ?? [])
  const ran = new Set(
    results.flatMap(({ file, tests }) =>
      tests.filter(({ state }) => state !== 'skipped').map((test) => testOf(file, test)),
    ),
  )
  const ranFiles = new Set([...ran].map((test) => test.split(' > ', 1)[0]))
  const neverRan = results.flatMap(({ file, tests }) =>
    tests.map((test) => testOf(file, test)).filter((test) => !ran.has(test)),
  )
  const missing = [
    ...[...new Set(neverRan)].filter((test) => !maySkip.some(({ tests }) => tests.test(test))),
    ...files.filter(
      (file) => !ranFiles.has(file) && !neverRan.some((test) => test.startsWith(file)),
    ),
  ]
  const unsteady = jobs.flatMap(({ name, report }) =>
    (report?.unsteady ?? []).map((failure) => `${name}: ${failureText(failure)}`),
  )
  const skipped = sums.flatMap((sum) => sum.skipped)
  const failed = [...failures, ...missing.map((test) => `${test}: ran in no job`)]
  const passed = sums.reduce((sum, job) => sum + job.passed, 0)
  return {
    lines: [
      ...jobs.map(
        ({ name, seconds }, index) => `${name}: ${sums[index].passed} passed in ${seconds} s`,
      ),
      ...skipLines(skipped).map((line) => `skipped: ${line}`),
      ...unsteady.map((text) => `failed once: ${text}`),
      ...failed.map((text) => `failed: ${text}`),
      `${passed} passed, ${failed.length} failed, ${skipped.length} skipped`,
    ],
    failed: failed.length,
  }
}

/** A title names what a test needs only where the machine lacks it. */
function testOf(file, { name }) {
  return `${file} > ${name.replaceAll(/ \(needs [^()]*(\([^()]*\)[^()]*)*\)/g, '')}`
}
