import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { readChart } from './chart.js'
import { nested } from './workloads.js'

/** A value of the existing chart, and what it does here. */
export interface ExistingValue {
  readonly default: unknown
  /** @default 'effect' */
  readonly as?: 'effect' | 'replaced' | 'none' | 'warning' | 'refused'
  /** The default of this chart, if the default of the existing chart means that. */
  readonly here?: unknown
  readonly why?: string
}

/** The values of the existing chart by their paths. */
export const existingValues = Object.entries(
  load(readChart('existing-values.yaml')) as Record<string, ExistingValue>,
)

const complete = readFileSync(path.join(import.meta.dirname, 'akri-0.13-values.yaml'), 'utf8')

/** The complete default values file of the existing chart. */
export const existingDefaults = nested(Object.entries(load(complete) as Record<string, unknown>))
