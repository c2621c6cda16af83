import { readFileSync } from 'node:fs'
import path from 'node:path'
import { BugCounter } from '@akrijs/runtime/program'
import type { Registry } from 'prom-client'
import { describe, expect, it } from 'vitest'
import { AgentMetrics } from '../../agent/src/program/metrics.js'
import { ControllerMetrics } from '../../controller/src/metrics.js'
import { ServeMetrics } from '../../sdk/src/metrics.js'
import { WebhookMetrics } from '../../webhook/src/metrics.js'
import { alerts, panels } from './monitoring.js'
import { readQuery, readSamples } from './promql.js'
import { checkMetrics, missingForPromtool } from './promtool.js'

const NONE = { list: () => [] }
const registries: readonly Registry[] = [
  new AgentMetrics('a', { configurations: NONE, instances: NONE, silentForMs: 0 }).registry,
  new ControllerMetrics({
    pods: () => [],
    configurations: () => [],
    leads: () => false,
    apiSilenceMs: () => 0,
  }).registry,
  new WebhookMetrics({
    certificate: () => undefined,
    types: () => ({ source: 'bundled', version: 'v1' }),
  }).registry,
  new ServeMetrics(['udev']).registry,
  new BugCounter({ name: 'akri-agent', version: '0' }).registry,
]

/** The labels of each series, by its name in queries. */
const series = new Map<string, Set<string>>()
for (const metric of registries.flatMap((registry) => registry.getMetricsAsArray())) {
  const { name, type } = metric as typeof metric & { type: unknown }
  const labelNames = 'labelNames' in metric ? (metric.labelNames as readonly string[]) : []
  const isHistogram = String(type) === 'histogram'
  for (const suffix of isHistogram ? ['_bucket', '_sum', '_count'] : ['']) {
    const labels = series.get(name + suffix) ?? new Set(suffix === '_bucket' ? ['le'] : [])
    for (const label of labelNames) labels.add(label)
    series.set(name + suffix, labels)
  }
}
/** The labels of the scraped Pod, which Prometheus adds. */
const OF_TARGET = ['namespace', 'pod']

/** Names that dashboards of the existing system have, though Prometheus has other habits. */
const EXISTING = /^akri_(discovery_response_result|instance_count|broker_pod_count) /

const queries = [
  ...alerts.map(({ alert, expr }) => ({ where: alert, expr })),
  ...panels.flatMap(({ title, targets }) =>
    targets.map(({ expr }, index) => ({ where: `${title} ${index + 1}`, expr })),
  ),
]

describe('the rules and the dashboard', () => {
  it.each(queries)('use metrics and labels that the programs have: $where', ({ expr }) => {
    const { selectors, groupedBy } = readQuery(expr)
    expect(selectors.length).toBeGreaterThan(0)
    for (const { metric, labels } of selectors) {
      const known = series.get(metric) ?? expect.fail(`there is no metric ${metric}`)
      for (const label of [...labels, ...groupedBy])
        expect([...known, ...OF_TARGET], `labels of ${metric}`).toContain(label)
    }
  })

  it('count from 0 on, so that an alert sees the first event', async () => {
    const first = await Promise.all(registries.map((registry) => registry.metrics()))
    const samples = readSamples(first.join('\n'))
    const counted = alerts
      .flatMap(({ expr }) => readQuery(expr).selectors.filter(({ isIncrease }) => isIncrease))
      // Its labels are Configurations: each counts from the first scrape with a broker of it.
      .filter(({ metric }) => metric !== 'akri_broker_restarts_total')
    expect(counted.length).toBeGreaterThan(5)
    for (const { metric, equal } of counted)
      expect(
        samples.filter(
          (sample) =>
            sample.metric === metric &&
            Object.entries(equal).every(([label, value]) => sample.labels[label] === value),
        ),
        metric,
      ).not.toEqual([])
  })

  it('show each metric of the programs in a panel', () => {
    const shown = new Set(
      panels.flatMap(({ targets }) =>
        targets.flatMap(({ expr }) => readQuery(expr).selectors.map(({ metric }) => metric)),
      ),
    )
    const base = (name: string) => name.replace(/_(bucket|sum|count)$/, '')
    const left = new Set([...series.keys()].filter((name) => !shown.has(name)))
    for (const name of left)
      for (const other of shown) if (base(other) === base(name)) left.delete(name)
    expect([...left]).toEqual([])
  })

  it('refer only to labels of the query in texts', () => {
    for (const { alert, expr, annotations } of alerts) {
      const { groupedBy } = readQuery(expr)
      for (const [, label] of Object.values(annotations)
        .join()
        .matchAll(/\$labels\.(\w+)/g))
        expect(groupedBy, alert).toContain(label)
    }
    for (const { title, targets } of panels)
      for (const { expr, legendFormat } of targets) {
        const { groupedBy, selectors } = readQuery(expr)
        for (const [, label = ''] of legendFormat.matchAll(/\{\{(\w+)\}\}/g))
          expect(groupedBy.length > 0 ? groupedBy : OF_TARGET, title).toContain(label)
        expect(selectors).not.toEqual([])
      }
  })

  it('have a section of the runbook for each alert, with its query', () => {
    const page = readFileSync(path.join(import.meta.dirname, '../../docs/runbooks.md'), 'utf8')
    const sections = page.split(/^## /m).filter((section) => section.startsWith('Akri'))
    expect(sections.map((section) => section.split('\n')[0])).toEqual(
      alerts.map(({ alert }) => alert),
    )
    for (const [index, { alert, expr, labels, annotations }] of alerts.entries()) {
      expect(['warning', 'critical']).toContain(labels.severity)
      expect(sections[index]).toContain(`\`\`\`promql\n${expr}\n\`\`\``)
      expect(annotations.runbook_url).toBe(`docs/runbooks.md#${alert.toLowerCase()}`)
    }
  })
})

const unlessPromtool = missingForPromtool === undefined ? '' : ` (${missingForPromtool})`
it.skipIf(missingForPromtool !== undefined)(
  `metrics are read by Prometheus, with names and help as it likes them${unlessPromtool}`,
  async () => {
    for (const registry of registries) {
      const problems = checkMetrics(await registry.metrics())
      expect(problems.filter((line) => !EXISTING.test(line))).toEqual([])
    }
  },
)
