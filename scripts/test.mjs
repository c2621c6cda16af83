// All checks and tests that can run on this machine. The last line sums them up:
// N passed, N failed, N skipped. Arguments go to vitest; with arguments the checks are left out.
// With AKRI_TEST_SECOND_RUN=1, files that failed run again, one by one.
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import {
  argumentsOfSecondRun,
  environmentOf,
  filesToRunAgain,
  withSecondRun,
} from './second-run.mjs'
import { summarize } from './test-summary.mjs'
import { root } from './workspaces.mjs'

// A name of its own for each run: others may run beside it. CI names a file and reads it later.
const report = process.env.AKRI_TEST_REPORT ?? path.join(root, `.cache/tests-${process.pid}.json`)
const args = process.argv.slice(2)
const node = (...argv) =>
  spawnSync(process.execPath, argv, {
    cwd: root,
    stdio: 'inherit',
    env: { ...environmentOf(argv, process.env), AKRI_TEST_REPORT: report },
  }).status

const checks = args.length > 0 ? 0 : node('scripts/check.mjs')
mkdirSync(path.dirname(report), { recursive: true })
rmSync(report, { force: true })
const reporters = ['--reporter=default', '--reporter=./scripts/test-report.mjs']
const vitest = (...argv) => node('node_modules/vitest/vitest.mjs', 'run', ...reporters, ...argv)
let status = vitest(...args)
let results = readReport()
const again = process.env.AKRI_TEST_SECOND_RUN === '1' ? filesToRunAgain(results) : []
if (again.length > 0) {
  const isPath = (arg) => existsSync(path.join(root, arg))
  status = vitest(...argumentsOfSecondRun(args, again, isPath))
  results = withSecondRun(results, readReport())
  writeFileSync(report, JSON.stringify(results))
}
if (process.env.AKRI_TEST_REPORT === undefined) rmSync(report, { force: true })

const { passed, failed, skipped } = summarize(results)
if (checks !== 0) failed.push('a check: see the first lines')
if (status !== 0 && failed.length === 0) failed.push(`vitest ended with ${status}: see above`)
for (const line of results.unsteady ?? []) process.stdout.write(`failed once: ${line}\n`)
for (const line of skipped) process.stdout.write(`skipped: ${line}\n`)
for (const line of failed) process.stdout.write(`failed: ${line}\n`)
process.stdout.write(`${passed} passed, ${failed.length} failed, ${skipped.length} skipped\n`)
process.exit(failed.length > 0 ? 1 : 0)

function readReport() {
  try {
    return JSON.parse(readFileSync(report, 'utf8'))
  } catch {
    return { files: [], unhandled: ['vitest wrote no report'] }
  }
}
