import { expect, it } from 'vitest'
import { ALERT_CASES } from '../monitoring/alert-cases.js'
import { readRules } from '../monitoring/monitoring.js'
import { missingForPromtool, testRules } from '../monitoring/promtool.js'
import { describeUnless } from '../support/unless.js'
import { missingForChart, render } from './chart.js'

const missing = missingForPromtool ?? missingForChart
const RUNBOOKS = 'https://wiki.example/akri'

describeUnless(missing, 'alerts of the chart, in Prometheus', async () => {
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
    const cases = ALERT_CASES[alert] ?? expect.fail(`${alert} has no cases`)
    expect(annotations).toMatchObject({ description: expect.not.stringContaining('{{') })
    await testRules(
      spec,
      cases.fires.map((situation) => ({
        name: alert,
        ...situation,
        alerts: [
          {
            labels: { ...cases.labels, ...situation.labels, ...labels },
            annotations: { ...annotations, summary: cases.summary, runbook_url: link },
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
})

/** The alerts as an operator of Prometheus gets them. */
async function rulesOfChart(): Promise<unknown> {
  const objects = await render({ prometheus: { rules: { enabled: true, runbooks: RUNBOOKS } } })
  return objects.find(({ kind }) => kind === 'PrometheusRule')?.spec
}
