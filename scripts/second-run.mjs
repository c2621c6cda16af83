// A second run of the test files that failed. CI runs hundreds of programs and three clusters on
// two processors, so a test can fail for lack of a processor. The second run has its files one by
// one. A test that fails twice has failed; the summary tells a test that failed only once.

/**
 * @typedef {import('./test-report.mjs').TestReport} TestReport
 */

const ONE_BY_ONE = '--no-file-parallelism'
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
 * @param {string[]} args of the first run
 * @param {string[]} files to run again
 * @param {(arg: string) => boolean} isPath whether an argument is a file or a folder
 * @returns {string[]} the arguments of the second run
 */
export function argumentsOfSecondRun(args, files, isPath) {
  const options = args.filter((arg) => arg !== ONE_BY_ONE && !isPath(arg))
  return [...options, ONE_BY_ONE, ...files]
}

/**
 * vitest takes VITEST_MAX_WORKERS before its option for one file after the other.
 *
 * @param {string[]} args
 * @param {NodeJS.ProcessEnv} env
 * @returns {NodeJS.ProcessEnv}
 */
export function environmentOf(args, env) {
  const { VITEST_MAX_WORKERS, ...others } = env
  return args.includes(ONE_BY_ONE) ? others : env
}

/**
 * @param {TestReport} first
 * @param {TestReport} second of the files that failed
 * @returns {TestReport} the result of each file in its last run, and what failed only once
 */
export function withSecondRun(first, second) {
  const again = new Map(second.files.map((entry) => [entry.file, entry]))
  const files = first.files.map((entry) => again.get(entry.file) ?? entry)
  const unsteady = first.files.filter(hasFailed).flatMap(({ file, problems, tests }) => {
    const last = again.get(file)
    if (last === undefined || hasFailed(last)) return []
    const failed = tests.filter(({ state }) => state === 'failed')
    return [...failed.map(({ name, error }) => `${name}: ${error}`), ...problems].map(
      (failure) => `${file}: ${failure}`,
    )
  })
  return { files, unhandled: second.unhandled, unsteady }
}

/** @param {TestReport['files'][number]} entry */
function hasFailed({ problems, tests }) {
  return problems.length > 0 || tests.some(({ state }) => state === 'failed')
}
