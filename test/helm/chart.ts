import { execFile, spawnSync } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
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
  }
  readonly spec?: unknown
}

/** The objects of the chart with these values. @throws with Helm's message if Helm rejects them */
export async function render(
  values: Values = {},
  namespace = 'akri',
): Promise<readonly KubernetesObject[]> {
  const options = ['-n', namespace, '-f', '-', '--kube-version', '1.34.0']
  const rendering = run('helm', ['template', 'akri', CHART, ...options])
  rendering.child.stdin?.end(dump(values))
  const { stdout } = await rendering
  return (loadAll(stdout) as (KubernetesObject | null)[]).filter((object) => object !== null)
}

export const readChart = (file: string) => readFileSync(path.join(CHART, file), 'utf8')
export const chartYaml = load(readChart('Chart.yaml')) as Readonly<Record<string, unknown>>
export const customResources = (): KubernetesObject[] =>
  readdirSync(path.join(CHART, 'crds')).map(
    (file) => load(readChart(`crds/${file}`)) as KubernetesObject,
  )
