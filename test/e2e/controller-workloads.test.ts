import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { load } from 'js-yaml'
import { expect, it } from 'vitest'
import { isClusterSince } from '../cluster/support/client.js'
import { describeUnless } from '../support/unless.js'
import { untilBrokers, useController } from './support/controlled-world.js'
import type { HostController } from './support/host-controller.js'
import {
  addresses,
  alivePodsIn,
  type Made,
  namesIn,
  podSpec,
  podsIn,
  service,
} from './support/made.js'
import { access, missing, NODE_1 } from './support/nodes.js'
import { expectServerWarnings } from './support/server-warnings.js'
import { echoYaml, eventually, type World } from './support/world.js'

// Jobs and Deployments as brokers; brokers that the API server or a kubelet refuses; edits of
// objects that the controller applied. Each test goes on with what the test before it has left.

/** The first minor version of Kubernetes that has Pod security. */
const POD_SECURITY_SINCE = 23

const lacks = missing()
const hasPodSecurity = lacks === undefined && (await isClusterSince(POD_SECURITY_SINCE))

expectServerWarnings(/would violate PodSecurity/)

interface EventObject {
  readonly involvedObject: { readonly kind: string; readonly name: string }
  readonly reason: string
  readonly message: string
}

describeUnless(lacks, 'broker workloads on a real cluster', () => {
  let world: World
  let controller: HostController

  useController((opened) => {
    world = opened.world
    controller = opened.controller
  })

  const namespacePath = () => `/api/v1/namespaces/${world.namespace}`
  const request = (method: 'GET' | 'POST' | 'DELETE', more: string, body?: object) =>
    world.client.request({ method, path: namespacePath() + more, body })
  const enforce = (level: string | null) => {
    const body = { metadata: { labels: { 'pod-security.kubernetes.io/enforce': level } } }
    return world.client.request({ method: 'PATCH', path: namespacePath(), body, patch: 'merge' })
  }

  const apply = (name: string, devices: readonly string[], capacity: number, more: object) =>
    world.apply(echoYaml(name, devices, capacity, more))

  const pool = (replicas: number, more: object = {}) => ({
    brokerSpec: { brokerDeploymentSpec: { replicas, template: { spec: podSpec() } } },
    configurationServiceSpec: { ...service(81), ...more },
  })
  const job = (pod: object) => ({
    brokerSpec: {
      brokerJobSpec: {
        backoffLimit: 0,
        template: { metadata: { labels: { mine: 'x' } }, spec: pod },
      },
    },
  })
  const podOfJob = (script: string) => podSpec(script, { restartPolicy: 'Never' })
  const podsOf = async (name: string) =>
    (await podsIn(world)).filter(
      ({ metadata }) => metadata.labels['akri.sh/configuration'] === name,
    )

  it.skipIf(!hasPodSecurity)(
    'Pod security that refuses brokers shows in the Configuration, and in an Event',
    async () => {
      const page = await readFile(path.join(import.meta.dirname, '../../docs/brokers.md'), 'utf8')
      const [, yaml = ''] = /```yaml\n([^`]*name: restricted-echo[^`]*)```/.exec(page) ?? []
      await enforce('restricted')
      await apply('pod', ['foo0'], 1, {
        brokerSpec: { brokerPodSpec: podSpec('exec sleep 200000') },
      })
      await apply('denied', ['foo0', 'foo1'], 1, pool(2))
      await apply('job', ['foo0', 'foo1'], 2, job(podOfJob('exit 1')))
      await world.apply(JSON.stringify(load(yaml.replace('busybox', access.shellImage))))
      for (const name of ['pod', 'denied', 'job']) {
        const sentence = 'violates PodSecurity "restricted:latest"'
        const refused = { status: 'False', reason: 'BrokerRefused' } as const
        const { message } = await untilBrokers(world, name, refused)
        expect(message).toContain(sentence)
        await eventually(async () => {
          const { items } = (await request('GET', '/events')) as { items: EventObject[] }
          expect(items).toContainEqual(
            expect.objectContaining({
              involvedObject: expect.objectContaining({ kind: 'Configuration', name }),
              reason: 'BrokerRefused',
              message: expect.stringContaining(sentence),
            }),
          )
        })
      }
      // The docs show a broker that is allowed.
      await untilBrokers(world, 'restricted-echo', { status: 'True' })
      const [pod] = await podsOf('restricted-echo')
      await eventually(async () => expect(await world.logs(pod?.metadata.name ?? '')).toBe('foo0'))
      await enforce(null)
      await untilBrokers(world, 'pod', { status: 'True', reason: 'Ready' })
      for (const name of ['pod', 'denied', 'restricted-echo'])
        await world.remove('Configuration', name)
    },
  )

  it('R50 R52 R53 R54 C2 C4 C5 a Job runs once for each device and spec', async () => {
    const { generation } = await created('job', job(podOfJob('true')))
    const names = (of: number) => ['8120fe', 'a19705'].map((id) => `job-${id}-${of}-job`)
    const untilComplete = (of: number) =>
      eventually(async () => {
        const jobs = await world.list<Made>('Job')
        const complete = jobs.filter(({ status }) =>
          status.conditions?.some(({ type }) => type === 'Complete'),
        )
        expect(complete.map(({ metadata }) => metadata.name).sort()).toEqual(names(of))
      })
    await untilComplete(generation)
    for (const { metadata, spec } of await podsOf('job')) {
      expect(metadata.labels).toMatchObject({ mine: 'x', controller: 'akri.sh' })
      expect(spec.affinity?.nodeAffinity).toBeUndefined()
    }

    // A person deletes a Job, and the controller restarts: no finished Job runs again.
    const [first = '', second] = names(generation)
    await world.remove('Job', first)
    await eventually(async () => expect(await namesIn(world, 'Job')).toEqual([second]))
    await controller.stop()
    await controller.lead()
    await apply('job', ['foo0', 'foo1'], 3, job(podOfJob('true')))
    await eventually(async () => {
      const found = (await world.instances()).filter(({ metadata }) =>
        metadata.name.startsWith('job-'),
      )
      expect(found.map(({ spec }) => spec.capacity)).toEqual([3, 3])
    })
    expect(await namesIn(world, 'Job')).toEqual([second])

    const next = await created('job', job(podOfJob('exit 0')), 3)
    await untilComplete(next.generation)
  })

  /** Applies a Configuration with two devices. @returns its metadata */
  async function created(name: string, more: object, capacity = 2): Promise<Made['metadata']> {
    await apply(name, ['foo0', 'foo1'], capacity, more)
    const { metadata } = (await world.get<Made>('Configuration', name)) ?? expect.fail()
    return metadata
  }

  it('R49 R62 R86 R89 C6 brokers that end or that a kubelet rejects are replaced', async () => {
    // The Pods name a node: the scheduler does not see that no node has so many slots.
    const rejected = (name: string) =>
      podSpec(
        'true',
        { nodeName: NODE_1, restartPolicy: 'Never' },
        { [`akri.sh/${name}-8120fe`]: '7' },
      )
    await apply('refused', ['foo0'], 1, { brokerSpec: { brokerPodSpec: rejected('refused') } })
    await apply('job', ['foo0'], 1, job(rejected('job')))
    await apply('ended', ['foo0'], 1, {
      brokerSpec: { brokerPodSpec: podSpec('exit 3', { restartPolicy: 'Never' }) },
    })
    await apply('crash', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec('exit 1') } })
    await eventually(async () => {
      const found = [...(await podsOf('refused')), ...(await podsOf('ended'))]
      const jobs = await world.list<Made>('Job')
      for (const { metadata } of [...found, ...jobs])
        expect(Number(metadata.annotations['akri.sh/restarts'])).toBeGreaterThan(0)
      expect([found.length, jobs.length]).toEqual([2, 1])
    })
    await eventually(async () =>
      expect((await podsOf('refused'))[0]?.status.reason).toBe('UnexpectedAdmissionError'),
    )
    const { message } = await untilBrokers(world, 'crash', { status: 'False', reason: 'CrashLoop' })
    expect(message).toContain('CrashLoopBackOff')
    for (const name of ['refused', 'job', 'ended', 'crash'])
      await world.remove('Configuration', name)
  })

  it('R9 R42 R86 the Pods of a Deployment share all devices of the Configuration', async () => {
    await apply('pool', ['foo0', 'foo1'], 1, pool(3))
    const phases = async () =>
      (await alivePodsIn(world))
        .filter(({ metadata }) => metadata.labels['akri.sh/configuration'] === 'pool')
        .map(({ status }) => status.phase)
        .sort()
    await eventually(async () => expect(await phases()).toEqual(['Pending', 'Running', 'Running']))
    const holders = Object.entries(await world.usage()).filter(([slot]) => slot.startsWith('pool-'))
    expect(holders.map(([, holder]) => holder.slice(0, 2))).toEqual(['C:', 'C:'])
    await eventually(async () => expect(await addresses(world, 'pool-svc')).toHaveLength(2))
    await apply('pool', ['foo0', 'foo1'], 1, pool(1))
    await eventually(async () => expect(await phases()).toEqual(['Running']))
  })

  it('R102 edited fields of Services and the Deployment are restored', async () => {
    const made = async () => {
      const found = (await world.get<Made>('Service', 'pool-svc')) ?? expect.fail()
      const deployment = await world.get<Made>('Deployment', 'pool-deployment')
      const { template } = deployment?.spec ?? {}
      const { labels, uid } = found.metadata
      const { command } = template?.spec.containers[0] ?? {}
      return { uid, labels, spec: found.spec, command, annotations: template?.metadata.annotations }
    }
    const before = await made()
    await world.api('Service').patch(world.key('pool-svc'), 'merge', {
      metadata: { labels: { mine: 'x', 'akri.sh/configuration': 'other' } },
      spec: { selector: { controller: null, app: 'mine' } },
    })
    await world.api('Deployment').patch(world.key('pool-deployment'), 'json', [
      { op: 'replace', path: '/spec/template/spec/containers/0/command/2', value: 'sleep 9' },
      { op: 'add', path: '/spec/template/metadata/annotations', value: { restarted: 'now' } },
    ])
    await eventually(async () =>
      // Since Kubernetes 1.21 a selector is one field.
      expect(await made()).toEqual({
        ...before,
        labels: { ...before.labels, mine: 'x' },
        annotations: { restarted: 'now' },
      }),
    )
    await untilBrokers(world, 'pool', { status: 'True', reason: 'Ready' })
  })

  it('R61 a refused change of a Service leaves it; a fixed field has it replaced', async () => {
    const foreign = (name: string, more: object) =>
      world.api('Service').create(world.namespace, {
        metadata: { name },
        spec: { ...service(80), ...more },
      }) as Promise<Made>
    const [{ nodePort }] = (await foreign('foreign', { type: 'NodePort' })).spec.ports
    const { clusterIP } = (await foreign('gone', {})).spec
    await world.remove('Service', 'gone')
    const change = (more: object) => apply('pool', ['foo0', 'foo1'], 1, pool(1, more))
    const uid = async () => (await world.get<Made>('Service', 'pool-svc'))?.metadata.uid
    const first = await uid()
    await change({ type: 'NodePort', ports: [{ ...service(81).ports[0], nodePort }] })
    await eventually(() => expect(controller.output).toContain('port is already allocated'))
    expect(await uid()).toBe(first)
    await change({ clusterIP })
    await eventually(async () => {
      expect(await uid()).not.toBe(first)
      expect((await world.get<Made>('Service', 'pool-svc'))?.spec).toMatchObject({ clusterIP })
    })
    await apply('pool', ['foo0', 'foo1'], 1, {})
    await eventually(async () => {
      expect(await namesIn(world, 'Deployment')).toEqual([])
      expect(await namesIn(world, 'Service')).toEqual(['foreign'])
      expect(await podsOf('pool')).toEqual([])
    })
  })
})
