// Runs tests: `node scripts/test/test.mjs SUITE [FILE, FOLDER or option of vitest]...`. The last
// line sums them up: N passed, N failed, N skipped. With AKRI_TEST_SECOND_RUN=1, files that failed
// run again, one by one.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { root } from '../workspaces.mjs'
import { filesToRunAgain, withSecondRun } from './second-run.mjs'
import { failureText, skipLines, summarize } from './summary.mjs'

const ONE_BY_ONE = '--no-file-parallelism'
/** The projects of vitest.config.ts that a suite has; `rest` and `test` together are `all`. */
const SUITES = {
  unit: { projects: ['pure', 'unit'] },
  test: { projects: ['pure', 'unit', 'user'], checks: true },
  all: { projects: ['pure', 'unit', 'user', 'system'], checks: true },
  rest: { projects: ['system'] },
  cluster: { projects: ['cluster'], options: [ONE_BY_ONE] },
}

const [name, ...args] = process.argv.slice(2)
const { projects, checks = false, options = [] } = SUITES[name]
// A name of its own for each run: others may run beside it. CI names a file and reads it later.
const report = process.env.AKRI_TEST_REPORT ?? path.join(root, `.cache/tests-${process.pid}.json`)
const failedChecks = checks && args.length === 0 && node('scripts/check.mjs') !== 0
mkdirSync(path.dirname(report), { recursive: true })

let { status, results } = vitest(...options, ...args)
const again = process.env.AKRI_TEST_SECOND_RUN === '1' ? filesToRunAgain(results) : []
if (again.length > 0) {
  const withoutPaths = args.filter((arg) => !existsSync(path.join(root, arg)))
  const second = vitest(ONE_BY_ONE, ...withoutPaths, ...again)
  status = second.status
  results = withSecondRun(results, second.results)
  writeFileSync(report, JSON.stringify(results))
}
if (process.env.AKRI_TEST_REPORT === undefined) rmSync(report, { force: true })

if (results.files.length === 0 && results.unhandled.length === 0) {
  process.stderr.write(`no test file of this suite matches ${args.join(' ')}\n`)
  process.exit(1)
}
const { passed, failed, ...sum } = summarize(results)
if (failedChecks) failed.push('a check: see the first lines\n  repeat: npm run check')
if (status !== 0 && failed.length === 0) failed.push(`vitest ended with ${status}: see above`)
// Tests that -t leaves out are no news.
const isChosen = args.some((arg) => /^(-t|--testNamePattern)\b/.test(arg))
const skipped = isChosen ? [] : sum.skipped
for (const line of skipLines(skipped)) say(`skipped: ${line}`)
for (const failure of results.unsteady ?? []) say(`failed once: ${failureText(failure)}`)
for (const text of failed) say(`failed: ${text}`)
say(`${passed} passed, ${failed.length} failed, ${skipped.length} skipped`)
process.exit(failed.length > 0 ? 1 : 0)

/** @returns {{ status: number, results: import('./reporter.mjs').TestReport }} */
function vitest(...argv) {
  rmSync(report, { force: true })
  const status = node(
    'node_modules/vitest/vitest.mjs',
    'run',
    '--reporter=./scripts/test/reporter.mjs',
    ...projects.flatMap((project) => ['--project', project]),
    ...argv,
  )
  try {
    return { status, results: JSON.parse(readFileSync(report, 'utf8')) }
  } catch {
    return { status, results: { files: [], unhandled: ['vitest wrote no report'] } }
  }
}

function node(...argv) {
  const env = { ...process.env, AKRI_TEST_REPORT: report }
  return spawnSync(process.execPath, argv, { cwd: root, stdio: 'inherit', env }).status
}

function say(text) {
  process.stdout.write(`${text}\n`)
}
