import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { z } from 'zod'

const directory = path.join(import.meta.dirname, '../../deploy/helm/akri/monitoring')

const ruleFile = z.strictObject({
  groups: z.tuple([
    z.strictObject({
      name: z.literal('akri'),
      rules: z.array(
        z.strictObject({
          alert: z.string().regex(/^Akri[A-Za-z]+$/),
          expr: z.string(),
          for: z
            .string()
            .regex(/^\d+[mh]$/)
            .optional(),
          labels: z.strictObject({ severity: z.enum(['warning', 'critical']) }),
          annotations: z.strictObject({
            summary: z.string(),
            description: z.string(),
            runbook_url: z.string(),
          }),
        }),
      ),
    }),
  ]),
})

const dashboardFile = z.object({
  panels: z.array(
    z.object({
      id: z.number(),
      type: z.string(),
      title: z.string(),
      targets: z.array(z.object({ expr: z.string(), legendFormat: z.string() })).default([]),
    }),
  ),
})

const read = (name: string) => readFileSync(path.join(directory, name), 'utf8')

/** The rules of a rule file, which is also the spec of a PrometheusRule. */
export const readRules = (file: unknown) => ruleFile.parse(file).groups[0].rules

/** The alerts of the chart. */
export const alerts = readRules(load(read('rules.yaml')))

/** The panels of the dashboard. */
export const { panels } = dashboardFile.parse(JSON.parse(read('dashboard.json')))
