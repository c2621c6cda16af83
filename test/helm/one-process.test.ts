import { readFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, it } from 'vitest'
import { missingForChart, notesOf, render } from './chart.js'
import {
  bothHandlers,
  containerOf,
  everything,
  NETWORK,
  nested,
  ONVIF,
  OPCUA,
  workloads,
} from './workloads.js'

/** A value of the resources of a handler. */
const at = (handler: string, key: string, value: unknown) =>
  [`${handler}.discovery.resources.${key}`, value] as const

const title = `values of the chart${missingForChart === undefined ? '' : ` (${missingForChart})`}`

describe.skipIf(missingForChart !== undefined)(title, () => {
  const handlersOf = async (...values: readonly (readonly [path: string, value: unknown])[]) =>
    Object.keys(await workloads(nested([...bothHandlers, ...values]))).filter((name) =>
      name.includes('-discovery-'),
    )

  it('keep both handlers in one process, with the values that they share', async () => {
    expect(await handlersOf()).toEqual([NETWORK])
    const shared = (field: string, value: unknown) =>
      ['onvif', 'opcua'].map((handler) => [`${handler}.discovery.${field}`, value] as const)
    const toleration = { key: 'camera', operator: 'Exists' }
    const values = [
      ...shared('image', { tag: '2' }),
      ...shared('logLevel', 'debug'),
      ...shared('metricsPort', 19_000),
      ...shared('nodeSelectors', { camera: 'true', site: 'a' }),
      ...shared('tolerations', [toleration]),
      ['opcua.discovery.hostNetwork', true] as const,
    ]
    expect(await handlersOf(...values)).toEqual([NETWORK])
    const { [NETWORK]: pod } = await workloads(nested([...bothHandlers, ...values]))
    expect(pod).toMatchObject({
      hostNetwork: true,
      nodeSelector: { 'kubernetes.io/os': 'linux', camera: 'true', site: 'a' },
      tolerations: [toleration],
      containers: [
        {
          image: 'localhost/akri-agent:2',
          command: expect.arrayContaining(['@akrijs/handler-onvif', '@akrijs/handler-opcua']),
          env: expect.arrayContaining([{ name: 'LOG_LEVEL', value: 'debug' }]),
          ports: [{ containerPort: 19_000 }],
        },
      ],
    })
  })

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

  it.each([
    [{}, {}, ['20m', '96Mi', '256Mi']],
    [{ memoryLimit: '1Gi' }, { memoryLimit: '300Mi' }, ['20m', '96Mi', '1260Mi']],
    [
      { memoryRequest: '0.5Gi', memoryLimit: '1Gi', cpuRequest: 0.25 },
      { cpuRequest: '1.5' },
      ['1750m', '528Mi', '1120Mi'],
    ],
    // Never less than one of the handlers asks for.
    [{ memoryRequest: '20Mi' }, { memoryRequest: '30M' }, ['20m', '29Mi', '256Mi']],
  ])('add the resources of both handlers: %j %j', async (onvif, opcua, [cpu, request, limit]) => {
    const { resources, env } = await containerOf(
      NETWORK,
      nested([
        ...bothHandlers,
        ...Object.entries(onvif).map(([key, value]) => at('onvif', key, value)),
        ...Object.entries(opcua).map(([key, value]) => at('opcua', key, value)),
      ]),
    )
    expect(resources).toEqual({ requests: { cpu, memory: request }, limits: { memory: limit } })
    const heap = Number(/--max-old-space-size=(\d+)$/.exec(env.get('NODE_OPTIONS') ?? '')?.[1])
    expect(heap).toBeLessThanOrEqual(0.8 * Number.parseInt(limit ?? '', 10))
  })

  it.each(['onvif', 'opcua'])('refuse too little memory of %s in one process', async (handler) => {
    await expect(
      render(nested([...bothHandlers, at(handler, 'memoryLimit', '79Mi')])),
    ).rejects.toThrow(`${handler}.discovery.resources.memoryLimit: 79Mi is too little`)
  })
})
