import { setMaxListeners } from 'node:events'
import { keyOf, type ObjectEvent, type ObjectKey, objectKey } from '@akrijs/kube'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../test/support/eventually.js'
import { brokerPod } from './brokers/broker-template.js'
import type { ClusterState } from './cluster-state.js'
import { alternativeName, specHash } from './labels.js'
import type { TestApi } from './testing/api.js'
import { TestControl } from './testing/control.js'
import {
  AKRI,
  CONFIGURATION,
  JOB_BROKER,
  ownerReference,
  POD_BROKER,
  T0,
  testConfiguration,
  testInstance,
} from './testing/objects.js'

// A person who may create Pods, Jobs and Services, but no Configurations, writes owner references
// to the Instance and the Configuration of another author.

const NODE = 'a'
const POOL_BROKER = { brokerSpec: { brokerDeploymentSpec: { template: {} } } }
const SERVICES = {
  instanceServiceSpec: { ports: [{ port: 80 }] },
  configurationServiceSpec: { ports: [{ port: 81 }] },
}

const LABELS = {
  controller: 'akri.sh',
  'akri.sh/configuration': 'cam',
  'akri.sh/instance': 'cam-8120fe',
  'akri.sh/target-node': NODE,
}
const OWNER = ownerReference('Instance', 'cam-8120fe')

const pods = (namespace: string) => `/api/v1/namespaces/${namespace}/pods`
const services = (namespace: string) => `/api/v1/namespaces/${namespace}/services`
const jobs = (namespace: string) => `/apis/batch/v1/namespaces/${namespace}/jobs`
const deployments = (namespace: string) => `/apis/apps/v1/namespaces/${namespace}/deployments`

/** What a reference or the labels of a forged object have wrong. */
const FORGERIES = [
  ['in another namespace', { namespace: 'other' }],
  ['of another group', { owner: { apiVersion: 'akri.example/v0' } }],
  ['of another kind', { owner: { kind: 'Device' } }],
  ['of another name', { owner: { name: 'cam-a19705' } }],
  ['that is not the controller', { owner: { controller: false } }],
  ['without the label of the controller', { labels: { 'akri.sh/instance': 'cam-8120fe' } }],
] as const satisfies readonly (readonly [string, Forgery])[]

interface Forgery {
  readonly namespace?: string
  readonly owner?: object
  readonly labels?: object
}

