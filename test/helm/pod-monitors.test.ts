import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import builtIn from '../../handlers/built-in.json' with { type: 'json' }
import { type KubernetesObject, render, type Values } from './chart.js'
import { HELMS, missingHelm } from './programs.js'

const NAMESPACE = 'devices'
const MONITORED = { prometheus: { enabled: true } }
const handlers = Object.fromEntries(
  builtIn.handlers.map(({ name }) => [name, { discovery: { enabled: true } }]),
)
const CASES: readonly (readonly [name: string, values: Values])[] = [
  ['programs alone', {}],
  ['handlers, some of them in one process', handlers],
  ['handlers in processes of their own', { ...handlers, discovery: { oneProcess: false } }],
  [
    'other ports',
    { ...handlers, prometheus: { enabled: true, port: 9100, portName: 'akri-numbers' } },
  ],
  ['no webhook', { webhookConfiguration: { enabled: false } }],
  ['an agent alone', { controller: { enabled: false } }],
  ['a controller alone', { agent: { enabled: false } }],
  [
    'a handler of another image, and a hook',
    {
      ...handlers,
      custom: { discovery: { enabled: true, image: { repository: 'example/handler' } } },
      cleanupHook: { enabled: true },
    },
  ],
]

const containerPort = z.object({ name: z.string(), containerPort: z.number() })
const variable = z.object({ name: z.string(), value: z.string().optional() })
const container = z.object({
  env: z.array(variable).default([]),
  ports: z.array(containerPort).default([]),
  readinessProbe: z
    .object({ httpGet: z.object({ port: z.string(), scheme: z.literal('HTTP').optional() }) })
    .optional(),
})
const workload = z.object({
  metadata: z.object({ name: z.string(), namespace: z.literal(NAMESPACE) }),
  spec: z.object({
    template: z.object({
      metadata: z.object({ labels: z.record(z.string(), z.string()).default({}) }).default({
        labels: {},
      }),
      spec: z.object({ containers: z.tuple([container]) }),
    }),
  }),
})
/** Without a selector of namespaces, a monitor selects in its namespace. */
const monitor = z.strictObject({
  apiVersion: z.literal('monitoring.coreos.com/v1'),
  kind: z.literal('PodMonitor'),
  metadata: z.object({ name: z.string(), namespace: z.literal(NAMESPACE) }),
  spec: z.strictObject({
    selector: z.strictObject({ matchLabels: z.record(z.string(), z.string()) }),
    podMetricsEndpoints: z.tuple([z.strictObject({ port: z.string(), path: z.string() })]),
  }),
})

/** The ports that Prometheus scrapes, by the names of the workloads. */
function scrapes(objects: readonly KubernetesObject[]) {
  const pods = objects
    .filter(({ kind }) => /^(DaemonSet|Deployment|Job|CronJob)$/.test(kind))
    .map((object) => workload.parse(object))
  const monitors = objects
    .filter(({ kind }) => kind === 'PodMonitor')
    .map((object) => monitor.parse(object))
  const found = monitors.flatMap(({ metadata: { name }, spec }) => {
    const labels = Object.entries(spec.selector.matchLabels)
    const selected = pods.filter(({ spec: { template } }) =>
      labels.every(([label, value]) => template.metadata.labels[label] === value),
    )
    expect(selected, `Pods of ${name}`).not.toEqual([])
    const [endpoint] = spec.podMetricsEndpoints
    return selected.flatMap((pod) =>
      // A Pod without the port is no target.
      portsOf(pod).flatMap((port) =>
        port.name === endpoint.port ? [{ pod, port, path: endpoint.path }] : [],
      ),
    )
  })
  return { pods, found }
}

type Workload = z.infer<typeof workload>
const containerOf = ({ spec }: Workload) => spec.template.spec.containers[0]
const portsOf = (pod: Workload) => containerOf(pod).ports
const metricsPort = (pod: Workload) =>
  containerOf(pod).env.find(({ name }) => name === 'METRICS_PORT')?.value

describe.for(HELMS)('PodMonitors of the chart, by %s', (helm) => {
  const lacks = missingHelm(helm)
  describe.skipIf(lacks !== undefined)(lacks === undefined ? '' : `(${lacks})`, () => {
    const objectsOf = (values: Values) => render(values, NAMESPACE, [], helm)

    it.each(CASES)('scrape each Pod with metrics once, at its port: %s', async (_, values) => {
      const { pods, found } = scrapes(await objectsOf({ ...MONITORED, ...values }))
      expect(found.map(({ pod }) => pod.metadata.name).sort()).toEqual(
        pods
          .filter((pod) => metricsPort(pod) !== undefined)
          .map(({ metadata }) => metadata.name)
          .sort(),
      )
      for (const { pod, port, path } of found) {
        expect(path).toBe('/metrics')
        expect(metricsPort(pod), pod.metadata.name).toBe(String(port.containerPort))
        // The kubelet asks the same port by HTTP, so the scheme is right.
        expect(containerOf(pod).readinessProbe?.httpGet.port).toBe(port.name)
      }
    })

    it('are none unless an operator asks for them', async () => {
      const kinds = (await objectsOf(handlers)).map(({ kind }) => kind)
      expect(kinds).not.toContain('PodMonitor')
    })
  })
})
