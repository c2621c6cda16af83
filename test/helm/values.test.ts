import { readFileSync } from 'node:fs'
import path from 'node:path'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { describeUnless } from '../support/unless.js'
import { changesOf } from './changes.js'
import { missingForChart, notesOf, readChart, render, type Values } from './chart.js'
import { HELMS, missingHelm } from './programs.js'
import {
  bothHandlers,
  CONTROLLER,
  containerOf,
  everything,
  nested,
  PROGRAMS,
  programs,
} from './workloads.js'

const version = (kubernetes: string) => ['--kube-version', kubernetes] as const
const BEFORE_POLICIES = version('1.29.9')
/** As for API servers that have admission policies. */
const WITH_POLICIES = [
  version('1.30.0'),
  version('v1.30.0-gke.100'),
  version('1.36.1'),
  [
    ...BEFORE_POLICIES,
    '--api-versions',
    'admissionregistration.k8s.io/v1/ValidatingAdmissionPolicy',
  ],
] as const

type Paths = readonly (readonly [path: string, value: unknown])[]
const custom = { enabled: true, name: 'custom', image: { repository: 'handler' } }
const onNetwork: Paths = [
  ...everything,
  ['agent.hostNetwork', true],
  ['opcua.discovery.hostNetwork', true],
]
const BASES: Readonly<Record<string, Paths>> = {
  nothing: [],
  digest: [['image.digest', `sha256:${'0a'.repeat(32)}`]],
  bothHandlers,
  everything,
  onNetwork,
  all: [...everything, ['custom.discovery', custom]],
}

/** The values of a case, with `each.` for the programs. */
function valuesOf(on: string, values: Values): Paths {
  const places = [...Object.keys(PROGRAMS), ...(on === 'all' ? ['custom.discovery'] : [])]
  return Object.entries(values).flatMap(([path, value]) => {
    if (!path.startsWith('each.')) return [[path, value] as const]
    return places.map((at, index) => {
      const numbered = JSON.stringify(value).replaceAll('#', String(index))
      return [path.replace('each', at), JSON.parse(numbered)] as const
    })
  })
}

/** The paths of the values in a file, each list and each empty map among them. */
function pathsOf(values: Values): string[] {
  const { '<<': merged = {}, ...others } = values
  return Object.entries({ ...Object(merged), ...others }).flatMap(([name, value]) => {
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
    const paths = isMap ? pathsOf(value as Values) : []
    return paths.length > 0 ? paths.map((inner) => `${name}.${inner}`) : [name]
  })
}

