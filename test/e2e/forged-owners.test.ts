import { randomBytes } from 'node:crypto'
import { JOBS, objectKey, PODS, Resource, type ResourceKind, SERVICES } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { useController } from './support/controlled-world.js'
import type { HostController } from './support/host-controller.js'
import { alivePodsIn, type Made, namesIn, podSpec, runningPodsIn, service } from './support/made.js'
import { missing, NODE_1, NODE_2, NODES, unless } from './support/nodes.js'
import { echoYaml, eventually, type World } from './support/world.js'

// An attacker who may write Pods, Jobs and Services in one namespace, and nothing in the namespace
// of a Configuration, forges the owner of these objects.

const HELD = 'akri.test/held'

describe.skipIf(missing() !== undefined)(`forged owners on a real cluster${unless}`, () => {
  let world: World
  let controller: HostController
  let hostile: string

  useController((opened) => {
    world = opened.world
    controller = opened.controller
  })

  beforeEach(async () => {
    hostile = `akri-${randomBytes(3).toString('hex')}`
    const body = { metadata: { name: hostile } }
    await world.client.request({ method: 'POST', path: '/api/v1/namespaces', body })
    // A namespace without a service account takes no Pods.
    await eventually(() =>
      world.client.request({
        method: 'POST',
        path: `/api/v1/namespaces/${hostile}/pods`,
        query: { dryRun: 'All' },
        body: { metadata: { name: 'x' }, spec: podSpec('', {}, {}) },
      }),
    )
  })

  afterEach(async () => {
    for (const kind of [PODS, JOBS, SERVICES]) {
      const api = new Resource(world.client, kind)
      for (const { metadata } of await objects(kind)) {
        const key = objectKey(hostile, metadata.name)
        await api.delete(key, {}, { gracePeriodSeconds: 0, propagationPolicy: 'Background' })
        await api.patch(key, 'merge', { metadata: { finalizers: null } }).catch(() => undefined)
      }
    }
    await world.client.request({ method: 'DELETE', path: `/api/v1/namespaces/${hostile}` })
  })

  async function objects(kind: ResourceKind): Promise<Made[]> {
    const path = new Resource(world.client, kind).path(hostile)
    const { items } = (await world.client.request({ method: 'GET', path })) as { items: Made[] }
    return items
  }

  /** Creates an object in the hostile namespace that names an Instance of the other namespace. */
  async function forge(
    kind: ResourceKind,
    name: string,
    { node = NODE_1, spec }: { readonly node?: string; readonly spec: object },
  ): Promise<void> {
    const [instance] = await world.instances()
    const owner = {
      apiVersion: 'akri.sh/v0',
      kind: 'Instance',
      name: instance?.metadata.name,
      uid: instance?.metadata.uid,
      controller: true,
    }
    const metadata = {
      name,
      labels: {
        controller: 'akri.sh',
        'akri.sh/configuration': 'cam',
        'akri.sh/instance': instance?.metadata.name,
        'akri.sh/target-node': node,
      },
      annotations: { 'akri.sh/target-node': node },
      ownerReferences: [owner],
      // The garbage collector deletes an object whose owner is in another namespace. With a
      // finalizer the object stays, and a Pod that is being deleted uses its slot.
      finalizers: [HELD],
    }
    await new Resource(world.client, kind).create(hostile, { metadata, spec })
  }

  const forgePods = (prefix: string) =>
    Promise.all(
      NODES.map((node, index) =>
        forge(PODS, `${prefix}-${index}`, {
          node,
          spec: podSpec('exec sleep 100000', { nodeName: node }, {}),
        }),
      ),
    )

  it('C8 in another namespace neither end brokers nor keep them away', async () => {
    const spec = { brokerSpec: { brokerPodSpec: podSpec() }, instanceServiceSpec: service(80) }
    await world.apply(echoYaml('cam', ['foo0'], 2, spec))
    const before = (await eventually(() => runningPodsIn(world, 2))).map(
      ({ metadata }) => metadata.uid,
    )
    // A Pod of the first name of a node would stay, and the broker would go.
    await forgePods('0')
    await forge(SERVICES, 'cam-8120fe-svc', { spec: { ports: [{ port: 7 }] } })
    await eventually(async () => expect(await objects(PODS)).toHaveLength(2))
    // The controller has seen the forged Pods, and has reconciled the Instance since.
    await world.remove('Pod', `${NODE_1}-cam-8120fe-pod`)
    const after = await eventually(async () => {
      const found = (await runningPodsIn(world, 2)).map(({ metadata }) => metadata.uid)
      expect(found.filter((uid) => before.includes(uid))).toHaveLength(1)
      return found
    })
    // A device that comes back gets brokers too, while forged Pods are there.
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2, spec))
    await eventually(() => runningPodsIn(world, 4))
    const all = (await runningPodsIn(world, 4)).map(({ metadata }) => metadata.uid)
    expect(all).toEqual(expect.arrayContaining(after))
    // Nothing of the hostile namespace is deleted or changed by the controller.
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await alivePodsIn(world)).toEqual([]))
    expect(await namesIn(world, 'Service')).toEqual([])
    expect((await objects(PODS)).map(({ metadata }) => metadata.name)).toEqual(['0-0', '0-1'])
    expect((await objects(SERVICES)).map(({ metadata }) => metadata.name)).toEqual([
      'cam-8120fe-svc',
    ])
    for (const { metadata } of [...(await objects(PODS)), ...(await objects(SERVICES))])
      expect(metadata.annotations).not.toHaveProperty('akri.sh/broker-spec-hash')
    expect(controller.output).not.toMatch(/"(0-0|0-1)"/)
  })

  it('C8 in another namespace keep no broker Job away, and let none run twice', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.instances()).toHaveLength(1))
    const template = { spec: podSpec('true', { restartPolicy: 'Never' }, {}) }
    await forge(JOBS, 'cam-8120fe-1-job', { spec: { template } })
    const broker = { template: { spec: podSpec('true', { restartPolicy: 'Never' }) } }
    await world.apply(echoYaml('cam', ['foo0'], 2, { brokerSpec: { brokerJobSpec: broker } }))
    const [job] = await eventually(async () => {
      const found = await world.list<Made>('Job')
      expect(found.map(({ status }) => status)).toMatchObject([{ succeeded: 1 }])
      return found
    })
    const instances = await world.instances()
    expect(instances).toMatchObject([{ status: { brokerJob: { name: job?.metadata.name } } }])
    expect(await objects(JOBS)).toHaveLength(1)
  })

  it('in its namespace show in an Event if they take all names of a broker', async () => {
    const name = `${NODE_2}-cam-8120fe-pod`
    const pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: {
        name,
        labels: { 'akri.sh/instance': 'cam-8120fe' },
        annotations: { 'akri.sh/target-node': NODE_2 },
      },
      spec: podSpec('exec sleep 100000', {}, {}),
    }
    await world.apply(echoYaml('cam', ['foo0'], 2))
    const [instance] = await eventually(async () => {
      const found = await world.instances()
      expect(found[0]?.spec.nodes).toHaveLength(2)
      return found
    })
    const owner = {
      apiVersion: 'akri.sh/v0',
      kind: 'Instance',
      name: 'cam-8120fe',
      uid: instance?.metadata.uid,
      controller: true,
    }
    // Without the label of the controller the Pod is no broker, whatever its reference says.
    const taken = { ...pod, metadata: { ...pod.metadata, ownerReferences: [owner] } }
    await world.apply(JSON.stringify(taken))
    await world.apply(echoYaml('cam', ['foo0'], 2, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const brokers = await eventually(() => runningPodsIn(world, 3))
    expect(brokers.map(({ metadata }) => metadata.name)).toEqual([
      `${NODE_1}-cam-8120fe-pod`,
      name,
      expect.stringMatching(new RegExp(`^${name}-[0-9a-f]{10}$`)),
    ])
    // The attacker knows the other name too, and takes both.
    const other = brokers[2]?.metadata.name ?? ''
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await namesIn(world, 'Pod')).toEqual([name]))
    await world.apply(JSON.stringify({ ...pod, metadata: { ...pod.metadata, name: other } }))
    await world.apply(echoYaml('cam', ['foo0'], 2, { brokerSpec: { brokerPodSpec: podSpec() } }))
    await eventually(async () => {
      const path = `/api/v1/namespaces/${world.namespace}/events`
      const { items } = (await world.client.request({ method: 'GET', path })) as {
        items: { reason: string; message: string; involvedObject: object }[]
      }
      expect(items).toContainEqual(
        expect.objectContaining({
          reason: 'BrokerFailed',
          involvedObject: expect.objectContaining({ kind: 'Instance', name: 'cam-8120fe' }),
          message:
            `${name} and ${other} in ${world.namespace} belong to another owner: delete or ` +
            'rename one of them',
        }),
      )
    })
    await world.remove('Pod', other)
    await eventually(() => runningPodsIn(world, 3))
    // The metrics count no Pod without the label of the controller.
    await world.remove('Pod', name)
  })
})
