import { describe, expect, it } from 'vitest'
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

interface Container {
  readonly env?: readonly { readonly name: string; readonly value?: string }[]
  readonly ports?: readonly { readonly name: string; readonly containerPort: number }[]
  readonly readinessProbe?: {
    readonly httpGet: { readonly port: string; readonly scheme?: string }
  }
}
interface Workload extends KubernetesObject {
  readonly spec: {
    readonly template: {
      readonly metadata?: { readonly labels?: Readonly<Record<string, string>> }
      readonly spec: { readonly containers: readonly [Container] }
    }
  }
}
interface Monitor extends KubernetesObject {
  readonly spec: {
    readonly selector: { readonly matchLabels: Readonly<Record<string, string>> }
    readonly podMetricsEndpoints: readonly [{ readonly port: string; readonly path: string }]
  }
}

/** The ports that Prometheus scrapes, by the names of the workloads. */
function scrapes(objects: readonly KubernetesObject[]) {
  const of = (kind: RegExp) => objects.filter((object) => kind.test(object.kind))
  const pods = of(/^(DaemonSet|Deployment|Job|CronJob)$/) as Workload[]
  const found = (of(/^PodMonitor$/) as Monitor[]).flatMap(({ metadata, spec }) => {
    // Without a selector of namespaces, a monitor selects in its namespace.
    expect(metadata.namespace).toBe(NAMESPACE)
    expect(Object.keys(spec).sort()).toEqual(['podMetricsEndpoints', 'selector'])
    const labels = Object.entries(spec.selector.matchLabels)
    const selected = pods.filter(({ spec: { template } }) =>
      labels.every(([label, value]) => template.metadata?.labels?.[label] === value),
    )
    expect(selected, `Pods of ${metadata.name}`).not.toEqual([])
    const [endpoint] = spec.podMetricsEndpoints
    return selected.flatMap((pod) =>
      // A Pod without the port is no target.
      (containerOf(pod).ports ?? []).flatMap((port) =>
        port.name === endpoint.port ? [{ pod, port, path: endpoint.path }] : [],
      ),
    )
  })
  return { pods, found }
}

const containerOf = ({ spec }: Workload) => spec.template.spec.containers[0]
const metricsPort = (pod: Workload) =>
  containerOf(pod).env?.find(({ name }) => name === 'METRICS_PORT')?.value

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
        const { port: probed, scheme = 'HTTP' } = containerOf(pod).readinessProbe?.httpGet ?? {}
        expect([probed, scheme]).toEqual([port.name, 'HTTP'])
      }
    })

    it('are none unless an operator asks for them', async () => {
      const kinds = (await objectsOf(handlers)).map(({ kind }) => kind)
      expect(kinds).not.toContain('PodMonitor')
    })
  })
})
