import { commanderOptions } from '@akrijs/runtime/program'
import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { agentOptions } from '../../agent/src/program/agent-options.js'
import { controllerOptions } from '../../controller/src/program/controller-options.js'
import { onvifDetails } from '../../handlers/onvif/src/details.js'
import { opcuaDetails } from '../../handlers/opcua/src/details.js'
import { udevDetails } from '../../handlers/udev/src/details.js'
import { webhookOptions } from '../../webhook/src/program/webhook-options.js'
import { type KubernetesObject, missingForChart, readChart, render, type Values } from './chart.js'

interface Schema {
  readonly properties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
  readonly $ref?: string
  readonly definitions?: Readonly<Record<string, Schema>>
}

interface Workload extends KubernetesObject {
  readonly spec: {
    readonly template: {
      readonly spec: {
        readonly nodeSelector: object
        readonly tolerations?: readonly object[]
        readonly imagePullSecrets?: readonly object[]
        readonly volumes?: readonly {
          readonly name: string
          readonly hostPath: { readonly path: string }
        }[]
        readonly containers: readonly {
          readonly image: string
          readonly imagePullPolicy: string
          readonly ports: readonly { readonly name: string; readonly containerPort: number }[]
          readonly env: readonly { readonly name: string; readonly value?: string }[]
          readonly resources: { readonly limits: { readonly memory: string } }
        }[]
      }
    }
  }
}

const schema = JSON.parse(readChart('values.schema.json')) as Schema
const notOffered = load(readChart('not-offered.yaml')) as Readonly<
  Record<string, { accept: readonly unknown[]; why: string }>
>

const schemaAt = (...keys: string[]) =>
  keys.reduce((at: Schema | undefined, key) => at?.properties?.[key], schema) ??
  expect.fail(`there is no ${keys.join('.')}`)
const keysOf = ({ properties = {} }: Schema) => Object.keys(properties).sort()
const isWorkload = (object: KubernetesObject): object is Workload =>
  /^(DaemonSet|Deployment)$/.test(object.kind)

/** `{ a: { b: value } }` for `a.b`, for several paths. */
function nested(values: Iterable<readonly [path: string, value: unknown]>): Values {
  const root = {}
  for (const [path, value] of values) {
    const keys = path.split('.')
    const last = keys.pop() ?? ''
    const at = keys.reduce<object>((inner, key) => {
      if (!Reflect.has(inner, key)) Reflect.set(inner, key, {})
      return Reflect.get(inner, key)
    }, root)
    Reflect.set(at, last, value)
  }
  return root
}

/** The parts that values set, by the names of the workloads. */
async function workloads(
  values: Values,
): Promise<Readonly<Record<string, Workload['spec']['template']['spec']>>> {
  const found = (await render(values)).filter(isWorkload)
  return Object.fromEntries(found.map(({ metadata, spec }) => [metadata.name, spec.template.spec]))
}

const AGENT = 'akri-agent-daemonset'
const CONTROLLER = 'akri-controller-deployment'
const WEBHOOK = 'akri-webhook-configuration'
const ONVIF = 'akri-onvif-discovery-daemonset'
const OPCUA = 'akri-opcua-discovery-daemonset'
/** The programs by the names of their values. */
const PROGRAMS = {
  agent: AGENT,
  controller: CONTROLLER,
  webhookConfiguration: WEBHOOK,
  'onvif.discovery': ONVIF,
  'opcua.discovery': OPCUA,
} as const
const programs = Object.entries(PROGRAMS)
const everything = [
  ['onvif.discovery.enabled', true],
  ['opcua.discovery.enabled', true],
] as const

const title = `values of the chart${missingForChart === undefined ? '' : ` (${missingForChart})`}`

