import { execFile, spawnSync } from 'node:child_process'
import { mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'

const run = promisify(execFile)

/** The reason why the tests with promtool cannot run; undefined if they can. */
export const missingForPromtool =
  spawnSync('promtool', ['--version']).status === 0 ? undefined : 'needs promtool'

/** An alert as Prometheus sends it. */
export interface FiringAlert {
  readonly labels: Readonly<Record<string, string>>
  readonly annotations: Readonly<Record<string, string>>
}

/** Series from minute 0 on, and the alerts of a name at a later time. */
export interface AlertTest {
  readonly name: string
  /** Values of each series, a value a minute, in the notation of promtool. */
  readonly series: Readonly<Record<string, string>>
  /** Such as `10m`. */
  readonly at: string
  readonly alerts: readonly FiringAlert[]
}

/**
 * Lets Prometheus evaluate the rules.
 * @param rules the groups of a rule file
 * @throws Error with the report of promtool if other alerts fire
 */
export async function testRules(rules: unknown, tests: readonly AlertTest[]): Promise<void> {
  const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-rules-'))
  // Each JSON is YAML.
  await writeFile(path.join(directory, 'rules.yaml'), JSON.stringify(rules))
  const file = path.join(directory, 'tests.yaml')
  await writeFile(file, JSON.stringify({ rule_files: ['rules.yaml'], tests: tests.map(testOf) }))
  await run('promtool', ['test', 'rules', file])
}

const testOf = ({ name, series, at, alerts }: AlertTest) => ({
  interval: '1m',
  input_series: Object.entries(series).map(([key, values]) => ({ series: key, values })),
  alert_rule_test: [
    {
      eval_time: at,
      alertname: name,
      exp_alerts: alerts.map(({ labels, annotations }) => ({
        exp_labels: labels,
        exp_annotations: annotations,
      })),
    },
  ],
})

/** What promtool finds in an answer of `/metrics`: nothing if Prometheus reads it and likes it. */
export function checkMetrics(metrics: string): readonly string[] {
  const { stdout, stderr } = spawnSync('promtool', ['check', 'metrics'], {
    input: metrics,
    encoding: 'utf8',
  })
  return `${stdout}${stderr}`.split('\n').filter((line) => line !== '')
}
