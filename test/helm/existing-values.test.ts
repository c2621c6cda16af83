import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import {
  type KubernetesObject,
  missingForChart,
  notesOf,
  readChart,
  render,
  type Values,
} from './chart.js'
import { type ExistingValue, existingDefaults, existingValues } from './existing-defaults.js'
import { HELMS, missingHelm } from './programs.js'
import { nested } from './workloads.js'

// The values of the existing chart, each of them: those of its complete default values file, and
// those of the commands in its documentation.

const rows = existingValues
const rowsAs = (as: ExistingValue['as']) => rows.filter(([, row]) => row.as === as)
const chartDefaults = load(readChart('values.yaml')) as Values

/** A field, which can come from a merged mapping. */
const fieldOf = (at: unknown, key: string): unknown =>
  Reflect.get(Object(at), key) ?? Reflect.get(Object(Reflect.get(Object(at), '<<')), key)

/** By name: Helm chooses the order. */
function byName(objects: readonly KubernetesObject[]): Readonly<Record<string, KubernetesObject>> {
  return Object.fromEntries(
    objects.map((object) => [`${object.kind} ${object.metadata.name}`, object]),
  )
}
const objectsOf = async (values: Values) => byName(await render(values))

const defaultOf = (path: string) => rows.find(([name]) => name === path)?.[1].default

/** The lines of the notes about values. */
async function warningsOf(values: Values): Promise<string[]> {
  const notes = await notesOf(values)
  const [, lines = ''] =
    /^These values have no effect, or need your attention:\n((?: {2}.*\n?)*)/m.exec(notes) ?? []
  return lines
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line !== '')
}

/** Everything is on, with brokers of this kind: here each value can have its effect. */
function context(broker: 'brokerPod' | 'brokerJob'): readonly (readonly [string, unknown])[] {
  const handlers = ['custom', 'debugEcho', 'onvif', 'opcua', 'udev'].flatMap(
    (name) =>
      [
        [`${name}.discovery.enabled`, true],
        [`${name}.configuration.enabled`, true],
        [`${name}.configuration.${broker}.image.repository`, 'broker'],
      ] as const,
  )
  return [
    ...handlers,
    ['agent.allowDebugEcho', true],
    ['custom.discovery.image.repository', 'handler'],
    ['custom.discovery.useNetworkConnection', true],
    ['custom.configuration.discoveryHandlerName', 'mine'],
    ['udev.configuration.discoveryDetails.udevRules', ['KERNEL=="a"']],
    ['discovery.oneProcess', false],
    ['prometheus.enabled', true],
  ]
}

/** Another value than the default, and the text by which the objects show it, if there is one. */
function sample(path: string, index: number): readonly [value: unknown, shown?: string] {
  const text = `x${index}`
  const number = 2000 + index
  const named = (value: unknown) => [value, text] as const
  const counted = [number, String(number)] as const
  const patterns: readonly (readonly [RegExp, readonly [value: unknown, shown?: string]])[] = [
    [/\.(memoryRequest|memoryLimit)$/, [`${number}Mi`, `${number}Mi`]],
    [/\.(cpuRequest|cpuLimit)$/, [`${number}m`, `${number}m`]],
    [/pullPolicy$/, ['Never']],
    [/restartPolicy$/, ['Never']],
    [/ervice\.type$/, ['NodePort']],
    [/\.protocol$/, ['UDP']],
    [/\.action$/, ['Include']],
    [/permissions$/, ['r']],
    [/imagePullSecrets$/, named([{ name: text }])],
    [/securityContext$/, [{ runAsUser: number }, String(number)]],
    [/(nodeSelectors|brokerProperties)$/, named({ [text]: 'a' })],
    [/discoveryProperties$/, named([{ name: 'A', value: text }])],
    [/discoveryTimeoutSeconds$/, [37, '37']],
    [/(items|descriptions|udevRules|discoveryUrls|command)$/, named([text])],
    [/\.host\.\w+$/, named(`/${text}`)],
    [/(capacity|backoffLimit|parallelism|completions|[pP]ort)$/, counted],
    [/(name|Name|repository|Repository|tag|discoveryDetails)$/, named(text)],
    [/allowOnControlPlane$/, [true]],
    [/(enabled|Services?|full|shared|Recursive|Certificates|Plane|Connection|Echo)$/, [undefined]],
  ]
  const found = patterns.find(([pattern]) => pattern.test(path))
  return found?.[1] ?? expect.fail(`there is no other value for ${path}`)
}

