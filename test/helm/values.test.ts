import { load } from 'js-yaml'
import { describe, expect, it } from 'vitest'
import { chartYaml, missingForChart, notesOf, readChart, render, type Values } from './chart.js'
import { HELMS, missingHelm } from './programs.js'
import {
  AGENT,
  bothHandlers,
  CONTROLLER,
  containerOf,
  DEBUG_ECHO,
  everything,
  NETWORK,
  nested,
  ONVIF,
  OPCUA,
  PROGRAMS,
  programs,
  WEBHOOK,
  workloads,
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

/** The paths of the values in a file, each list and each empty map among them. */
function pathsOf(values: Values): string[] {
  const { '<<': merged = {}, ...others } = values
  return Object.entries({ ...Object(merged), ...others }).flatMap(([name, value]) => {
    const isMap = typeof value === 'object' && value !== null && !Array.isArray(value)
    const paths = isMap ? pathsOf(value as Values) : []
    return paths.length > 0 ? paths.map((path) => `${name}.${path}`) : [name]
  })
}

const title = `values of the chart${missingForChart === undefined ? '' : ` (${missingForChart})`}`

describe.skipIf(missingForChart !== undefined)(title, () => {
  // Versions of Helm use different words.
  it.each([
    ['repository', { image: { repository: '' } }],
    ['ful', { agent: { ful: true } }],
    ['agents', { agents: {} }],
    ['AKRI_SLOT_GRAC', { agent: { env: { AKRI_SLOT_GRAC: 5 } } }],
    ['hostNetwork', { agent: { hostNetwork: 'true' } }],
    ['camera', { agent: { nodeSelectors: { camera: ['a'] } } }],
    ['tag', { agent: { image: { tag: 1.0 } } }],
    ['logLevel', { agent: { logLevel: 'trace' } }],
    ['metricsPort', { agent: { metricsPort: 70_000 } }],
    ['discoveryHandlers', { agent: { host: { discoveryHandlers: 'var/lib' } } }],
    ['memoryLimit', { agent: { resources: { memoryLimit: '320MB' } } }],
    ['oprator', { agent: { tolerations: [{ oprator: 'Exists' }] } }],
    ['brokerInfoSize', { agent: { brokerInfoSize: '64M' } }],
    ['replicas', { controller: { replicas: 0 } }],
    ['digest', { image: { digest: 'sha256:12' } }],
    ['failurePolicy', { webhookConfiguration: { failurePolicy: 'fail' } }],
    ['compatibility', { compatibility: 'akri-0.12' }],
    ['enabled', { udev: { discovery: { enabled: 'yes' } } }],
    ['udevRules', { udev: { configuration: { udevRules: [] } } }],
    ['permissions', { udev: { configuration: { discoveryDetails: { permissions: 'rwx' } } } }],
    ['scopess', { onvif: { configuration: { discoveryDetails: { scopess: {} } } } }],
    ['capacity', { opcua: { configuration: { capacity: 1.5 } } }],
    ['restartPolicy', { debugEcho: { configuration: { brokerJob: { restartPolicy: 'Always' } } } }],
  ])('are rejected by name if they are wrong: %s', async (name, values) => {
    const refusal = String(await render(values).catch((error: unknown) => error))
    expect(refusal).toContain("values don't meet the specifications of the schema")
    expect(refusal).toMatch(new RegExp(`^ *- .*\\b${name}\\b`, 'm'))
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
        const context = ['custom', 'debugEcho', 'onvif', 'opcua', 'udev'].flatMap(
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
        expect(paths.length).toBeGreaterThan(250)
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

  it('let all programs that write for it know of the other system', async () => {
    for (const name of [AGENT, CONTROLLER, WEBHOOK]) {
      const variable = async (values: Values) =>
        (await containerOf(name, values)).env.get('AKRI_COMPATIBILITY')
      expect(await variable({ compatibility: 'akri-0.13' })).toBe('akri-0.13')
      for (const compatibility of ['off', null])
        expect(await variable({ compatibility })).toBeUndefined()
    }
  })

  it('set the digest of the image, which another tag or repository does not keep', async () => {
    const digest = `sha256:${'0a'.repeat(32)}`
    const version = chartYaml.appVersion
    const image = async (values: Values) => (await containerOf(CONTROLLER, values)).image
    expect(await image({ image: { digest } })).toBe(`localhost/akri-agent:${version}@${digest}`)
    const ofController = (own: Values) => ({ image: { digest }, controller: { image: own } })
    expect(await image(ofController({ tag: '2' }))).toBe('localhost/akri-agent:2')
    expect(await image(ofController({ repository: 'r' }))).toBe(`r:${version}`)
    expect(await image(ofController({ repository: 'r', digest }))).toBe(`r:${version}@${digest}`)
  })

  it('set further fields of the Pods of each program', async () => {
    const affinity = { podAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [] } }
    for (const [at, name] of programs) {
      const objects = await render(
        nested([
          ...everything,
          [`${at}.podAnnotations`, { 'example.com/team': 7 }],
          [`${at}.affinity`, affinity],
          [`${at}.priorityClassName`, 'mine'],
          [`${at}.updateStrategy`, { type: 'OnDelete' }],
        ]),
      )
      const object = objects.find(({ kind, metadata }) => /^D/.test(kind) && metadata.name === name)
      const strategy = { type: 'OnDelete' }
      expect(object?.spec).toMatchObject({
        [object?.kind === 'DaemonSet' ? 'updateStrategy' : 'strategy']: strategy,
        template: {
          metadata: { annotations: { 'example.com/team': '7' } },
          spec: { affinity, priorityClassName: 'mine' },
        },
      })
    }
    const one = await render({ controller: { replicas: 1 } })
    expect(one.find(({ metadata }) => metadata.name === CONTROLLER)?.spec).toMatchObject({
      replicas: 1,
    })
  })

  it.each([true, false])(
    'set the priority of each program, and none if it is empty: oneProcess %j',
    async (oneProcess) => {
      const enabled = [...everything, ['discovery.oneProcess', oneProcess]] as const
      const classes = new Map<string, string | undefined>([
        [CONTROLLER, 'system-cluster-critical'],
        [WEBHOOK, undefined],
      ])
      for (const [name, { priorityClassName }] of Object.entries(await workloads(nested(enabled))))
        expect([name, priorityClassName]).toEqual([
          name,
          classes.has(name) ? classes.get(name) : 'system-node-critical',
        ])
      const none = programs.map(([at]) => [`${at}.priorityClassName`, ''] as const)
      const pods = await workloads(nested([...enabled, ...none]))
      expect(Object.keys(pods)).toContain(oneProcess ? NETWORK : ONVIF)
      for (const [name, pod] of Object.entries(pods))
        expect([name, pod.priorityClassName]).toEqual([name, undefined])
    },
  )

  it('place the controller and the webhook on nodes of the control plane', async () => {
    const plane = 'node-role.kubernetes.io/control-plane'
    const pods = async (values: Values) => {
      const found = await workloads({ controller: values, webhookConfiguration: values })
      return [found[CONTROLLER], found[WEBHOOK]]
    }
    const tolerated = (pod: { readonly tolerations?: readonly object[] } | undefined) =>
      pod?.tolerations?.some((toleration) => Reflect.get(toleration, 'key') === plane) ?? false
    expect((await pods({ allowOnControlPlane: true })).map(tolerated)).toEqual([true, true])
    expect((await pods({ allowOnControlPlane: false })).map(tolerated)).toEqual([false, false])
    for (const effect of [{}, { effect: 'NoSchedule' }]) {
      const tolerations = [{ operator: 'Exists', ...effect }]
      await expect(pods({ allowOnControlPlane: false, tolerations })).rejects.toThrow(
        'controller.allowOnControlPlane: false: a toleration without a key tolerates the control',
      )
      await pods({ allowOnControlPlane: true, tolerations })
    }
    for (const pod of await pods({ onlyOnControlPlane: true })) {
      expect(tolerated(pod)).toBe(true)
      // Beside the rule that keeps replicas apart.
      expect(pod).toMatchObject({
        affinity: {
          podAntiAffinity: {},
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [
                { matchExpressions: [{ key: plane, operator: 'Exists' }] },
                { matchExpressions: [{ key: 'node-role.kubernetes.io/master' }] },
              ],
            },
          },
        },
      })
    }
    const both = { onlyOnControlPlane: true, affinity: { nodeAffinity: { a: 1 } } }
    await expect(pods(both)).rejects.toThrow(
      'controller.onlyOnControlPlane: true: give this or controller.affinity.nodeAffinity',
    )
  })

  it('select the nodes of each program', async () => {
    const toleration = {
      key: 'camera',
      operator: 'Exists',
      effect: 'NoExecute',
      tolerationSeconds: 1_000_000,
    }
    const custom = { enabled: true, name: 'custom', image: { repository: 'handler' } }
    for (const [at, name] of [...programs, ['custom.discovery', 'custom-daemonset'] as const]) {
      const chosen = { nodeSelectors: { camera: 'true' }, tolerations: [toleration] }
      const values = nested([
        ...everything,
        ['custom.discovery', custom],
        ...Object.entries(chosen).map(([key, value]) => [`${at}.${key}`, value] as const),
      ])
      expect((await workloads(values))[name]).toMatchObject({
        nodeSelector: { 'kubernetes.io/os': 'linux', camera: 'true' },
        tolerations: [toleration],
      })
    }
  })

  it('take any quantity of Kubernetes for memory, and the heap follows from it', async () => {
    const heapOf = async (memoryLimit: string | number) => {
      const { env, resources } = await containerOf(
        CONTROLLER,
        nested([['controller.resources.memoryLimit', memoryLimit]]),
      )
      expect(resources.limits).toEqual({ memory: memoryLimit })
      return Number(/--max-old-space-size=(\d+)$/.exec(env.get('NODE_OPTIONS') ?? '')?.[1])
    }
    const heaps: number[] = []
    for (const limit of ['512M', '0.5Gi', '524288Ki', '512e6', '1.5Gi', '.5Gi', 536_870_912])
      heaps.push(await heapOf(limit))
    expect(heaps).toEqual([390, 409, 409, 390, 1228, 409, 409])
    await expect(render(nested([['controller.resources.memoryLimit', 1_000_000]]))).rejects.toThrow(
      'controller.resources.memoryLimit: 1000000 is too little: Node.js needs',
    )
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

  it('take labels of nodes that are no text, as --set writes them', async () => {
    const nodeSelectors = { camera: true, floor: 2, site: 'a' }
    const pod = (await workloads({ controller: { nodeSelectors } }))[CONTROLLER]
    expect(pod?.nodeSelector).toMatchObject({ camera: 'true', floor: '2', site: 'a' })
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
      await expect(
        render(nested([...everything, [`${at}.resources.memoryLimit`, '64Mi']])),
      ).rejects.toThrow(`${at}.resources.memoryLimit: 64Mi is too little: Node.js needs`)
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

  it('give each program further variables, by names or as a list', async () => {
    const paths = [...Object.keys(PROGRAMS), 'custom.discovery']
    const fieldRef = { fieldPath: 'spec.nodeName' }
    const forms = [
      [{ HTTPS_PROXY: 'http://proxy' }, { name: 'HTTPS_PROXY', value: 'http://proxy' }],
      [[{ name: 'NODE', valueFrom: { fieldRef } }], { name: 'NODE', valueFrom: { fieldRef } }],
      [[{ name: 'RATE', value: 1_000_000 }], { name: 'RATE', value: '1000000' }],
    ]
    for (const [env, variable] of forms) {
      const objects = await render(
        nested([
          ...everything,
          ['custom.discovery', { enabled: true, image: { repository: 'a' } }],
          ...paths.map((path) => [`${path}.env`, env] as const),
        ]),
      )
      const text = JSON.stringify(variable)
      const having = objects.filter((object) => JSON.stringify(object).includes(text))
      expect(having.length).toBe(paths.length)
    }
  })

  it('cannot name a variable twice that the chart sets', async () => {
    for (const path of Object.keys(PROGRAMS))
      for (const env of [{ LOG_LEVEL: 'debug' }, [{ name: 'LOG_LEVEL', value: 'debug' }]])
        await expect(render(nested([...everything, [`${path}.env`, env]]))).rejects.toThrow(
          `${path}.env: LOG_LEVEL: the chart sets this variable`,
        )
    const objects = await render(nested(everything))
    const names = [...JSON.stringify(objects).matchAll(/"name":"([A-Z_]{4,})"/g)]
    for (const name of new Set(names.map(([, name = '']) => name)))
      await expect(render({ agent: { env: [{ name }] } })).rejects.toThrow(`agent.env: ${name}: `)
  })

  it('take the certificate of the webhook from a Secret that another program fills', async () => {
    const off = { enabled: false }
    const own = await render({ controller: off })
    const values = {
      certificateSecret: 'akri-webhook-tls',
      annotations: { 'cert-manager.io/inject-ca-from': 'akri/akri-webhook' },
    }
    const objects = await render({ webhookConfiguration: values, controller: off })
    const namesOf = (all: typeof objects) => all.map(({ kind, metadata }) => [kind, metadata.name])
    expect(namesOf(objects)).toEqual(
      namesOf(own).filter(
        ([kind, name]) =>
          !/^(Secret|Role|RoleBinding)$/.test(kind ?? '') || !/^akri-webhook/.test(name ?? ''),
      ),
    )
    const text = JSON.stringify(objects.find(({ kind }) => kind === 'Deployment'))
    for (const part of [
      { name: 'AKRI_TLS_CRT_FILE', value: '/etc/akri-webhook/tls.crt' },
      { name: 'AKRI_TLS_KEY_FILE', value: '/etc/akri-webhook/tls.key' },
      { name: 'certificate', mountPath: '/etc/akri-webhook', readOnly: true },
      { name: 'certificate', secret: { secretName: 'akri-webhook-tls' } },
    ])
      expect(text).toContain(JSON.stringify(part))
    const registration = objects.find(({ kind }) => kind === 'ValidatingWebhookConfiguration')
    expect(registration?.metadata.annotations).toEqual(values.annotations)
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

  it.each([
    ['agent.metricsPort', 18_081, 'onvif.discovery.metricsPort: 18081 is the port of agent too'],
    ['prometheus.port', 18_082, 'opcua.discovery.metricsPort: 18082 is the port of agent too'],
    [
      'onvif.discovery.metricsPort',
      18_082,
      'opcua.discovery.metricsPort: 18082 is the port of onvif',
    ],
  ])('are refused if two programs of a node have one port: %s', async (path, port, refusal) => {
    const hostNetworks = [
      ...everything,
      ['agent.hostNetwork', true],
      ['opcua.discovery.hostNetwork', true],
    ] as const
    await render(nested(hostNetworks))
    const values = [...hostNetworks, [path, port] as const]
    await expect(render(nested(values))).rejects.toThrow(refusal)
    // The programs never meet.
    const sites = programs.map(([at], index) => [`${at}.nodeSelectors`, { site: index }] as const)
    await render(nested([...values, ...sites]))
  })

  it('are refused if the agent and a DaemonSet would run one handler', async () => {
    const handlers = ['@akrijs/handler-onvif', '@akrijs/handler-udev']
    const { env } = await containerOf(AGENT, { agent: { handlers } })
    expect(env.get('AKRI_HANDLERS')?.split(',').sort()).toEqual([
      '@akrijs/handler-debug-echo',
      ...handlers,
    ])
    await expect(render(nested([...everything, ['agent.handlers', handlers]]))).rejects.toThrow(
      /agent\.handlers: @akrijs\/handler-udev: .*\nagent\.handlers: @akrijs\/handler-onvif: /,
    )
  })

  it.each([
    ['akri-agent', []],
    ['akri-webhook', []],
    ['akri-network-discovery', bothHandlers],
    ['akri-opcua-discovery', everything],
    ['akri-debug-echo-discovery', everything],
  ])(
    'are refused if custom.discovery has the name of another program: %s',
    async (name, others) => {
      const discovery = { enabled: true, name, image: { repository: 'handler' } }
      await expect(render(nested([...others, ['custom.discovery', discovery]]))).rejects.toThrow(
        `custom.discovery.name: ${name} is the name of another program`,
      )
    },
  )

  it('set the handlers that the agent loads, and the webhook checks the same ones', async () => {
    const loaded = async (values: Values) =>
      (await containerOf(AGENT, values)).env.get('AKRI_HANDLERS')
    const [udev, debugEcho] = ['@akrijs/handler-udev', '@akrijs/handler-debug-echo']
    const apart = { discovery: { enabled: true } }
    expect(await loaded({})).toBe(`${udev},${debugEcho}`)
    expect(await loaded({ agent: { allowDebugEcho: false } })).toBe(udev)
    expect(await loaded({ udev: apart })).toBe(debugEcho)
    expect(await loaded({ udev: { discovery: { embedded: false } } })).toBe(debugEcho)
    expect(await loaded({ udev: apart, debugEcho: apart })).toBe('')
    const mine = '/opt/handlers/node_modules/mine'
    expect(await loaded({ agent: { handlers: [mine], full: true } })).toBe(
      `${udev},@akrijs/handler-onvif,@akrijs/handler-opcua,${debugEcho},${mine}`,
    )
    // Whatever else is set; a second handler of the same name would be refused.
    const all = nested([...everything, ['agent.full', true], ['agent.allowDebugEcho', false]])
    expect(await loaded(all)).toBe(
      `${udev},@akrijs/handler-onvif,@akrijs/handler-opcua,${debugEcho}`,
    )
    expect(Object.keys(await workloads(all)).sort()).toEqual([AGENT, CONTROLLER, WEBHOOK])
    expect(await notesOf(all)).toContain(
      'opcua.discovery.enabled: true: the handler has no DaemonSet, because the agent runs it',
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

  it.each(['no', 'on', 'null', '1e3', 'a-1'])(
    'stay texts where YAML would read something else: %s',
    async (text) => {
      const values = nested([
        ['prometheus', { enabled: true, portName: text, rules: { enabled: true, runbooks: text } }],
        ['controller.priorityClassName', text],
        ['custom.discovery', { enabled: true, name: text, image: { repository: 'handler' } }],
        ['custom.configuration', { enabled: true, discoveryHandlerName: text }],
      ])
      const objects = await render(values)
      for (const name of [AGENT, CONTROLLER]) {
        const [container = {}] = (await workloads(values))[name]?.containers ?? []
        const httpGet = { port: text }
        const probes = { livenessProbe: { httpGet }, readinessProbe: { httpGet } }
        expect(container).toMatchObject({ ports: [{ name: text }], ...probes })
      }
      const named = (kind: string) => objects.filter((object) => object.kind === kind)
      expect(named('Deployment')[0]).toMatchObject({
        spec: { template: { spec: { priorityClassName: text } } },
      })
      expect(named('Configuration')).toMatchObject([{ spec: { discoveryHandler: { name: text } } }])
      const labels = objects.flatMap(({ metadata }) =>
        metadata.name === `${text}-daemonset` ? [metadata.labels?.['app.kubernetes.io/name']] : [],
      )
      expect(labels).toEqual([text])
      expect(JSON.stringify(named('PrometheusRule'))).toContain(`"runbook_url":"${text}#akri`)
    },
  )

  it.each(['@acme/sensor', '=on', '*a', '- a', '%a', '123'])(
    'name any handler: %s',
    async (discoveryHandlerName) => {
      const objects = await render({
        prometheus: { rules: { enabled: true, runbooks: discoveryHandlerName.replace(' ', '') } },
        custom: { configuration: { enabled: true, discoveryHandlerName } },
      })
      expect(objects.find(({ kind }) => kind === 'Configuration')).toMatchObject({
        spec: { discoveryHandler: { name: discoveryHandlerName } },
      })
    },
  )

  it.each(['a'.repeat(16), 'a--b', '-a', 'a-', '8080', 'A', ''])(
    'name no port that Kubernetes refuses: %j',
    async (portName) => {
      await expect(render({ prometheus: { portName } })).rejects.toThrow(/portName/)
    },
  )

  it.each<[string, Values, string | undefined]>([
    ['64Mi by default', {}, 'size=64m,nr_inodes=16384'],
    ['another size', { brokerInfoSize: '200Mi' }, 'size=200m,nr_inodes=51200'],
    ['none', { brokerInfoSize: '' }, undefined],
    ['none without reports', { env: { AKRI_BROKER_INFO: 'off' } }, undefined],
    [
      'none without reports, with a list of variables',
      { env: [{ name: 'AKRI_BROKER_INFO', value: 'off' }] },
      undefined,
    ],
    ['64Mi with reports', { env: { AKRI_BROKER_INFO: 'on' } }, 'size=64m,nr_inodes=16384'],
  ])('set the size of the file system of reports: %s', async (_what, agent, size) => {
    const image = { repository: 'mine', fullRepository: 'full' }
    const { initContainers = [], containers } =
      (await workloads({ agent: { image, ...agent, full: true } }))[AGENT] ?? expect.fail()
    expect(initContainers).toMatchObject(
      size === undefined ? [] : [{ image: containers[0]?.image, args: [size] }],
    )
    expect(containers[0]?.image).toMatch(/^full:/)
  })

  it('set directories of the node, for the agent and for handlers', async () => {
    const host = {
      discoveryHandlers: '/srv/akri: #1',
      kubeletDevicePlugins: '/srv/kubelet/device-plugins',
      kubeletPodResources: '/srv/kubelet/pod-resources',
      udev: '/run/other',
    }
    const pods = await workloads(nested([...everything, ['agent.host', host]]))
    const paths = (name: string) =>
      Object.fromEntries(
        pods[name]?.volumes?.flatMap((item) =>
          item.hostPath ? [[item.name, item.hostPath.path]] : [],
        ) ?? [],
      )
    expect(paths(AGENT)).toEqual({
      handlers: host.discoveryHandlers,
      // Containers mount directories below it, by this name.
      state: '/var/lib/akri-agent',
      'device-plugins': host.kubeletDevicePlugins,
      'pod-resources': host.kubeletPodResources,
      udev: host.udev,
    })
    for (const handler of [ONVIF, OPCUA, DEBUG_ECHO])
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
