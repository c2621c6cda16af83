// What a test run prints at its end.

/**
 * @param {import('./test-report.mjs').TestReport} report
 * @returns {{ passed: number, failed: string[], skipped: string[] }} a line for each failure and
 * each skip
 */
export function summarize({ files, unhandled }) {
  const tests = files.flatMap(({ file, tests }) => tests.map((test) => ({ file, ...test })))
  const inState = (state) => tests.filter((test) => test.state === state)
  // A file that cannot be loaded, or a hook that fails, counts as one failed test.
  const broken = files.filter(
    ({ problems, tests }) => problems.length > 0 && tests.every(({ state }) => state !== 'failed'),
  )
  return {
    passed: inState('passed').length,
    failed: [
      ...inState('failed').map(({ file, name, error }) => `${file}: ${name}: ${error}`),
      ...broken.map(({ file, problems }) => `${file}: ${problems.join('; ')}`),
      ...unhandled.map((message) => `outside of any test: ${message}`),
    ],
    skipped: inState('skipped').map(
      ({ file, name, reason }) => `${file}: ${name}${reason === undefined ? '' : `: ${reason}`}`,
    ),
  }
}
