// Runs the jobs of jobs.mjs, two at a time for two processors, and prints their summary. The
// directory AKRI_CI has what ci/install put there, and takes the reports of tests.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, readFileSync } from 'node:fs'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { JOBS, MAY_SKIP } from './jobs.mjs'
import { judge } from './summary.mjs'

const AT_A_TIME = 2

const waiting = JOBS.map((job, index) => ({ ...job, index }))
const results = []
const row = async () => {
  for (let job = waiting.shift(); job !== undefined; job = waiting.shift())
    results.push(await run(job))
}
await Promise.all(Array.from({ length: AT_A_TIME }, row))

// Tests of templates run in the projects that tests create.
const patterns = ['*.test.ts', '*.test.mjs', ':!create-handler/templates']
const files = execFileSync('git', ['ls-files', ...patterns], { encoding: 'utf8' })
const { lines, failed } = judge(results, MAY_SKIP, files.trim().split('\n'))
process.stdout.write(`${lines.join('\n')}\n`)
process.exitCode = failed > 0 ? 1 : 0

/** @returns {Promise<import('./summary.mjs').Result>} */
async function run({ name, index, command, cluster, env = {}, tests = true }) {
  const report = path.join(process.env.AKRI_CI, `${name}.json`)
  const began = Date.now()
  const all =
    cluster === undefined
      ? command
      : `ci/cluster ${index} ${cluster.version} ${cluster.nodes} ${command}`
  // A session of its own: the kernel shares the processors among sessions (sched_autogroup), and
  // each program of a cluster has one.
  const child = spawn('bash', ['-c', all], {
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, ...env, AKRI_TEST_REPORT: report },
  })
  for (const input of [child.stdout, child.stderr])
    createInterface({ input }).on('line', (line) => process.stdout.write(`${name}: ${line}\n`))
  const [code] = await once(child, 'close')
  const seconds = Math.round((Date.now() - began) / 1000)
  process.stdout.write(`${name}: ended with ${code} after ${seconds} s\n`)
  const content = existsSync(report) ? JSON.parse(readFileSync(report, 'utf8')) : undefined
  return { name, code, seconds, tests, report: content }
}