describeUnless(missingForChart, "the existing chart's values", () => {
  it('install this chart with their complete default values file', async () => {
    const [objects, wanted] = await Promise.all([
      render(existingDefaults),
      // What these defaults choose: the others mean the defaults of this chart.
      render({
        agent: { allowDebugEcho: false, tolerations: [] },
        controller: {
          allowOnControlPlane: true,
          tolerations: [],
          securityContext: { runAsUser: 1000, runAsNonRoot: true },
        },
        webhookConfiguration: { allowOnControlPlane: true },
      }),
    ])
    expect(byName(objects)).toEqual(byName(wanted))
    expect(await warningsOf(existingDefaults)).toEqual([])
  })

  it('are known with the defaults by which this chart replaces them', () => {
    for (const [path, { here }] of rowsAs('replaced')) {
      const ours = path.split('.').reduce((at: unknown, key) => fieldOf(at, key), chartDefaults)
      expect(ours ?? null, path).toBe(here === '' ? null : here)
    }
  })

  it('change nothing where they have no effect, and are no reason for a warning', async () => {
    const values = rowsAs('none').map(([path]) => [path, 'anything'] as const)
    const all = [...context('brokerPod'), ...values]
    expect(await objectsOf(nested(all))).toEqual(await objectsOf(nested(context('brokerPod'))))
    expect(await warningsOf(nested(all))).toEqual(await warningsOf(nested(context('brokerPod'))))
  })

  it('change nothing where the notes warn of them, each in one line', async () => {
    const expected = rowsAs('warning').map(
      ([path, { why }]) => [path, `${path}: "anything": ${why}`] as const,
    )
    const values = expected.map(([path]) => [path, 'anything'] as const)
    const all = [...context('brokerPod'), ...values]
    expect(await objectsOf(nested(all))).toEqual(await objectsOf(nested(context('brokerPod'))))
    const others = await warningsOf(nested(context('brokerPod')))
    const lines = await warningsOf(nested(all))
    expect(lines.filter((line) => !others.includes(line)).sort()).toEqual(
      expected.map(([, line]) => line).sort(),
    )
  })

  it.each<readonly [warning: RegExp, values: readonly (readonly [string, unknown])[]]>([
    [
      /^custom\.discovery\.enabled: true: .* agent\.handlerAccess$/,
      [['custom.discovery', { enabled: true, name: 'mine', image: { repository: 'a' } }]],
    ],
    [
      /^controller\.image\.tag: this is an image of the existing/,
      [['controller.image.tag', 'v0.13.8']],
    ],
    [/^agent\.image\.tag: this is an image of the existing/, [['agent.image.tag', 'v0.12.20']]],
  ])('are in the notes if they need attention: %s', async (warning, values) => {
    expect(await warningsOf(nested(values))).toEqual([expect.stringMatching(warning)])
  })

  it('are refused all at once, each with its reason', async () => {
    const refused = rowsAs('refused').map(
      ([path, { why }]) => [path, `${path}: "anything": ${why}`] as const,
    )
    const values = [
      ...refused.map(([path]) => [path, 'anything'] as const),
      ['agent.resources.memoryLimit', '70Mi'],
      ['controller.resources.cpuLimit', '30m'],
      ['webhookConfiguration.resources.memoryRequest', '0.3Gi'],
      ['controller.resources.cpuRequest', 2],
      ['custom.discovery.resources', { memoryRequest: '2Gi', memoryLimit: '2000M' }],
      ['udev.configuration.enabled', true],
      ['custom.configuration.enabled', true],
      ['custom.discovery.enabled', true],
      ['webhookConfiguration.networkPolicy.enabled', true],
    ] as const
    const refusal = String(await render(nested(values)).catch((error: unknown) => error))
    for (const line of [
      ...refused.map(([, line]) => line),
      'agent.resources.memoryLimit: 70Mi is too little: Node.js needs 160Mi at least',
      'controller.resources.cpuLimit: 30m is too little: the program would start too late',
      'webhookConfiguration.resources.memoryRequest: 0.3Gi is more than memoryLimit: 288Mi',
      'controller.resources.cpuRequest: 2 is more than cpuLimit: 30m',
      'custom.discovery.resources.memoryRequest: 2Gi is more than memoryLimit: 2000M',
      'udev.configuration.discoveryDetails.udevRules: name at least one rule',
      'custom.configuration.discoveryHandlerName: name the handler',
      'custom.discovery.image.repository: name the image',
      'webhookConfiguration.networkPolicy.apiServers: write the networks',
    ])
      expect(refusal).toContain(`\n${line}`)
  })

  it.each(['brokerPod', 'brokerJob'] as const)('have their effect with a %s', async (broker) => {
    const other = broker === 'brokerPod' ? /\.(brokerJob|mountCert)/ : /\.brokerPod/
    const effective = rows
      .map(([path, row], index) => ({ path, row, index }))
      .filter(({ row }) => (row.as ?? 'effect') === 'effect' || row.as === 'replaced')
      .filter(({ path }) => !other.test(path))
      // Services and their ports are for brokers of Pods, as there.
      .filter(({ path }) => broker === 'brokerPod' || /\.brokerJob\./.test(path))
      .map(({ path, index }) => ({ path, sample: sample(path, index) }))
    const together = effective.filter(({ sample: [, shown] }) => shown !== undefined)
    const apart = effective.filter(({ sample: [, shown] }) => shown === undefined)
    const full = [['agent.full', true]] as const
    const values = together.map(({ path, sample: [value] }) => [path, value] as const)
    const [plain, shown, ofFull] = await Promise.all([
      render(nested(context(broker))),
      render(nested([...context(broker), ...values])),
      render(nested([...context(broker), ...values, ...full])),
    ])
    const [before, text, textOfFull] = [plain, shown, ofFull].map((objects) =>
      JSON.stringify(objects),
    ) as [string, string, string]
    for (const {
      path,
      sample: [, token = ''],
    } of together) {
      const pattern = new RegExp(`(^|[^0-9A-Za-z])${token}([^0-9A-Za-z]|$)`)
      expect(before, path).not.toMatch(pattern)
      expect(path.endsWith('fullRepository') ? textOfFull : text, path).toMatch(pattern)
    }
    const isOn = new Map(context(broker))
    // Without its DaemonSet, debugEcho is in the agent.
    const embedded = [...context(broker), ['debugEcho.discovery.enabled', false]] as const
    const withoutEcho = JSON.stringify(await render(nested(embedded)))
    const check = async (path: string, value: unknown) => {
      const ofAgent = path === 'agent.allowDebugEcho'
      const other = value ?? !(isOn.get(path) ?? defaultOf(path))
      const values = nested([...(ofAgent ? embedded : context(broker)), [path, other]])
      const now = JSON.stringify(await render(values))
      expect(now, path).not.toBe(ofAgent ? withoutEcho : before)
    }
    const left = apart.values()
    const worker = async () => {
      for (const {
        path,
        sample: [value],
      } of left)
        await check(path, value)
    }
    await Promise.all([worker(), worker(), worker(), worker()])
  })

  it('are the same for Helm 3 and for Helm 4', async ({ skip }) => {
    const lacks = HELMS.map(missingHelm).find((reason) => reason !== undefined)
    skip(lacks !== undefined, lacks)
    const [third = [], fourth = []] = await Promise.all(
      HELMS.map((helm) => render(existingDefaults, 'akri', [], helm)),
    )
    expect(third).not.toEqual([])
    expect(byName(third)).toEqual(byName(fourth))
  })

  it('leave the webhook out of a release of Configurations alone', async () => {
    const set = (...values: readonly string[]) => values.flatMap((value) => ['--set', value])
    const kinds = async (...values: readonly string[]) =>
      (await render({}, 'akri', set(...values))).map(({ kind }) => kind)
    const apart = ['controller', 'agent', 'rbac'].map((name) => `${name}.enabled=false`)
    expect(await kinds(...apart, 'onvif.configuration.enabled=true')).toEqual(['Configuration'])
    const withAgent = await kinds('rbac.enabled=false')
    expect(withAgent).toContain('ServiceAccount')
    expect(withAgent.filter((kind) => /Role/.test(kind))).toEqual([])
    expect(await warningsOf({ rbac: { enabled: false } })).toEqual([
      expect.stringMatching(/^rbac\.enabled: false: /),
    ])
  })

  it('mean /run/udev by an empty text, which mounts nothing in the existing chart', async () => {
    const host = { udev: '' }
    const values = { agent: { host }, udev: { discovery: { enabled: true, host } } }
    const on = { udev: { discovery: { enabled: true } } }
    expect(await objectsOf(values)).toEqual(await objectsOf(on))
  })

  it.each([
    ['tolerations that are an empty map', { agent: { tolerations: {} } }],
    ['tolerations without a value', { controller: { tolerations: null } }],
    ['lists without a value', { imagePullSecrets: null, agent: { handlers: null } }],
    ['images without a value', { agent: { image: null }, udev: { discovery: { image: {} } } }],
    ['resources without a value', { controller: { resources: null } }],
    [
      'brokers without a value',
      { debugEcho: { configuration: { enabled: true, brokerPod: null, brokerJob: {} } } },
    ],
    [
      'parts of a property',
      {
        onvif: {
          configuration: {
            enabled: true,
            discoveryProperties: [
              { name: 'a', valueFrom: { secretKeyRef: null, configMapKeyRef: null } },
              { name: 'b', value: null, valueFrom: null },
            ],
          },
        },
      },
    ],
    [
      'a filter of numbers',
      {
        onvif: { configuration: { enabled: true, discoveryDetails: { uuids: { items: [7] } } } },
      },
    ],
  ])('can be unset: %s', async (_what, values) => {
    expect((await render(values)).length).toBeGreaterThan(0)
    expect(await warningsOf(values)).toEqual([])
  })
})
