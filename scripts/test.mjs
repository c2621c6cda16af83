// All checks and tests that can run on this machine. The last line sums them up: N passed, N failed, N skipped.
// Arguments go to vitest; with arguments the checks are left out.
import { spawnSync } from 'node:child_process'
import { mkdirSync, readFileSync, rmSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
// Of this run alone: there may be others beside it.
const report = path.join(root, `.cache/tests-${process.pid}.json`)
const args = process.argv.slice(2)
const node = (...argv) => spawnSync(process.execPath, argv, { cwd: root, stdio: 'inherit' }).status

const checks = args.length > 0 ? 0 : node('scripts/check.mjs')
mkdirSync(path.dirname(report), { recursive: true })
const reporters = ['--reporter=default', '--reporter=json', `--outputFile.json=${report}`]
const tests = node('node_modules/vitest/vitest.mjs', 'run', ...reporters, ...args)

const sum = JSON.parse(readFileSync(report, 'utf8'))
rmSync(report)
for (const file of sum.testResults) {
  for (const test of file.assertionResults) {
    if (test.status === 'pending' || test.status === 'skipped') process.stdout.write(`skipped: ${test.fullName}\n`)
  }
}
// A file that cannot even be loaded counts as one failed test.
const broken = sum.testResults.filter((file) => file.status === 'failed' && file.assertionResults.length === 0).length
const failed = sum.numFailedTests + broken + (checks === 0 ? 0 : 1)
process.stdout.write(`${sum.numPassedTests} passed, ${failed} failed, ${sum.numPendingTests + sum.numTodoTests} skipped\n`)
process.exit(failed > 0 || tests !== 0 ? 1 : 0)
