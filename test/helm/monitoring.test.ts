import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { CHART, missingForChart, render } from './chart.js'

const read = (name: string) => readFileSync(path.join(CHART, 'monitoring', name), 'utf8')

describeUnless(missingForChart, 'monitoring by the chart', () => {
  const found = async (prometheus: object, kind: string, name: string) =>
    (await render({ prometheus })).find(
      (object) => object.kind === kind && object.metadata.name === name,
    )

  it('is off by default, and in a release of a chart without the values', async () => {
    for (const prometheus of [{}, { rules: null, dashboard: null }]) {
      expect(await found(prometheus, 'PrometheusRule', 'akri-alerts')).toBeUndefined()
      expect(await found(prometheus, 'ConfigMap', 'akri-dashboard')).toBeUndefined()
    }
  })

  it('has the alerts of the file, with links to the runbooks of the operator', async () => {
    const rules = { enabled: true, runbooks: 'https://wiki.example/akri' }
    const object = await found({ rules }, 'PrometheusRule', 'akri-alerts')
    const text = read('rules.yaml').replaceAll('docs/runbooks.md#', `${rules.runbooks}#`)
    expect(text).toContain('https://wiki.example/akri#akridiskfull')
    expect(object?.spec).toEqual(load(text))
    const standard = await found({ rules: { enabled: true } }, 'PrometheusRule', 'akri-alerts')
    expect(standard?.spec).toEqual(load(read('rules.yaml')))
  })

  it('has the dashboard of the file', async () => {
    const object = await found({ dashboard: { enabled: true } }, 'ConfigMap', 'akri-dashboard')
    expect(object?.metadata.labels).toMatchObject({ grafana_dashboard: '1' })
    const data: Record<string, string> = Reflect.get(object ?? {}, 'data')
    expect(JSON.parse(data['akri.json'] ?? '')).toEqual(JSON.parse(read('dashboard.json')))
  })
})
