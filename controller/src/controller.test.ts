import { type ObjectEvent, type ObjectKey, objectKey } from '@akrijs/kube'
import { type Logger, silentLogger } from '@akrijs/runtime'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../test/support/eventually.js'
import { listenerWarnings } from '../../test/support/listener-warnings.js'
import type { ClusterState } from './cluster-state.js'
import { type TestApi, withoutStatus } from './testing/api.js'
import { TestControl } from './testing/control.js'
import {
  AKRI,
  CONFIGURATION,
  INSTANCE,
  JOB_BROKER,
  JOBS,
  ownerReference,
  POD_BROKER,
  PODS,
  T0,
  testConfiguration,
  testInstance,
} from './testing/objects.js'

const LEASE = '/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/b'
const POD = `${PODS}/a-cam-8120fe-pod`
const SERVICES = '/api/v1/namespaces/plant/services'
const DEPLOYMENTS = '/apis/apps/v1/namespaces/plant/deployments'
const GRACE_MS = 300_000
const DELETED = { finalizers: ['akri.test/held'], deletionTimestamp: new Date(T0).toISOString() }

interface LogLine {
  readonly message: string
  readonly fields: Readonly<Record<string, unknown>>
}

describe('the work of a controller', () => {
  let controller: TestControl
  let api: TestApi
  let clock: ManualClock
  let events: [ObjectEvent, string | undefined][]
  let warnings: LogLine[]
  let failures: LogLine[]

  beforeEach(() => {
    controller = new TestControl()
    ;({ api, clock } = controller)
    events = []
    warnings = []
    failures = []
  })

  afterEach(() => controller.stop())

  async function start(prepare?: (state: ClusterState) => void): Promise<void> {
    const log: Logger = {
      ...silentLogger,
      warn: (fields, message) => warnings.push({ fields, message }),
      error: (fields, message) => failures.push({ fields, message }),
    }
    const recorder = {
      record: (event: ObjectEvent, uid: string | undefined) => void events.push([event, uid]),
    }
    const parts = await api.start(clock)
    prepare?.(parts.state)
    await controller.start({ log, events: recorder, nodeGraceMs: GRACE_MS }, parts)
  }

  const sentTo = (method: string, path: string) =>
    api.requests.filter((request) => request.method === method && request.path === path)

  /** A Configuration of the namespace `plant`, or an older one of another namespace. */
  function putConfiguration(name: string, spec: object, olderIn?: string): string {
    const { metadata, ...rest } = testConfiguration(spec)
    const uid = `uid-${olderIn ?? ''}${name}`
    const age = olderIn && { namespace: olderIn, creationTimestamp: '2025-01-01T00:00:00Z' }
    const path = `/apis/akri.sh/v0/namespaces/${olderIn ?? 'plant'}/configurations/${name}`
    api.put(path, { ...rest, metadata: { ...metadata, ...age, name, uid } })
    return path
  }

  /** The Instance of a Configuration of {@link putConfiguration}. */
  function putInstance(configuration: string, uid = `uid-${configuration}-8120fe`): void {
    const { metadata, spec, ...rest } = testInstance(['a'], { name: `${configuration}-8120fe` })
    const ownerReferences = [ownerReference('Configuration', configuration)]
    api.put(`${AKRI}/instances/${metadata.name}`, {
      ...rest,
      metadata: { ...metadata, uid, ownerReferences },
      spec: { ...spec, configurationName: configuration },
    })
  }

  function putRunning(pod: string): void {
    api.put(pod, { ...(api.objects.get(pod) ?? expect.fail()), status: { phase: 'Running' } })
  }

  it.each([
    ['behind', -3_600_000],
    ['ahead', 3_600_000],
    ['years ahead', 9e12],
  ])('measures times from its own first sight: its clock is %s', async (_what, ms) => {
    controller = new TestControl(T0 + ms)
    ;({ api, clock } = controller)
    api.putNode('a')
    api.putNode('b', 'Unknown')
    api.put(LEASE, { spec: { renewTime: new Date(T0).toISOString() } })
    api.putConfiguration(POD_BROKER)
    api.putInstance(['a', 'b'])
    await start()
    await eventually(() => expect(api.objects.get(POD)).toBeDefined())
    const { uid } = api.objects.get(POD)?.metadata ?? {}
    const startTime = new Date(T0).toISOString()
    api.put(POD, { ...api.objects.get(POD), status: { phase: 'Pending', startTime } })
    await clock.advance(GRACE_MS - 1)
    expect(api.objects.get(POD)?.metadata.uid).toBe(uid)
    expect(api.objects.get(INSTANCE)).toMatchObject({ spec: { nodes: ['a', 'b'] } })
    await inSteps(clock, () => {
      expect(api.objects.get(POD)?.metadata.uid).not.toBe(uid)
      expect(api.objects.get(INSTANCE)).toMatchObject({ spec: { nodes: ['a'] } })
    })
    await controller.end()
    expect(clock.sleeping).toEqual([])
  })

  it('adds few listeners to each signal for many Configurations', async () => {
    const names = Array.from({ length: 30 }, (_, index) => `many-${index}`)
    const warnings = await listenerWarnings(async () => {
      api.putNode('a')
      await start()
      for (const [index, name] of names.entries()) {
        putConfiguration(name, {
          ...(index % 2 === 0 ? POD_BROKER : JOB_BROKER),
          instanceServiceSpec: {},
        })
        putInstance(name)
      }
      const created = (path: string) =>
        [...api.objects.keys()].filter((key) => key.startsWith(`${path}/`))
      await eventually(() => {
        expect(created(PODS)).toHaveLength(15)
        expect(created(JOBS)).toHaveLength(15)
      })
      await controller.end()
    })
    expect(warnings).toEqual([])
  })

  it('sends one request for each broker, two for each Service, none after a restart', async () => {
    api.putNode('a')
    api.putNode('b')
    putConfiguration('cam', { ...POD_BROKER, instanceServiceSpec: { ports: [{ port: 80 }] } })
    const names = Array.from({ length: 20 }, (_, index) => `cam-${1000 + index}`)
    for (const name of names) api.putInstance(['a', 'b'], { name, capacity: 2 })
    const created = (path: string) =>
      [...api.objects.keys()].filter((key) => key.startsWith(`${path}/`))
    const sent = () => api.requests.splice(0).map(({ method }) => method)
    const times = (count: number, method: string) => Array.from({ length: count }, () => method)
    await start()
    await eventually(() => expect(created(PODS)).toHaveLength(40))
    await clock.advance(60_000)
    expect(sent()).toEqual(times(40, 'POST'))
    for (const name of names) putRunning(`${PODS}/a-${name}-pod`)
    await eventually(() => expect(created(SERVICES)).toHaveLength(20))
    await clock.advance(60_000)
    expect(sent().toSorted()).toEqual([...times(20, 'GET'), ...times(20, 'PATCH')])
    await controller.stop()
    await start()
    // The last action shows that all others are done.
    const [last = ''] = created(PODS)
    api.remove(last)
    await eventually(() => expect(api.objects.has(last)).toBe(true))
    await clock.advance(60_000)
    // The Instance records that another client deletes its brokers soon after their creation.
    expect(sent()).toEqual(['PATCH', 'POST'])
  })

  it('labels Instances without labels, and writes nothing to others', async () => {
    const put = (name: string, shared: boolean, labels?: Record<string, string>) => {
      const { metadata, ...rest } = testInstance(['a'], { name, shared })
      api.put(`${AKRI}/instances/${name}`, { ...rest, metadata: { ...metadata, labels } })
    }
    const labelsOf = (name: string) => api.objects.get(`${AKRI}/instances/${name}`)?.metadata.labels
    api.putNode('a')
    api.putConfiguration()
    put('cam-000001', true, { site: 'north' })
    put('cam-000002', false)
    put('cam-000003', true, { 'akri.sh/shared': 'true' })
    await start()
    await eventually(() => {
      expect(labelsOf('cam-000001')).toEqual({ site: 'north', 'akri.sh/shared': 'true' })
      expect(labelsOf('cam-000002')).toEqual({ 'akri.sh/node': 'a' })
    })
    // An agent of an earlier version, or of the existing system, comes beside this controller.
    put('cam-000004', false)
    await eventually(() => expect(labelsOf('cam-000004')).toEqual({ 'akri.sh/node': 'a' }))
    expect(sentTo('PATCH', `${AKRI}/instances/cam-000003`)).toEqual([])
    expect(sentTo('PATCH', `${AKRI}/instances/cam-000001`)).toHaveLength(1)
  })

  it('deletes an Instance that no node sees, and whose slots are all free', async () => {
    api.putConfiguration()
    api.putInstance([])
    const claimed = testInstance([], { name: 'cam-a19705' })
    const putClaimed = (holder: string) =>
      api.put(`${AKRI}/instances/cam-a19705`, {
        ...claimed,
        spec: { ...claimed.spec, deviceUsage: { 'cam-a19705-0': holder } },
      })
    putClaimed('b')
    api.putNode('b')
    await start()
    await eventually(() => expect(api.objects.has(INSTANCE)).toBe(false))
    // Another Instance that no node sees comes later: its deletion follows that of any before it.
    api.putInstance([], { name: 'cam-last' })
    await eventually(() => expect(api.objects.has(`${AKRI}/instances/cam-last`)).toBe(false))
    expect(sentTo('DELETE', INSTANCE)).toMatchObject([
      { body: { preconditions: { uid: 'uid-cam-8120fe' } } },
    ])
    expect(sentTo('DELETE', `${AKRI}/instances/cam-a19705`)).toEqual([])
    putClaimed('')
    await eventually(() => expect(api.objects.has(`${AKRI}/instances/cam-a19705`)).toBe(false))
  })

  it.each([
    ['an Instance', INSTANCE, testInstance([])],
    ['a Configuration', CONFIGURATION, testConfiguration()],
    ['an invalid Configuration', CONFIGURATION, testConfiguration({ capacity: -1 })],
  ])(
    'A13 releases %s whose deletion waits for the finalizer of a node that is ready',
    async (_what, path, object) => {
      const managedFields = [{ manager: 'a-fin', operation: 'Apply' }]
      const metadata = { ...object.metadata, ...DELETED, finalizers: ['a'], managedFields }
      api.put(path, { ...object, metadata })
      api.putNode('a')
      await start()
      await eventually(() => expect(clock.sleeping).toContain(GRACE_MS))
      await clock.advance(GRACE_MS)
      await eventually(() =>
        expect(sentTo('PATCH', path).map(({ body }) => body)).toEqual([
          [
            { op: 'test', path: '/metadata/finalizers/0', value: 'a' },
            { op: 'remove', path: '/metadata/finalizers/0' },
          ],
        ]),
      )
    },
  )

  it('A8 has no workloads for Configurations while older ones have their names', async () => {
    api.putNode('a')
    const services = {
      instanceServiceSpec: { ports: [{ port: 80 }] },
      configurationServiceSpec: { ports: [{ port: 81 }] },
    }
    putConfiguration('pod', { ...POD_BROKER, ...services })
    putConfiguration('job', JOB_BROKER)
    // The name could be that of an Instance of an older Configuration.
    putConfiguration('pool-a19705', { brokerSpec: { brokerDeploymentSpec: {} } })
    putInstance('pod')
    putInstance('job')
    const pod = `${PODS}/a-pod-8120fe-pod`
    const workloads = [
      pod,
      `${SERVICES}/pod-8120fe-svc`,
      `${SERVICES}/pod-svc`,
      `${JOBS}/job-8120fe-3-job`,
      `${DEPLOYMENTS}/pool-a19705-deployment`,
    ]
    const present = () => workloads.filter((path) => api.objects.has(path))
    const complete = async () => {
      await eventually(async () => {
        // The controller puts a broker off that has just ended.
        await clock.advance(60_000)
        expect(api.objects.has(pod)).toBe(true)
      })
      putRunning(pod)
      await eventually(() => expect(present()).toEqual(workloads))
    }
    const putOlder = () =>
      ['pod', 'job', 'pool'].map((name) => putConfiguration(name, {}, 'factory'))
    let older = putOlder()
    await start()
    // The work on a Configuration without a rival ends after that on those before it.
    putConfiguration('last', { brokerSpec: { brokerDeploymentSpec: {} } })
    await eventually(() => expect(api.objects.has(`${DEPLOYMENTS}/last-deployment`)).toBe(true))
    expect(present()).toEqual([])
    for (const path of older) api.remove(path)
    await complete()
    older = putOlder()
    await eventually(() => expect(present()).toEqual([]))
    for (const path of older) api.remove(path)
    // The agents had deleted the Instance: the Job of the next Instance is another one.
    putInstance('job', 'uid-returned')
    await complete()
  })

  it('R56 deletes the Job, with its Pods first, after the device was taken away', async () => {
    api.putNode('a')
    api.putConfiguration(JOB_BROKER)
    const instance = testInstance(['a'])
    api.put(INSTANCE, { ...instance })
    const job = `${JOBS}/cam-8120fe-3-job`
    await start()
    await eventually(() => expect(api.objects.has(job)).toBe(true))
    api.put(INSTANCE, { ...instance, metadata: { ...instance.metadata, ...DELETED } })
    await eventually(() => expect(api.objects.has(job)).toBe(false))
    expect(sentTo('DELETE', job).map(({ body }) => body)).toMatchObject([
      { preconditions: { uid: expect.any(String) }, propagationPolicy: 'Foreground' },
    ])
    // The Instance comes back as another object, whose Job is another one.
    api.remove(INSTANCE)
    api.put(INSTANCE, { ...instance, metadata: { ...instance.metadata, uid: 'uid-returned' } })
    await eventually(() =>
      expect(api.objects.get(job)?.metadata).toMatchObject({
        ownerReferences: [ownerReference('Instance', 'cam-8120fe', 'uid-returned')],
      }),
    )
  })

  it('tells each custom resource without a status once, and goes on after its update', async () => {
    api.putNode('a')
    for (const name of ['cam', 'mic']) {
      putConfiguration(name, JOB_BROKER)
      putInstance(name)
    }
    const entryOf = (name: string) => {
      const conditions = [{ type: 'Ready', status: 'True', reason: 'R', message: 'text' }]
      return { uid: `uid-${name}`, observedGeneration: 3, devices: 1, conditions }
    }
    const configurations = { 'plant/cam': entryOf('cam'), 'plant/mic': entryOf('mic') }
    api.put('/apis/akri.sh/v0/nodereports/a', { configurations })
    api.refusal = withoutStatus
    await start()
    const told = () => failures.map(({ fields }) => String(fields.resource)).toSorted()
    await eventually(() => expect(told()).toEqual(['configurations.akri.sh', 'instances.akri.sh']))
    await eventually(() =>
      expect(
        new Set(events.map(([{ regarding, reason }]) => [regarding.key, reason].join())),
      ).toEqual(new Set(['plant/cam-8120fe,BrokerFailed', 'plant/mic-8120fe,BrokerFailed'])),
    )
    await clock.advance(600_000)
    expect(told()).toHaveLength(2)
    expect(warnings).toEqual([])
    expect(sentTo('POST', JOBS)).toEqual([])
    api.refusal = () => undefined
    await inSteps(
      clock,
      () => {
        expect(sentTo('POST', JOBS)).toHaveLength(2)
        for (const name of ['cam', 'mic']) {
          const found = api.objects.get(`${AKRI}/configurations/${name}`)
          expect(found?.status).toMatchObject({ devices: 1 })
        }
      },
      10_000,
    )
  })

  it('C10 goes on after an outage of the API server, and shows no failure of objects', async () => {
    api.putNode('a')
    api.putConfiguration(POD_BROKER)
    api.putInstance(['a'])
    await start()
    const pod = (name: string) => `${PODS}/a-${name}-pod`
    await eventually(() => expect(api.objects.has(pod('cam-8120fe'))).toBe(true))
    let attempts = 0
    api.answer = (request) => {
      attempts++
      request.socket.destroy()
    }
    // The watches still report a deletion, and the next write fails.
    api.remove(pod('cam-8120fe'))
    await eventually(() => expect(warnings).not.toEqual([]))
    api.cut()
    expect(attempts).toBeGreaterThan(0)
    api.putInstance(['a'], { name: 'cam-a19705' })
    api.answer = undefined
    await eventually(async () => {
      // The queues of the controller wait by the manual clock, the watches by the real one.
      await clock.advance(60_000)
      expect([pod('cam-8120fe'), pod('cam-a19705')].map((path) => api.objects.has(path))).toEqual([
        true,
        true,
      ])
    })
    expect(events).toEqual([])
  })

  it.each(['Instance', 'Configuration'] as const)(
    'goes on with all other objects if a bug hits one %s, and backs off for that object',
    async (kind) => {
      api.putNode('a')
      for (const name of ['cam', 'poisoned']) {
        const { metadata, ...rest } = testConfiguration({
          ...POD_BROKER,
          configurationServiceSpec: { ports: [{ port: 80 }] },
        })
        const uid = `uid-${name}`
        api.put(`${AKRI}/configurations/${name}`, { ...rest, metadata: { ...metadata, name, uid } })
      }
      api.putInstance(['a'])
      const { metadata, spec, ...rest } = testInstance(['a'], { name: 'poisoned' })
      api.put(`${AKRI}/instances/poisoned`, {
        ...rest,
        metadata: {
          ...metadata,
          ownerReferences: [ownerReference('Configuration', 'poisoned')],
        },
        spec: { ...spec, configurationName: 'poisoned' },
      })
      let reads = 0
      const poisoned = (object: object) =>
        Object.defineProperty({ ...object }, 'spec', {
          get() {
            reads++
            throw new TypeError('x is not a function')
          },
        })
      await start(({ instances, configurations }) => {
        const { cache } = kind === 'Instance' ? instances : configurations
        const get = cache.get.bind(cache)
        const poisonedGet = (key: ObjectKey) => {
          const object = get(key)
          if (object === undefined || key !== objectKey('plant', 'poisoned')) return object
          return 'valid' in object
            ? { ...object, valid: object.valid && poisoned(object.valid) }
            : poisoned(object)
        }
        Object.assign(cache, { get: poisonedGet })
      })
      await eventually(() => expect(api.objects.has(`${PODS}/a-cam-8120fe-pod`)).toBe(true))
      const failed = warnings.filter(({ message }) => message === 'reconcile failed')
      expect(failed).not.toEqual([])
      for (const { fields } of failed)
        expect(fields).toMatchObject({
          key: 'plant/poisoned',
          retryInMs: expect.any(Number),
          err: { stack: expect.stringContaining('TypeError: x is not a function\n    at ') },
        })
      expect(new Set(events.map(([{ reason }, uid]) => `${reason} ${uid}`))).toEqual(
        new Set(['InternalError uid-poisoned']),
      )
      const before = reads
      await clock.advance(60_000)
      await eventually(() => expect(reads).toBeGreaterThan(before))
      // The others are still served.
      api.remove(`${PODS}/a-cam-8120fe-pod`)
      await eventually(() => expect(api.objects.has(`${PODS}/a-cam-8120fe-pod`)).toBe(true))
    },
  )
})
