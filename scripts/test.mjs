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
const all = sum.testResults.flatMap((file) =>
  file.assertionResults.map((test) => ({ ...test, file: path.relative(root, file.name) })),
)
for (const { fullName } of all.filter(({ status }) => status === 'pending' || status === 'skipped'))
  say('skipped', fullName)
// Once more at the end, where they are seen.
if (checks !== 0) say('failed', 'a check: see the first lines')
for (const { file, fullName, failureMessages } of all.filter(({ status }) => status === 'failed')) {
  say('failed', `${file}: ${fullName}: ${failureMessages.join('\n').split('\n', 1)}`)
}
// A file that cannot even be loaded, or whose hooks fail, counts as one failed test.
const broken = sum.testResults.filter(
  (file) =>
    file.status === 'failed' && file.assertionResults.every(({ status }) => status !== 'failed'),
)
for (const { name, message } of broken)
  say(
    'failed',
    `${path.relative(root, name)}: ${message.split('\n', 1)[0] || 'a hook of it: see above'}`,
  )
// What was thrown outside of any test.
const unhandled = tests !== 0 && sum.numFailedTests + broken.length === 0
if (unhandled) say('failed', `vitest ended with ${tests}: see above`)
const failed = sum.numFailedTests + broken.length + (unhandled ? 1 : 0) + (checks === 0 ? 0 : 1)
process.stdout.write(
  `${sum.numPassedTests} passed, ${failed} failed, ${sum.numPendingTests + sum.numTodoTests} skipped\n`,
)
process.exit(failed > 0 ? 1 : 0)

function say(what, text) {
  process.stdout.write(`${what}: ${text}\n`)
}
