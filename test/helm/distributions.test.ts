import { readFileSync } from 'node:fs'
import path from 'node:path'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { CHART, type KubernetesObject, missingForChart, render } from './chart.js'
import { AGENT, everything, nested, PROGRAMS, type Workload } from './workloads.js'

const OPENSHIFT = ['--api-versions', 'security.openshift.io/v1']
const custom = { enabled: true, name: 'custom', image: { repository: 'handler' } }
const allHandlers = nested([...everything, ['custom.discovery', custom]])

interface NodeExpression {
  readonly key: string
  readonly operator: string
  readonly values: readonly string[]
}
interface Pod {
  readonly serviceAccountName?: string
  readonly securityContext: { readonly seLinuxOptions?: object; readonly runAsUser?: number }
  readonly affinity?: {
    readonly nodeAffinity: {
      readonly requiredDuringSchedulingIgnoredDuringExecution: {
        readonly nodeSelectorTerms: readonly { readonly matchExpressions: NodeExpression[] }[]
      }
    }
  }
}

const podsOf = (objects: readonly KubernetesObject[], kind: RegExp) =>
  objects
    .filter((object): object is Workload => kind.test(object.kind))
    .map(({ metadata, spec }) => [metadata.name, spec.template.spec as unknown as Pod] as const)

/** Whether a node with these labels can have the Pod. */
function admits(pod: Pod, labels: Readonly<Record<string, string>>): boolean {
  const required = pod.affinity?.nodeAffinity.requiredDuringSchedulingIgnoredDuringExecution
  return (required?.nodeSelectorTerms ?? []).some(({ matchExpressions }) =>
    matchExpressions.every(({ key, operator, values }) => {
      const isListed = values.includes(labels[key] ?? '')
      return operator === 'In' ? isListed : operator === 'NotIn' && !isListed
    }),
  )
}

describeUnless(missingForChart, 'the chart on a distribution', () => {
  it('keeps the agent and handlers off nodes that are not real', async () => {
    for (const oneProcess of [true, false]) {
      const values = { ...allHandlers, discovery: { oneProcess } }
      const pods = podsOf(await render(values), /^DaemonSet$/)
      const names = pods.flatMap(
        ([name]) => /^akri-(.*)-discovery-daemonset$/.exec(name)?.[1] ?? [],
      )
      const apart = [
        'debug-echo',
        'mdns',
        'modbus',
        'mqtt',
        'onvif',
        'opcua',
        'snmp',
        'ssdp',
        'udev',
        'usb',
      ]
      expect(names.sort()).toEqual(oneProcess ? ['debug-echo', 'network', 'udev', 'usb'] : apart)
      for (const [name, pod] of pods) {
        const admitted = [
          {},
          { type: 'worker', 'eks.amazonaws.com/compute-type': 'auto' },
          { type: 'virtual-kubelet' },
          { 'liqo.io/type': 'virtual-node' },
          { 'eks.amazonaws.com/compute-type': 'fargate' },
        ].map((labels) => admits(pod, labels))
        expect([name, ...admitted]).toEqual([name, true, true, false, false, false])
      }
    }
  })

  it('gives each program the SecurityContextConstraints that it needs on OpenShift', async () => {
    const objects = await render(allHandlers, 'akri', OPENSHIFT)
    const constraints = new Map<string, string>()
    for (const object of objects) {
      const { kind, name } = (Reflect.get(object, 'roleRef') ?? {}) as Record<string, string>
      if (object.kind !== 'RoleBinding' || kind !== 'ClusterRole') continue
      const subjects: readonly { name: string; namespace: string }[] = Reflect.get(
        object,
        'subjects',
      )
      for (const subject of subjects) {
        expect(subject.namespace).toBe('akri')
        constraints.set(subject.name, String(name).replace('system:openshift:scc:', ''))
      }
    }
    const pods = podsOf(objects, /^(DaemonSet|Deployment|Job)$/)
    // The programs, the custom handler and the clean-up.
    expect(pods).toHaveLength(Object.keys(PROGRAMS).length + 2)
    for (const [name, { serviceAccountName = 'default', securityContext }] of pods) {
      const isOnNode = name.endsWith('-daemonset')
      const { seLinuxOptions } = securityContext
      expect([name, constraints.get(serviceAccountName), seLinuxOptions]).toEqual([
        name,
        isOnNode ? 'privileged' : 'nonroot-v2',
        isOnNode ? { type: 'spc_t' } : undefined,
      ])
    }
    expect(JSON.stringify(await render(allHandlers))).not.toMatch(/openshift|spc_t/)
  })

  it('finds the kubelet with the values of docs/helm.md, whose plugins never move', async () => {
    const page = readFileSync(path.join(CHART, '../../../docs/helm.md'), 'utf8')
    const settings = [...page.matchAll(/`--set (agent\.host\.[A-Za-z]+)=([^`\s]+)`/g)]
    expect(settings.length).toBeGreaterThan(1)
    for (const [, name = '', value] of settings) {
      const objects = await render(nested([[name, value]]))
      const agent = objects.find((object) => object.metadata.name === AGENT) as Workload
      const paths = agent.spec.template.spec.volumes?.map(({ hostPath }) => hostPath?.path)
      expect(paths).toContain('/var/lib/kubelet/device-plugins')
      expect(paths).toContain(value)
    }
  })
})
