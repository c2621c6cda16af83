// The end of a CI run: each failure, also of a test that passed in a second run, each skip with its
// reason, each part of the list expected.json that did not run, and the sum as the last line.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'
import { summarize } from '../scripts/test-summary.mjs'

/**
 * @typedef {object} Job
 * @property {string} name
 * @property {number} [status] its exit code; undefined when it has not ended
 * @property {number} [late] the minutes after which ci/repeat left it out
 * @property {import('../scripts/test-report.mjs').TestReport} [report] of its tests
 *
 * @typedef {object} Expected
 * @property {{ name: string, tests: boolean, skips?: boolean }[]} jobs whether each of them runs
 *   tests, and whether a test of it may skip, which is the default
 * @property {{ name: string, job: string, tests: string }[]} tests what runs in a job: a regular
 *   expression for `file > title`
 */

/**
 * @param {Job[]} jobs
 * @param {Expected} expected
 * @param {string[]} files all files of tests
 * @returns {{ passed: number, failed: string[], skipped: number, skips: string[], unsteady:
 *   string[] }}
 */
export function judge(jobs, expected, files) {
  const ended = jobs.filter(({ status }) => status !== undefined)
  const late = jobs.filter(({ late }) => late !== undefined)
  const isLate = (name) => late.some((job) => job.name === name)
  const failures = ended.flatMap(({ name, status, report }) => {
    const { failed } = summarize(report ?? { files: [], unhandled: [] })
    if (status !== 0 && failed.length === 0) failed.push(`it ended with ${status}`)
    return failed.map((line) => `${name}: ${line}`)
  })
  const results = ended.flatMap(({ name: job, report }) =>
    (report?.files ?? []).flatMap(({ file, tests }) =>
      tests.map((test) => ({ job, file, ...test })),
    ),
  )
  const ran = results.filter(({ state }) => state !== 'skipped')
  const skipped = results.filter(({ state }) => state === 'skipped')
  const missing = [
    ...expected.jobs
      .filter(({ name }) => !isLate(name) && ended.every((job) => job.name !== name))
      .map(({ name }) => `the job ${name} did not end`),
    ...expected.jobs
      .filter(({ name, tests }) => tests && ended.some((job) => job.name === name && !job.report))
      .map(({ name }) => `the job ${name} left no report of its tests`),
    ...expected.jobs
      .filter(({ skips = true }) => !skips)
      .flatMap(({ name }) => skipLines(skipped.filter(({ job }) => job === name))),
    ...expected.tests.flatMap(({ name, job, tests }) => {
      if (isLate(job)) return []
      const isPart = (result) =>
        result.job === job && new RegExp(tests).test(`${result.file} > ${result.name}`)
      if (ran.some(isPart)) return []
      const count = skipped.filter(isPart).length
      return count === 0
        ? [`${name}: no test of ${job} matches ${tests}`]
        : [`${name}: ${job} skipped all ${count} tests`]
    }),
    ...files
      .filter((file) => ran.every((result) => result.file !== file))
      .map((file) => `${file}: no job ran a test of this file`),
  ]
  return {
    passed: ran.filter(({ state }) => state === 'passed').length,
    failed: [...failures, ...missing.map((line) => `expected to run: ${line}`)],
    skipped: skipped.length + late.length,
    skips: [
      ...skipLines(skipped),
      ...late.map(({ name, late }) => `all of ${name}, as ${late} min had passed before it`),
    ],
    unsteady: ended.flatMap(({ name, report }) =>
      (report?.unsteady ?? []).map((line) => `${name}: ${line}`),
    ),
  }
}

/** One line for each test, with the jobs that skipped it. */
function skipLines(results) {
  const jobs = new Map()
  for (const { job, file, name, reason } of results) {
    const line = `${file}: ${name}${reason === undefined ? '' : `: ${reason}`}`
    jobs.set(line, [...(jobs.get(line) ?? []), job])
  }
  return [...jobs].map(([line, names]) => `${line} [${names.join(', ')}]`)
}

function readJob(directory, { name }) {
  const read = (file) => readFileSync(path.join(directory, file), 'utf8')
  const exists = (file) => existsSync(path.join(directory, file))
  return {
    name,
    ...(exists(`${name}.status`) && { status: Number(read(`${name}.status`)) }),
    ...(exists(`${name}.late`) && { late: Number(read(`${name}.late`)) }),
    ...(exists(`${name}.json`) && { report: JSON.parse(read(`${name}.json`)) }),
  }
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const expected = JSON.parse(readFileSync(path.join(import.meta.dirname, 'expected.json'), 'utf8'))
  // Tests of templates run in the projects that tests create.
  const patterns = ['*.test.ts', '*.test.mjs', ':!create-handler/templates']
  const files = execFileSync('git', ['ls-files', ...patterns], { encoding: 'utf8' })
  const jobs = expected.jobs.map((job) => readJob(process.env.AKRI_CI, job))
  const all = files.trim().split('\n')
  const { passed, failed, skipped, skips, unsteady } = judge(jobs, expected, all)
  for (const line of skips) process.stdout.write(`skipped: ${line}\n`)
  for (const line of unsteady) process.stdout.write(`failed once: ${line}\n`)
  for (const line of failed) process.stdout.write(`failed: ${line}\n`)
  process.stdout.write(`${passed} passed, ${failed.length} failed, ${skipped} skipped\n`)
  process.exitCode = failed.length > 0 ? 1 : 0
}