describe('forged owner references', () => {
  let controller: TestControl
  let api: TestApi
  let clock: ManualClock
  let events: ObjectEvent[]
  let state: ClusterState
  let forged: Map<string, unknown>
  const instance = testInstance([NODE])

  beforeEach(() => {
    controller = new TestControl()
    ;({ api, clock, events } = controller)
    forged = new Map()
    api.putNode(NODE)
    api.put(`${AKRI}/instances/cam-8120fe`, { ...instance })
  })

  afterEach(() => controller.stop())

  const configuration = (spec: Parameters<typeof testConfiguration>[0]) =>
    api.putConfiguration(spec)

  /** Puts an object with a forged owner at a path. */
  function forge(
    collection: (namespace: string) => string,
    name: string,
    { namespace = 'plant', owner, labels = LABELS }: Forgery,
    more: object = {},
  ): void {
    const path = `${collection(namespace)}/${name}`
    const metadata = {
      name,
      namespace,
      labels,
      annotations: { 'akri.sh/target-node': NODE },
      ownerReferences: [{ ...OWNER, ...owner }],
      // The garbage collector would delete an object whose owner is in another namespace.
      finalizers: ['example.org/held'],
    }
    forged.set(path, api.put(path, { metadata, ...more }))
  }

  async function start(): Promise<void> {
    await controller.start({ nodeGraceMs: 1000 })
    state = controller.state
  }

  /** Nothing was written to a forged object. */
  function expectUntouched(): void {
    for (const [path, object] of forged) {
      expect(api.objects.get(path)).toEqual(object)
      const written = api.requests.filter((one) => one.method !== 'GET' && one.path === path)
      expect(written).toEqual([])
    }
  }

  it.each([
    ['Pod', POD_BROKER, pods, `${NODE}-cam-8120fe-pod`],
    ['Job', JOB_BROKER, jobs, 'cam-8120fe-3-job'],
  ] as const)('C8 neither keep a broker %s away nor end it', async (kind, broker, of, name) => {
    configuration({ ...broker, ...SERVICES })
    const running = { spec: { nodeName: NODE }, status: { phase: 'Running' } }
    // Their names come first: of two brokers of a node the first one would stay.
    for (const [index, [, forgery]] of FORGERIES.entries())
      forge(of, `0-${index}`, forgery, running)
    await start()
    const own = `${of('plant')}/${name}`
    await eventually(() => expect(api.objects.has(own)).toBe(true))
    api.put(own, { ...(api.objects.get(own) ?? expect.fail()), ...(kind === 'Pod' && running) })
    const failed = { ...running, status: { phase: 'Failed' } }
    for (const [index, [, forgery]] of FORGERIES.entries()) forge(of, `1-${index}`, forgery, failed)
    if (kind === 'Pod')
      await eventually(() =>
        expect(api.objects.has(`${services('plant')}/cam-8120fe-svc`)).toBe(true),
      )
    // The owner removes the broker: forged objects are no brokers.
    configuration({})
    await eventually(() => expect(api.objects.has(own)).toBe(false))
    expect(api.sent('POST')).toHaveLength(1)
    expectUntouched()
  })

  it('R86 have no part in the end of a Job, from another namespace', async () => {
    configuration(JOB_BROKER)
    await start()
    const own = `${jobs('plant')}/cam-8120fe-3-job`
    await eventually(() => expect(api.objects.has(own)).toBe(true))
    const job = api.objects.get(own) ?? expect.fail()
    const reference = { apiVersion: 'batch/v1', kind: 'Job', name: job.metadata.name }
    // A refused Pod would let the firmware update of the Job run a second time.
    forge(
      pods,
      'refused',
      { namespace: 'other', owner: { ...reference, uid: job.metadata.uid } },
      { status: { phase: 'Failed', reason: 'UnexpectedAdmissionError' } },
    )
    await eventually(() => expect(state.pods.cache.list()).toHaveLength(1))
    const since = new Date(T0).toISOString()
    const failed = { conditions: [{ type: 'Failed', status: 'True', lastTransitionTime: since }] }
    api.put(own, { ...job, status: failed })
    await eventually(() =>
      expect(api.objects.get(`${AKRI}/instances/cam-8120fe`)?.status).toMatchObject({
        brokerJob: { name: 'cam-8120fe-3-job' },
      }),
    )
    await clock.advance(3_600_000)
    expect(api.sent('DELETE')).toEqual([])
  })

  it.each(FORGERIES)(
    'C8 are not taken over for Services and a Deployment, with a reference %s',
    async (_what, forgery) => {
      configuration({ ...POOL_BROKER, ...SERVICES })
      const owner = { kind: 'Configuration', name: 'cam', uid: 'uid-cam' }
      const ofConfiguration = {
        ...forgery,
        owner: { ...owner, ...('owner' in forgery ? forgery.owner : {}) },
      }
      const spec = { selector: { mine: 'yes' } }
      forge(services, 'cam-svc', ofConfiguration, { spec })
      forge(deployments, 'cam-deployment', ofConfiguration, { spec })
      api.put(`${pods('plant')}/x`, {
        metadata: { name: 'x', labels: LABELS },
        status: { phase: 'Running' },
      })
      await start()
      const own = [`${services('plant')}/cam-svc`, `${deployments('plant')}/cam-deployment`]
      if ('namespace' in forgery)
        await eventually(() => {
          for (const path of own) expect(api.objects.has(path)).toBe(true)
        })
      else
        await eventually(() => {
          for (const name of ['cam-svc', 'cam-deployment'])
            expect(events).toContainEqual({
              regarding: { kind: 'Configuration', key: 'plant/cam' },
              type: 'Warning',
              reason: 'BrokerFailed',
              message: `${name} in plant belongs to another owner: delete or rename that object`,
            })
        })
      configuration({})
      await api.seen(state.configurations, CONFIGURATION)
      expectUntouched()
    },
  )

  it('report a change to no key of another namespace', async () => {
    configuration(POD_BROKER)
    state = (await api.start(clock)).state
    const told: ObjectKey[] = []
    const { signal } = new AbortController()
    setMaxListeners(0, signal)
    state.onInstanceChange((key) => told.push(key), signal)
    state.onConfigurationChange((key) => told.push(key), signal)
    forge(pods, 'x', { namespace: 'other' })
    await eventually(() =>
      expect(new Set(told)).toEqual(new Set(['other/cam-8120fe', 'other/cam'])),
    )
  })

  it('give a broker another name if they take its name, without the label', async () => {
    configuration(POD_BROKER)
    const [, forgery] = FORGERIES[5]
    forge(pods, `${NODE}-cam-8120fe-pod`, forgery, { spec: { nodeName: NODE } })
    await start()
    const other = alternativeName(`${NODE}-cam-8120fe-pod`, `${instance.metadata.uid} ${NODE}`)
    await eventually(() => expect(api.objects.has(`${pods('plant')}/${other}`)).toBe(true))
    expectUntouched()
  })

  it('show in an Event, with what helps, if they take both names of a broker', async () => {
    configuration(POD_BROKER)
    const name = `${NODE}-cam-8120fe-pod`
    const other = alternativeName(name, `${instance.metadata.uid} ${NODE}`)
    for (const taken of [name, other]) forge(pods, taken, FORGERIES[2][1])
    await start()
    await eventually(() =>
      expect(events).toContainEqual({
        regarding: { kind: 'Instance', key: keyOf(instance) },
        type: 'Warning',
        reason: 'BrokerFailed',
        message:
          `${name} and ${other} in plant belong to another owner: ` +
          'delete or rename one of them',
      }),
    )
    expectUntouched()
    // The controller tries again by itself.
    api.remove(`${pods('plant')}/${name}`)
    await inSteps(
      clock,
      () => {
        expect(api.objects.get(`${pods('plant')}/${name}`)?.metadata).toMatchObject({
          ownerReferences: [{ uid: instance.metadata.uid }],
        })
      },
      60_000,
    )
  })

  it('R102 are not mixed up with a Service whose label a person removed', async () => {
    configuration({ ...POD_BROKER, ...SERVICES })
    const pod = brokerPod({
      instance,
      node: instance.spec.nodes[0] ?? expect.fail(),
      spec: POD_BROKER.brokerSpec.brokerPodSpec,
      hash: specHash(POD_BROKER.brokerSpec.brokerPodSpec),
      restarts: 0,
    })
    api.put(`${pods('plant')}/${NODE}-cam-8120fe-pod`, {
      metadata: {},
      ...pod,
      status: { phase: 'Running' },
    })
    await start()
    const path = `${services('plant')}/cam-8120fe-svc`
    await eventually(() => expect(api.objects.has(path)).toBe(true))
    await eventually(() => expect(state.services.cache.list()).toHaveLength(2))
    const found = api.objects.get(path) ?? expect.fail()
    api.put(path, { ...found, metadata: { ...found.metadata, labels: { mine: 'yes' } } })
    await eventually(() =>
      expect(api.objects.get(path)?.metadata.labels).toMatchObject({ controller: 'akri.sh' }),
    )
    expect(events).toEqual([])
  })

  it('that hold a deleted Job keep no new Job away for ever, and show in an Event', async () => {
    configuration(JOB_BROKER)
    await start()
    const own = `${jobs('plant')}/cam-8120fe-3-job`
    await eventually(() => expect(api.objects.has(own)).toBe(true))
    await eventually(() =>
      expect(api.objects.get(`${AKRI}/instances/cam-8120fe`)?.status).toBeDefined(),
    )
    const job = api.objects.get(own) ?? expect.fail()
    // The garbage collector waits for each object that names the Job as its owner.
    api.put(own, { ...job, metadata: { ...job.metadata, finalizers: ['foregroundDeletion'] } })
    const changed = { template: { metadata: { annotations: { version: '2' } } } }
    const { metadata, ...rest } = testConfiguration({ brokerSpec: { brokerJobSpec: changed } })
    api.put(`${AKRI}/configurations/cam`, { ...rest, metadata: { ...metadata, generation: 4 } })
    await eventually(() => expect(api.objects.get(own)?.metadata.deletionTimestamp).toBeDefined())
    const deleted = String(api.objects.get(own)?.metadata.deletionTimestamp)
    clock.set(Date.parse(deleted) + 300_000 - clock.wallMs())
    const next = `${jobs('plant')}/cam-8120fe-4-job`
    await inSteps(
      clock,
      () => {
        expect(api.objects.has(next)).toBe(true)
        expect(events).toContainEqual({
          regarding: { kind: 'Instance', key: keyOf(instance) },
          type: 'Warning',
          reason: 'BrokerFailed',
          message:
            `Job plant/cam-8120fe-3-job has been waiting for its deletion since ${deleted}: ` +
            'find out what its finalizers foregroundDeletion wait for, or remove them',
        })
      },
      60_000,
    )
  })

  it('C8 of an Instance lead to no brokers, from another namespace or owner', async () => {
    configuration(POD_BROKER)
    const { metadata, ...rest } = testInstance([NODE])
    const other = { ...metadata, namespace: 'other', uid: 'uid-other' }
    api.put('/apis/akri.sh/v0/namespaces/other/instances/cam-8120fe', { ...rest, metadata: other })
    api.put('/apis/akri.sh/v0/namespaces/other/configurations/cam', {
      ...testConfiguration(POD_BROKER),
      metadata: { ...testConfiguration().metadata, namespace: 'other', uid: 'uid-other-cam' },
    })
    const ownerReferences = metadata.ownerReferences?.map((owner) => ({ ...owner, uid: 'old' }))
    const before = { ...metadata, name: 'cam-a19705', uid: 'uid-before', ownerReferences }
    api.put(`${AKRI}/instances/cam-a19705`, { ...rest, metadata: before })
    await start()
    await eventually(() =>
      expect(api.objects.has(`${pods('plant')}/${NODE}-cam-8120fe-pod`)).toBe(true),
    )
    expect(api.sent('POST')).toHaveLength(1)
    const found = state.instances.cache.get(objectKey('other', 'cam-8120fe')) ?? expect.fail()
    expect(state.ownerOf(found)).toBeUndefined()
    expect(api.requests.filter(({ path }) => path === pods('other'))).toEqual([])
  })
})