describeUnless(missingForChart, 'values of the chart', () => {
  // Versions of Helm use different words.
  it.each<readonly [name: string, values: Values]>([
    ['repository', { image: { repository: '' } }],
    ['AKRI_SLOT_GRAC', { agent: { env: { AKRI_SLOT_GRAC: 5 } } }],
    ['hostNetwork', { agent: { hostNetwork: 'true' } }],
    ['logLevel', { agent: { logLevel: 'trace' } }],
    ['discoveryHandlers', { agent: { host: { discoveryHandlers: 'var/lib' } } }],
    ['memoryLimit', { agent: { resources: { memoryLimit: '320MB' } } }],
    ['hosts', { ui: { hosts: ['https://devices.example.com'] } }],
    ['failurePolicy', { webhookConfiguration: { failurePolicy: 'fail' } }],
    ['permissions', { udev: { configuration: { discoveryDetails: { permissions: 'rwx' } } } }],
    ['mounts', { agent: { handlerAccess: { mounts: ['/x'] } } }],
    ...['a'.repeat(16), 'a--b', '-a', 'a-', '8080', 'A', ''].map(
      (portName): readonly [string, Values] => ['portName', { prometheus: { portName } }],
    ),
    ['restartPolicy', { debugEcho: { configuration: { brokerJob: { restartPolicy: 'Always' } } } }],
  ])('are rejected by name if they are wrong: %s', async (name, values) => {
    const refusal = String(await render(values).catch((error: unknown) => error))
    expect(refusal).toContain("values don't meet the specifications of the schema")
    expect(refusal).toMatch(new RegExp(`^ *- .*\\b${name}\\b`, 'm'))
  })

  it('change what values.golden.txt shows, and no more', async () => {
    const cases = load(readFileSync(path.join(import.meta.dirname, 'values.cases.yaml'), 'utf8'))
    const waiting = Object.entries(cases as Record<string, { on?: string }>).entries()
    const rendered = new Map(
      Object.entries(BASES).map(
        ([on, base]) => [on, render(nested(structuredClone(base)))] as const,
      ),
    )
    const parts: string[] = []
    const worker = async () => {
      for (const [index, [what, { on = 'nothing', ...values }]] of waiting) {
        const before = (await rendered.get(on)) ?? expect.fail(`there is no ${on}`)
        const all = structuredClone([...(BASES[on] ?? []), ...valuesOf(on, values)])
        const lines = await changesOf(before, nested(all))
        parts[index] = [what, ...lines.map((line) => `  ${line}`)].join('\n')
      }
    }
    await Promise.all([worker(), worker(), worker(), worker()])
    await expect(`${parts.join('\n')}\n`).toMatchFileSnapshot('values.golden.txt')
  })

  it('can have keys of their own at the top, such as x-common for YAML anchors', async () => {
    expect(await render({ 'x-common': { tolerations: [] }, 'x-': null })).toEqual(await render())
    await expect(render({ common: {} })).rejects.toThrow('common')
    await expect(render({ agent: { 'x-common': {} } })).rejects.toThrow('x-common')
  })

  it('can have the condition of a chart that has this chart as a part', async () => {
    expect(await render({ enabled: true })).toEqual(await render())
    await expect(render({ enabled: 'yes' })).rejects.toThrow('enabled')
  })

  for (const helm of HELMS) {
    const lacks = missingHelm(helm)
    const needs = lacks === undefined ? '' : ` (${lacks})`
    it.skipIf(lacks !== undefined)(
      `mean their defaults if they are null, by ${helm}${needs}`,
      async () => {
        const image = { repository: 'a' }
        const context = ['custom', ...builtIn.handlers.map(({ name }) => name)].flatMap(
          (name, index) =>
            [
              [`${name}.discovery.enabled`, true],
              [`${name}.configuration.enabled`, true],
              [`${name}.configuration.${index < 2 ? 'brokerJob' : 'brokerPod'}.image`, image],
            ] as const,
        )
        const required = [
          ['custom.discovery.image', image],
          ['custom.discovery.useNetworkConnection', true],
          ['custom.configuration.discoveryHandlerName', 'mine'],
          ['udev.configuration.discoveryDetails', { udevRules: ['KERNEL=="a"'] }],
          ['prometheus', { enabled: true, rules: { enabled: true } }],
        ] as const
        const defaults = load(readChart('values.yaml')) as Values
        const paths = pathsOf(defaults)
        expect(paths).toContain('opcua.configuration.brokerPod.image.tag')
        const unset = paths.map((path) => [path, null] as const)
        const both = [...context, ...required]
        const by = (values: Values) => render(values, 'akri', [], helm)
        expect(await by(nested([...unset, ...both]))).toEqual(await by(nested(both)))
        const parts = Object.keys(defaults).map((name) => [name, null] as const)
        expect(await by(nested(parts))).toEqual(await by({}))
      },
    )
  }

  it('without a default are left out if they are null', async () => {
    const values = (entry: Values, details: Values, networks: Values) =>
      nested([
        ['agent.env', entry],
        ['agent.nodeSelectors', entry],
        ['controller.podAnnotations', entry],
        ['opcua.configuration', { enabled: true, brokerProperties: entry }],
        ['opcua.configuration.discoveryDetails', { ...networks, ...mdns }],
        [
          'udev.configuration',
          { enabled: true, discoveryDetails: { udevRules: ['a'], ...details } },
        ],
      ])
    const mdns = { opcuaDiscoveryMethod: { mdns: {} } }
    const nulls = values(
      { AKRI_SLOT_GRACE: null },
      { permissions: null, groupRecursive: null },
      { allowedNetworks: null, applicationNames: null },
    )
    expect(await render(nulls)).toEqual(await render(values({}, {}, {})))
  })

  it('take any quantity of Kubernetes for memory, and the heap follows from it', async () => {
    const heaps: string[] = []
    for (const limit of ['512M', '0.5Gi', '524288Ki', '512e6', '1.5Gi', '.5Gi', 536_870_912]) {
      const values = nested([['controller.resources.memoryLimit', limit]])
      const { env, resources } = await containerOf(CONTROLLER, values)
      expect(resources.limits).toEqual({ memory: limit })
      heaps.push(/--max-old-space-size=(\d+)$/.exec(env.get('NODE_OPTIONS') ?? '')?.[1] ?? '')
    }
    expect(heaps).toEqual(['390', '409', '409', '390', '1228', '409', '409'])
  })

  it('warn of the other system where neither a webhook nor a policy refuses', async () => {
    const isWarned = async (webhookConfiguration: Values, ...options: readonly string[]) => {
      const values = { compatibility: 'akri-0.13', webhookConfiguration }
      return (await notesOf(values, ...options)).includes('compatibility: akri-0.13')
    }
    const before = (webhook: Values, ...options: readonly string[]) =>
      isWarned(webhook, ...BEFORE_POLICIES, ...options)
    const ignored = { failurePolicy: 'Ignore' }
    expect(await before({})).toBe(false)
    expect(await before({ enabled: false })).toBe(true)
    expect(await before(ignored)).toBe(true)
    expect(await isWarned(ignored)).toBe(false)
    expect(await before(ignored, '--set', 'compatibility=off')).toBe(false)
  })

  it('refuse what stops the other system by a policy where there are policies', async () => {
    const policies = async (compatibility: string, ...options: readonly string[]) =>
      (await render({ compatibility }, 'akri', options))
        .filter(({ kind }) => kind.startsWith('ValidatingAdmissionPolicy'))
        .map(({ kind }) => kind)
        .toSorted()
    const both = ['ValidatingAdmissionPolicy', 'ValidatingAdmissionPolicyBinding']
    for (const options of WITH_POLICIES)
      expect(await policies('akri-0.13', ...options), options.join(' ')).toEqual(both)
    expect(await policies('akri-0.13', ...BEFORE_POLICIES)).toEqual([])
    expect(await policies('off')).toEqual([])
  })

  it('cannot name any variable that the chart sets', async () => {
    const objects = await render(nested(everything))
    const names = [...JSON.stringify(objects).matchAll(/"name":"([A-Z_]{4,})"/g)]
    for (const name of new Set(names.map(([, name = '']) => name)))
      await expect(render({ agent: { env: [{ name }] } })).rejects.toThrow(`agent.env: ${name}: `)
  })

  it('can have one port for two programs that are never on one node', async () => {
    const sites: Paths = programs.map(([at], index) => [`${at}.nodeSelectors`, { site: index }])
    await render(nested([...onNetwork, ['agent.metricsPort', 18_081], ...sites]))
  })

  it('are in the notes if a handler has no DaemonSet, because the agent runs it', async () => {
    expect(await notesOf(nested([...everything, ['agent.full', true]]))).toContain(
      'opcua.discovery.enabled: true: the handler has no DaemonSet, because the agent runs it',
    )
  })

  /** The objects with a text as a value, and with a name of programs and ports. */
  async function objectsWith(value: string, name: string): Promise<string[]> {
    const runbooks = value.replace(' ', '')
    const objects = await render(
      nested([
        ['prometheus', { enabled: true, portName: name, rules: { enabled: true, runbooks } }],
        ['controller.priorityClassName', value],
        ['custom.discovery', { ...custom, name }],
        ['custom.configuration', { enabled: true, discoveryHandlerName: value }],
      ]),
    )
    return objects.map((object) => JSON.stringify(object))
  }
  it.each([
    ...['no', 'on', 'null', '1e3', 'a-1'].map((value) => [value, value, 'text'] as const),
    ...['@acme/sensor', '=on', '*a', '- a', '%a', '123'].map(
      (value) => [value, 'name', 'name'] as const,
    ),
  ])('stay texts where YAML would read something else: %s', async (value, name, plainName) => {
    const plain = await objectsWith('text', plainName)
    expect(plain.join()).toContain('"text"')
    const expected = plain.map((object) =>
      object
        .replaceAll(/"text(-daemonset)?"/g, (_, end = '') => `"${value}${end}"`)
        .replaceAll('"text#', `"${value.replace(' ', '')}#`),
    )
    expect((await objectsWith(value, name)).sort()).toEqual(expected.sort())
  })

  it('leave out disabled programs', async () => {
    const off = { enabled: false }
    expect(await render({ agent: off, controller: off, webhookConfiguration: off })).toEqual([])
  })
})