describe.skipIf(missingForChart !== undefined)(title, () => {
  const containerOf = async (name: string, values: Values) => {
    const [container = expect.fail(`${name} is not there`)] =
      (await workloads(values))[name]?.containers ?? []
    return { ...container, env: new Map(container.env.map((item) => [item.name, item.value])) }
  }

  // Versions of Helm use different words.
  it.each([
    ['repository', { image: { repository: '' } }],
    ['repository', { image: { repository: null } }],
    ['ful', { agent: { ful: true } }],
    ['agents', { agents: {} }],
    ['AKRI_SLOT_GRAC', { agent: { env: { AKRI_SLOT_GRAC: 5 } } }],
    ['METRICS_PORT', { agent: { env: { METRICS_PORT: 5 } } }],
    ['hostNetwork', { agent: { hostNetwork: 'true' } }],
    ['camera', { agent: { nodeSelectors: { camera: true } } }],
    ['tag', { agent: { image: { tag: 1.0 } } }],
    ['logLevel', { agent: { logLevel: 'trace' } }],
    ['metricsPort', { agent: { metricsPort: 70_000 } }],
    ['discoveryHandlers', { agent: { host: { discoveryHandlers: 'var/lib' } } }],
    ['memoryLimit', { agent: { resources: { memoryLimit: '320M' } } }],
    ['oprator', { agent: { tolerations: [{ oprator: 'Exists' }] } }],
    ['replicas', { controller: { replicas: 1 } }],
    ['failurePolicy', { webhookConfiguration: { failurePolicy: 'fail' } }],
    ['enabled', { udev: { discovery: { enabled: 'yes' } } }],
    ['udevRules', { udev: { configuration: { udevRules: [] } } }],
    ['permissions', { udev: { configuration: { discoveryDetails: { permissions: 'rwx' } } } }],
    ['scope', { onvif: { configuration: { discoveryDetails: { scope: {} } } } }],
    ['capacity', { opcua: { configuration: { capacity: 1.5 } } }],
    ['brokerPod', { debugEcho: { configuration: { brokerPod: null } } }],
    ['restartPolicy', { debugEcho: { configuration: { brokerJob: { restartPolicy: 'Always' } } } }],
  ])('are rejected by name if they are wrong: %s', async (name, values) => {
    const refusal = String(await render(values).catch((error: unknown) => error))
    expect(refusal).toContain("values don't meet the specifications of the schema")
    expect(refusal).toMatch(new RegExp(`^- .*\\b${name}\\b`, 'm'))
  })

  it('of the existing chart without an equal are rejected with an alternative', async () => {
    const paths = Object.keys(notOffered)
    const values = nested(
      paths.map((path) => [
        path,
        path.endsWith('.enabled') ? path.startsWith('rbac') === false : 'anything',
      ]),
    )
    const refusal = String(await render(values).catch((error: unknown) => error))
    const lines = refusal.split('\n').filter((line) => line.includes(' is not offered: '))
    const wanted = Object.entries(notOffered).map(([path, { why }]) => [path, why])
    expect(
      lines.map((line) => [line.split(':', 1)[0], line.split(' is not offered: ', 2)[1]]).sort(),
    ).toEqual(wanted.sort())
  })

  it('of the existing chart that change nothing are accepted', async () => {
    const accepted = Object.entries(notOffered).map(
      ([path, { accept }]) => [path, accept[0] ?? null] as const,
    )
    const others = [
      ['onvif.discovery.port', 10_000],
      ['udev.discovery.port', 10_000],
      ['agent.host.udev', null],
      ['agent.image.tag', null],
      ['agent.image.pullPolicy', ''],
      ['agent.nodeSelectors', null],
      ['udev.configuration.instanceService.name', 'akri-udev-instance-service'],
    ] as const
    expect(await workloads(nested([...accepted, ...others]))).toEqual(await workloads({}))
  })

  it('with images of the existing system are rejected', async () => {
    const values = { agent: { image: { repository: 'ghcr.io/project-akri/akri/agent' } } }
    await expect(render(values)).rejects.toThrow(
      'ghcr.io/project-akri/akri/agent is an image of the existing system',
    )
  })

  it('set the image of all programs, and of each program', async () => {
    const image = { repository: 'registry.example:5000/akri', tag: '1.2', pullPolicy: 'Always' }
    const common = nested([
      ...everything,
      ['image', image],
      ['imagePullSecrets', [{ name: 'registry' }]],
    ])
    for (const pod of Object.values(await workloads(common))) {
      expect(pod.containers).toMatchObject([
        { image: 'registry.example:5000/akri:1.2', imagePullPolicy: 'Always' },
      ])
      expect(pod.imagePullSecrets).toEqual([{ name: 'registry' }])
    }
    for (const [at, name] of programs) {
      const { image, imagePullPolicy } = await containerOf(
        name,
        nested([...everything, [`${at}.image`, { tag: 'x', pullPolicy: 'Never' }]]),
      )
      expect([image, imagePullPolicy]).toEqual(['localhost/akri-agent:x', 'Never'])
    }
  })

  it('select the nodes of each program', async () => {
    const toleration = {
      key: 'camera',
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: 1_000_000,
    }
    for (const [at, name] of programs) {
      const chosen = { nodeSelectors: { camera: 'true' }, tolerations: [toleration] }
      const values = nested([
        ...everything,
        ...Object.entries(chosen).map(([key, value]) => [`${at}.${key}`, value] as const),
      ])
      expect((await workloads(values))[name]).toMatchObject({
        nodeSelector: { 'kubernetes.io/os': 'linux', camera: 'true' },
        tolerations: [toleration],
      })
    }
  })

  it.each(programs)(
    'set the memory of %s, and leave at least a fifth of it outside of the heap',
    async (at, name) => {
      const heaps: number[] = []
      for (const memoryLimit of ['192Mi', '400Mi', '2Gi']) {
        const { env, resources } = await containerOf(
          name,
          nested([...everything, [`${at}.resources.memoryLimit`, memoryLimit]]),
        )
        expect(resources.limits).toEqual({ memory: memoryLimit })
        heaps.push(Number(/--max-old-space-size=(\d+)$/.exec(env.get('NODE_OPTIONS') ?? '')?.[1]))
      }
      const limits = [192, 400, 2048]
      for (const [index, limit] of limits.entries())
        expect((heaps[index] ?? 0) / limit).toBeLessThanOrEqual(0.8)
      expect(heaps).toEqual(heaps.toSorted((a, b) => a - b))
      // The limit of the existing chart.
      await expect(
        render(nested([...everything, [`${at}.resources.memoryLimit`, '79Mi']])),
      ).rejects.toThrow(`${at}.resources.memoryLimit: 79Mi is too little: Node.js needs`)
    },
  )

  it('set options by their variables, as texts', async () => {
    const { env } = await containerOf(AGENT, {
      agent: { env: { AKRI_SLOT_GRACE: 1_000_000, AKRI_ISOLATED: 'on' }, logLevel: 'debug' },
    })
    expect(Object.fromEntries(env)).toMatchObject({
      AKRI_SLOT_GRACE: '1000000',
      AKRI_ISOLATED: 'on',
      LOG_LEVEL: 'debug',
    })
    const values = {
      webhookConfiguration: { env: { AKRI_DRAIN: 0 } },
      controller: { env: { AKRI_NODE_GRACE: 60 } },
    }
    expect((await containerOf(WEBHOOK, values)).env.get('AKRI_DRAIN')).toBe('0')
    expect((await containerOf(CONTROLLER, values)).env.get('AKRI_NODE_GRACE')).toBe('60')
  })

  it('set the port of probes and metrics', async () => {
    for (const [at, name] of [
      ['agent', AGENT],
      ['onvif.discovery', ONVIF],
      ['opcua.discovery', OPCUA],
    ] as const) {
      const { env, ports } = await containerOf(
        name,
        nested([...everything, [`${at}.metricsPort`, 19_000]]),
      )
      expect([env.get('METRICS_PORT'), ports]).toEqual([
        '19000',
        [{ name: 'metrics', containerPort: 19_000 }],
      ])
    }
  })

  it('set the handlers that the agent loads, and the webhook checks the same ones', async () => {
    const loaded = async (values: Values) =>
      (await containerOf(AGENT, values)).env.get('AKRI_HANDLERS')
    const [udev, debugEcho] = ['@akrijs/handler-udev', '@akrijs/handler-debug-echo']
    const off = { discovery: { enabled: false } }
    expect(await loaded({})).toBe(`${udev},${debugEcho}`)
    expect(await loaded({ agent: { allowDebugEcho: false } })).toBe(udev)
    expect(await loaded({ udev: off })).toBe(debugEcho)
    expect(await loaded({ udev: off, debugEcho: off })).toBe('')
    const mine = '/opt/handlers/node_modules/mine'
    expect(await loaded({ agent: { handlers: [mine], full: true } })).toBe(
      `${udev},@akrijs/handler-onvif,@akrijs/handler-opcua,${debugEcho},${mine}`,
    )
    const { env } = await containerOf(WEBHOOK, { agent: { handlers: [mine] } })
    expect(env.get('AKRI_HANDLERS')?.split(',')).toContain(mine)
    const shared = async (values: Values) =>
      (await containerOf(AGENT, values)).env.get('DEBUG_ECHO_INSTANCES_SHARED')
    expect(await shared({})).toBeUndefined()
    expect(await shared({ debugEcho: { configuration: { shared: false } } })).toBe('false')
  })

  it('set what handlers may give to containers', async () => {
    const handlerAccess = {
      mounts: ['a=/x:rw', 'b=/y'],
      devices: ['a=/dev/tty*'],
      environment: [],
      addresses: ['10.1.0.0/16'],
    }
    const { env } = await containerOf(AGENT, { agent: { handlerAccess } })
    expect(env.get('AKRI_HANDLER_MOUNTS')).toBe('a=/x:rw,b=/y')
    expect(env.get('AKRI_HANDLER_DEVICES')).toBe('a=/dev/tty*')
    expect(env.has('AKRI_HANDLER_ENVIRONMENT')).toBe(false)
    expect(env.get('AKRI_HANDLER_ADDRESSES')).toBe('10.1.0.0/16')
    await expect(render({ agent: { handlerAccess: { mounts: ['/x'] } } })).rejects.toThrow(/mounts/)
  })

  it('set directories of the node, for the agent and for handlers', async () => {
    const host = {
      discoveryHandlers: '/srv/akri: #1',
      kubeletDevicePlugins: '/var/lib/k0s/kubelet/device-plugins',
      kubeletPodResources: '/var/lib/k0s/kubelet/pod-resources',
      udev: '/run/other',
    }
    const pods = await workloads(nested([...everything, ['agent.host', host]]))
    const paths = (name: string) =>
      Object.fromEntries(pods[name]?.volumes?.map((item) => [item.name, item.hostPath.path]) ?? [])
    expect(paths(AGENT)).toEqual({
      handlers: host.discoveryHandlers,
      // Containers mount directories below it, by this name.
      state: '/var/lib/akri-agent',
      'device-plugins': host.kubeletDevicePlugins,
      'pod-resources': host.kubeletPodResources,
      udev: host.udev,
    })
    for (const handler of [ONVIF, OPCUA])
      expect(paths(handler)).toEqual({ handlers: host.discoveryHandlers })
  })

  it('admit only the API servers to the webhook, if they name them', async () => {
    const policies = async (networkPolicy: Values) =>
      (await render({ webhookConfiguration: { networkPolicy } })).filter(
        ({ kind }) => kind === 'NetworkPolicy',
      )
    const from = [{ podSelector: { matchLabels: { 'k8s-app': 'konnectivity-agent' } } }]
    const ports = (port: string) => [{ port }]
    expect(await policies({ enabled: true, apiServers: ['10.0.0.0/24'], from })).toMatchObject([
      {
        spec: {
          podSelector: { matchLabels: { 'app.kubernetes.io/name': 'akri-webhook' } },
          ingress: [
            { ports: ports('https'), from: [{ ipBlock: { cidr: '10.0.0.0/24' } }, ...from] },
            { ports: ports('metrics') },
          ],
        },
      },
    ])
    expect(await policies({ enabled: false, apiServers: ['10.0.0.0/24'] })).toEqual([])
    await expect(policies({ enabled: true })).rejects.toThrow(/networkPolicy.apiServers: write/)
  })

  it('leave out disabled programs', async () => {
    const off = { enabled: false }
    expect(await render({ agent: off, controller: off, webhookConfiguration: off })).toEqual([])
  })
})

