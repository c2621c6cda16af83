// What a test run prints at its end: each skip reason with the number of its tests, and each
// failure with the command that repeats it.

/** The most lines of skips. */
const MAX_REASONS = 15

/** The npm script that runs the tests of a project of vitest.config.ts. */
const SCRIPTS = {
  pure: 'npm run unit --',
  unit: 'npm run unit --',
  user: 'npm test --',
  system: 'npm run test:all --',
  cluster: 'npm run test:cluster --',
}

/**
 * @param {import('./reporter.mjs').TestReport} report
 * @returns {{ passed: number, failed: string[], skipped: { reason: string }[] }} a text for each
 *   failure
 */
export function summarize({ files, unhandled }) {
  const tests = files.flatMap(({ tests }) => tests)
  return {
    passed: tests.filter(({ state }) => state === 'passed').length,
    failed: [
      ...files.flatMap(failuresOf).map(failureText),
      ...unhandled.map((message) => `outside of any test: ${message}`),
    ],
    skipped: tests
      .filter(({ state }) => state === 'skipped')
      .map((test) => ({ ...test, reason: reasonOf(test) })),
  }
}

/**
 * @param {import('./reporter.mjs').TestFile} file a file that cannot be loaded, or a hook that
 *   fails, counts as one failed test
 * @returns {import('./reporter.mjs').Failure[]}
 */
export function failuresOf({ file, project, problems, tests }) {
  const failed = tests.filter(({ state }) => state === 'failed')
  if (failed.length > 0) return failed.map((test) => ({ file, project, ...test }))
  return problems.length > 0 ? [{ file, project, error: problems.join('\n') }] : []
}

/**
 * @param {import('./reporter.mjs').Failure} failure
 * @returns {string} its first line, its error, and the command that repeats it
 */
export function failureText({ file, project, name, title, error }) {
  const filter = title === undefined ? '' : ` -t ${quoted(escaped(title))}`
  return [
    name === undefined ? file : `${file}: ${name}`,
    ...error.split('\n').map((line) => `  ${line}`),
    `  repeat: ${SCRIPTS[project]} ${file}${filter}`,
  ].join('\n')
}

/**
 * @param {readonly { reason: string }[]} skipped
 * @returns {string[]} a line for each reason, the most frequent first
 */
export function skipLines(skipped) {
  const counts = new Map()
  for (const { reason } of skipped) counts.set(reason, (counts.get(reason) ?? 0) + 1)
  const rows = [...counts].sort(([, one], [, other]) => other - one)
  const lines = rows.map(
    ([reason, count]) => `${count} ${count === 1 ? 'test' : 'tests'}: ${reason}`,
  )
  if (lines.length <= MAX_REASONS) return lines
  const rest = rows.slice(MAX_REASONS - 1)
  const sum = rest.reduce((total, [, count]) => total + count, 0)
  return [...lines.slice(0, MAX_REASONS - 1), `${sum} tests: ${rest.length} other reasons`]
}

/** A skipped test names what it needs in its note, or in the title of the test or its block. */
function reasonOf({ name, reason }) {
  return reason ?? /\((needs [^()]*)/.exec(name)?.[1].trim() ?? 'no reason given'
}

/** As a regular expression, which the option -t takes. */
function escaped(title) {
  return title.replaceAll(/[\\^$.*+?()[\]{}|]/g, '\\$&')
}

/** For a shell. */
function quoted(text) {
  return `'${text.replaceAll("'", String.raw`'\''`)}'`
}
