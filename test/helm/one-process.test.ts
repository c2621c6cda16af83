import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { missingForChart, notesOf } from './chart.js'
import { bothHandlers, everything, nested, ONVIF, OPCUA, workloads } from './workloads.js'

describeUnless(missingForChart, 'values of the chart', () => {
  const handlersOf = async (...values: readonly (readonly [path: string, value: unknown])[]) =>
    Object.keys(await workloads(nested([...bothHandlers, ...values]))).filter((name) =>
      name.includes('-discovery-'),
    )

  it.each([
    ['image', { tag: '2' }],
    ['logLevel', 'debug'],
    ['metricsPort', 19_000],
    ['nodeSelectors', { camera: 'true' }],
    ['tolerations', []],
    ['affinity', { podAffinity: {} }],
    ['updateStrategy', { type: 'OnDelete' }],
    ['podAnnotations', { team: 'a' }],
    ['priorityClassName', 'mine'],
    ['resources.cpuLimit', '1'],
    ['hostNetwork', false],
  ])('keep the handlers apart, and name the value in the notes: %s', async (field, value) => {
    const different = [[`opcua.discovery.${field}`, value] as const]
    expect(await handlersOf(...different)).toEqual([ONVIF, OPCUA])
    expect(await notesOf(nested([...bothHandlers, ...different]))).toContain(
      `because these values differ: ${field.replace(/.*\./, '')}.`,
    )
    const page = readFileSync(path.join(import.meta.dirname, '../../docs/helm.md'), 'utf8')
    const [, table = ''] = /\n\| Values of the handlers \|.*\n((?:\|.*\n)+)/.exec(page) ?? []
    expect(table).toMatch(new RegExp(`^\\|.*[\`.]${field}\`.*\\|.*\\|$`, 'm'))
    // Not if a person has chosen that.
    expect(await notesOf(nested([...everything, ...different]))).not.toContain('process')
  })

  it('keep the handlers apart in a release of a chart without the value', async () => {
    // As `helm upgrade --reuse-values` does.
    expect(await handlersOf(['discovery', null])).toEqual([ONVIF, OPCUA])
    const others = ['custom', 'prometheus', 'rbac', 'cleanupHook'].map(
      (key) => [key, null] as const,
    )
    expect(await handlersOf(['discovery', null], ...others)).toEqual([ONVIF, OPCUA])
  })
})
