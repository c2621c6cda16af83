import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'

const directory = path.join(import.meta.dirname, '../../deploy/helm/akri/monitoring')

interface Alert {
  readonly alert: string
  readonly expr: string
  readonly labels: { readonly severity: string }
  readonly annotations: Readonly<Record<'summary' | 'description' | 'runbook_url', string>>
}

interface Panel {
  readonly title: string
  readonly targets?: readonly { readonly expr: string; readonly legendFormat: string }[]
}

const read = (name: string) => readFileSync(path.join(directory, name), 'utf8')

/** The rules of a rule file, which is also the spec of a PrometheusRule. */
export const readRules = (file: unknown) =>
  (file as { readonly groups: readonly [{ readonly rules: readonly Alert[] }] }).groups[0].rules

/** The alerts of the chart. */
export const alerts = readRules(load(read('rules.yaml')))

/** The panels of the dashboard. */
export const panels = (
  JSON.parse(read('dashboard.json')) as { readonly panels: readonly Panel[] }
).panels.map(({ title, targets = [] }) => ({ title, targets }))
