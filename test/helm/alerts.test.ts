import { describe, expect, it } from 'vitest'
import { ALERT_CASES } from '../monitoring/alert-cases.js'
import { readRules } from '../monitoring/monitoring.js'
import { missingForPromtool, testRules } from '../monitoring/promtool.js'
import { missingForChart, render } from './chart.js'

const missing = missingForPromtool ?? missingForChart
const reason = missing === undefined ? '' : ` (${missing})`
const RUNBOOKS = 'https://wiki.example/akri'

describe.skipIf(missing !== undefined)(`alerts of the chart, in Prometheus${reason}`, async () => {
  const spec = missing === undefined ? await rulesOfChart() : undefined
  const alerts = spec === undefined ? [] : readRules(spec)

  it('have situations in which they fire, and others: each alert, and no other name', () => {
    expect(Object.keys(ALERT_CASES)).toEqual(alerts.map(({ alert }) => alert))
    for (const [alert, { fires, rests }] of Object.entries(ALERT_CASES)) {
      expect(fires, alert).not.toEqual([])
      expect(rests, alert).not.toEqual([])
    }
  })

  it.each(alerts)('fire with labels, texts and the runbook: $alert', async (rule) => {
    const { alert, labels, annotations } = rule
    const link = `${RUNBOOKS}#${alert.toLowerCase()}`
    const fires = ALERT_CASES[alert]?.fires ?? []
    expect(annotations).toMatchObject({ description: expect.not.stringContaining('{{') })
    await testRules(
      spec,
      fires.map((situation) => ({
        name: alert,
        ...situation,
        alerts: [
          {
            labels: { ...situation.labels, ...labels },
            annotations: { ...annotations, summary: situation.summary, runbook_url: link },
          },
        ],
      })),
    )
  })

  it.each(alerts)('rest otherwise: $alert', async ({ alert }) => {
    const rests = ALERT_CASES[alert]?.rests ?? []
    await testRules(
      spec,
      rests.map((situation) => ({ name: alert, ...situation, alerts: [] })),
    )
  })

  it('are compared by these tests, also their texts', async () => {
    const [situation] = ALERT_CASES.AkriDiskFull?.fires ?? []
    const test = { name: 'AkriDiskFull', series: situation?.series ?? {}, at: '10m' }
    await expect(testRules(spec, [{ ...test, alerts: [] }])).rejects.toThrow('AkriDiskFull')
    const alert = { labels: { namespace: 'akri', pod: 'agent-1', severity: 'critical' } }
    const other = { ...alert, annotations: { summary: 'Another text' } }
    await expect(testRules(spec, [{ ...test, alerts: [other] }])).rejects.toThrow('Another text')
  })
})

/** The alerts as an operator of Prometheus gets them. */
async function rulesOfChart(): Promise<unknown> {
  const objects = await render({ prometheus: { rules: { enabled: true, runbooks: RUNBOOKS } } })
  return objects.find(({ kind }) => kind === 'PrometheusRule')?.spec
}