describe('values.schema.json', () => {
  it.each([
    // Options that the chart itself sets, and directories that are mounted at their default paths.
    [
      'agent',
      commanderOptions(agentOptions),
      [
        'AGENT_NODE_NAME',
        'AKRI_CRI_SOCKET',
        'AKRI_HANDLERS',
        'AKRI_HANDLERS_GROUP',
        'AKRI_HANDLER_ADDRESSES',
        'AKRI_HANDLER_DEVICES',
        'AKRI_HANDLER_ENVIRONMENT',
        'AKRI_HANDLER_MOUNTS',
        'AKRI_STATE_DIRECTORY',
        'DISCOVERY_HANDLERS_DIRECTORY',
        'KUBECONFIG',
        'KUBELET_PLUGIN_DIRECTORY',
        'KUBELET_POD_RESOURCES_SOCKET',
        'LOG_LEVEL',
        'METRICS_PORT',
      ],
    ],
    [
      'controller',
      commanderOptions(controllerOptions),
      ['KUBECONFIG', 'LOG_LEVEL', 'METRICS_PORT', 'POD_NAME', 'POD_NAMESPACE'],
    ],
    [
      'webhookConfiguration',
      commanderOptions(webhookOptions),
      [
        'AKRI_CERTIFICATE_SECRET',
        'AKRI_FAILURE_POLICY',
        'AKRI_HANDLERS',
        'AKRI_TLS_CRT_FILE',
        'AKRI_TLS_KEY_FILE',
        'AKRI_WEBHOOK_CONFIGURATION',
        'AKRI_WEBHOOK_PORT',
        'AKRI_WEBHOOK_SERVICE',
        'KUBECONFIG',
        'LOG_LEVEL',
        'METRICS_PORT',
        'POD_NAMESPACE',
      ],
    ],
  ] as const)(
    'knows all options of %s, except those with values of their own',
    (name, options, others) => {
      const known = options.map(({ envVar }) => envVar ?? '').sort()
      expect([...keysOf(schemaAt(name, 'env')), ...others].sort()).toEqual(known)
    },
  )

  it.each([
    ['udev', udevDetails, []],
    ['onvif', onvifDetails, []],
    ['opcua', opcuaDetails, ['discoveryUrls']],
  ] as const)('knows the discoveryDetails of the handler %s', (name, { shape }, others) => {
    const known = keysOf(schemaAt(name, 'configuration', 'discoveryDetails'))
    expect(known).toEqual([...Object.keys(shape), ...others].sort())
  })

  it('rejects unknown names in all mappings, except those with free names', () => {
    const open: string[] = []
    const visit = (at: unknown, path: string) => {
      if (typeof at !== 'object' || at === null) return
      if (Reflect.get(at, 'type') === 'object' && Reflect.get(at, 'additionalProperties') !== false)
        open.push(path)
      for (const [key, inner] of Object.entries(at)) visit(inner, `${path}/${key}`)
    }
    visit(schema, '')
    expect(open.sort()).toEqual([
      // Fields of Kubernetes.
      '/definitions/brokerJob/properties/volumeMounts/items',
      '/definitions/brokerJob/properties/volumes/items',
      '/definitions/brokerPod/properties/volumeMounts/items',
      '/definitions/brokerPod/properties/volumes/items',
      '/properties/global',
      '/properties/webhookConfiguration/properties/networkPolicy/properties/from/items',
    ])
  })

  it('is valid for all versions of Helm, and all its references exist', () => {
    expect(Reflect.get(schema, '$schema')).toBe('http://json-schema.org/draft-07/schema#')
    const names = [...JSON.stringify(schema).matchAll(/"\$ref":"#\/definitions\/(\w+)"/g)].map(
      ([, name]) => name,
    )
    expect([...new Set(names)].sort()).toEqual(Object.keys(schema.definitions ?? {}).sort())
  })
})
