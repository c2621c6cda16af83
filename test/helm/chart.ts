import { execFile, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { cp, mkdtemp, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { dump, load, loadAll } from 'js-yaml'

const run = promisify(execFile)
const root = path.join(import.meta.dirname, '../..')

export const CHART = path.join(root, 'deploy/helm/akri')
/** The reason why the chart cannot be rendered; undefined if it can. */
export const missingForChart =
  spawnSync('helm', ['version']).status === 0 ? undefined : 'needs helm'

export type Values = Readonly<Record<string, unknown>>

/** The parts that all manifests have, as tests read them. */
export interface KubernetesObject {
  readonly apiVersion: string
  readonly kind: string
  readonly metadata: {
    readonly name: string
    readonly namespace?: string
    readonly labels?: Readonly<Record<string, string>>
    readonly annotations?: Readonly<Record<string, string>>
  }
  readonly spec?: unknown
}

/**
 * The objects of the chart with these values.
 * @param options further options of `helm template`
 * @param program the Helm to use
 * @throws with Helm's message if Helm rejects them
 */
export async function render(
  values: Values = {},
  namespace = 'akri',
  options: readonly string[] = [],
  program = 'helm',
): Promise<readonly KubernetesObject[]> {
  const text = await template(program, CHART, values, namespace, ...options)
  return (loadAll(text) as (KubernetesObject | null)[]).filter((object) => object !== null)
}

/**
 * What Helm shows to the person who installs the chart with these values. `helm template` leaves
 * the notes out, so a copy of the chart has them as a template.
 */
export async function notesOf(values: Values, ...options: readonly string[]): Promise<string> {
  const chart = await mkdtemp(path.join(os.tmpdir(), 'akri-chart-'))
  await cp(CHART, chart, { recursive: true })
  const notes = `{{ define "notes" }}${readChart('templates/NOTES.txt')}{{ end }}`
  await writeFile(
    path.join(chart, 'templates/notes.yaml'),
    `${notes}notes: {{ include "notes" . | toJson }}`,
  )
  const only = ['-s', 'templates/notes.yaml']
  const text = await template('helm', chart, values, 'akri', ...only, ...options)
  return (load(text) as { notes: string }).notes
}

async function template(
  program: string,
  chart: string,
  values: Values,
  namespace: string,
  ...more: string[]
): Promise<string> {
  const options = ['-n', namespace, '-f', '-', '--kube-version', '1.34.0', ...more]
  const rendering = run(program, ['template', 'akri', chart, ...options])
  rendering.child.stdin?.end(dump(values))
  return (await rendering).stdout
}

export const readChart = (file: string) => readFileSync(path.join(CHART, file), 'utf8')
export const chartYaml = load(readChart('Chart.yaml')) as Readonly<Record<string, unknown>>
export const customResources = (): KubernetesObject[] =>
  readdirSync(path.join(CHART, 'crds')).map(
    (file) => load(readChart(`crds/${file}`)) as KubernetesObject,
  )
