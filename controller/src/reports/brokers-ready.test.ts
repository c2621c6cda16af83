import { type Condition, type ConfigurationSpec, parseConfigurationStatus } from '@akrijs/api'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import type { TestApi } from '../testing/api.js'
import { TestControl } from '../testing/control.js'
import { AKRI, CONFIGURATION, JOBS, PODS, T0, testInstance } from '../testing/objects.js'

const DEPLOYMENT = '/apis/apps/v1/namespaces/plant/deployments/cam-deployment'
const SENTENCE = 'pods "x" is forbidden: violates PodSecurity "restricted:latest"'
const TEMPLATE = { template: { spec: { containers: [] } } }

describe('the condition BrokersReady of a Configuration', () => {
  let controller: TestControl
  let api: TestApi
  let clock: ManualClock
  let refusesPods: boolean

  beforeEach(() => {
    controller = new TestControl()
    ;({ api, clock } = controller)
    refusesPods = true
    api.refusal = ({ method, path }) =>
      refusesPods && method === 'POST' && path === PODS
        ? { status: 403, message: SENTENCE }
        : undefined
  })

  afterEach(() => controller.stop())

  async function start(spec: Partial<ConfigurationSpec>, devices = ['8120fe']): Promise<void> {
    api.putNode('a')
    api.putConfiguration(spec)
    for (const device of devices)
      api.put(`${AKRI}/instances/cam-${device}`, {
        ...testInstance(['a'], { name: `cam-${device}` }),
      })
    const ready = { type: 'Ready', status: 'True', reason: 'R', message: 'text' }
    const reported = { uid: 'uid-cam', observedGeneration: 3, devices: 1, conditions: [ready] }
    api.put('/apis/akri.sh/v0/nodereports/a', { configurations: { 'plant/cam': reported } })
    await controller.start()
  }

  const conditions = (): readonly Condition[] =>
    parseConfigurationStatus(api.objects.get(CONFIGURATION))?.status?.conditions ?? []
  const counts = () => parseConfigurationStatus(api.objects.get(CONFIGURATION))?.status?.brokers
  const condition = () => conditions().find(({ type }) => type === 'BrokersReady')
  /** Lets the clock go on until the condition is so. */
  const untilIs = (expected: Partial<Condition>) =>
    inSteps(clock, () => {
      expect(condition()).toMatchObject(expected)
    })
  /** Without those of `Ready`. */
  const eventsOfConfiguration = () =>
    controller.events.filter(
      ({ regarding, message }) =>
        regarding.kind === 'Configuration' && !message.startsWith('Ready is '),
    )

  /** Changes fields of the object at a path, as a kubelet or a controller of Kubernetes does. */
  function change(path: string, fields: object): void {
    api.put(path, { ...(api.objects.get(path) ?? expect.fail(`${path} is not there`)), ...fields })
  }

  const running = {
    status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
  }

  it('is absent without a broker spec', async () => {
    await start({})
    await eventually(() => expect(conditions().map(({ type }) => type)).toEqual(['Ready']))
    expect(counts()).toBeUndefined()
  })

  it('has the sentence that refuses a Pod, with an Event, until the Pod works', async () => {
    await start({ brokerSpec: { brokerPodSpec: { containers: [] } } })
    const message = `0 of 1 broker Pods are ready, 1 failed: ${SENTENCE}`
    await untilIs({ status: 'False', reason: 'BrokerRefused', message })
    expect(eventsOfConfiguration()).toEqual([
      {
        regarding: { kind: 'Configuration', key: 'plant/cam' },
        type: 'Warning',
        reason: 'BrokerRefused',
        message,
      },
    ])
    // The condition Ready is about devices.
    expect(conditions().find(({ type }) => type === 'Ready')?.status).toBe('True')
    refusesPods = false
    await untilIs({ status: 'False', reason: 'Starting' })
    change(`${PODS}/a-cam-8120fe-pod`, running)
    await untilIs({ status: 'True', message: '1 of 1 broker Pods are ready' })
    expect(counts()).toEqual({ desired: 1, updated: 1, ready: 1 })
    expect(eventsOfConfiguration()).toHaveLength(1)
  })

  it('shows the refusal of a Pod after a node can be used again', async () => {
    const node = '/api/v1/nodes/b'
    api.putNode('b')
    change(node, { spec: { unschedulable: true } })
    api.putInstance(['b'])
    await start({ brokerSpec: { brokerPodSpec: { containers: [] } } }, [])
    await untilIs({ reason: 'NoUsableNode' })
    await clock.advance(10_000)
    change(node, { spec: {} })
    await untilIs({ reason: 'BrokerRefused' })
  })

  it('counts Pods of usable nodes only, and shows what the kubelet says', async () => {
    refusesPods = false
    await start({ brokerSpec: { brokerPodSpec: { containers: [] } } })
    await untilIs({ status: 'False', reason: 'Starting' })
    const waiting = { reason: 'ImagePullBackOff', message: 'no such image' }
    const pending = { phase: 'Pending', containerStatuses: [{ state: { waiting } }] }
    change(`${PODS}/a-cam-8120fe-pod`, { status: pending })
    await untilIs({ reason: 'ImagePullFailed' })
    expect(condition()?.message).toContain('no such image')
    const status = { conditions: [{ type: 'Ready', status: 'True' }] }
    api.put('/api/v1/nodes/a', { spec: { unschedulable: true }, status })
    const why = 'Instance cam-8120fe: no broker on a, because it is cordoned'
    const message = `0 of 1 broker Pods are ready, 1 failed: ${why}`
    await eventually(async () => {
      // The controller creates another Pod until it sees the change of the Node.
      api.remove(`${PODS}/a-cam-8120fe-pod`)
      await clock.advance(500)
      expect(condition()).toMatchObject({ status: 'False', reason: 'NoUsableNode', message })
    })
    expect(eventsOfConfiguration()).toMatchObject([{ reason: 'NoUsableNode', message }])
  })

  it('says after 30 s that no container of a Pod has started: its image may hang', async () => {
    refusesPods = false
    await start({ brokerSpec: { brokerPodSpec: { containers: [] } } })
    await untilIs({ reason: 'Starting' })
    const startTime = new Date(T0).toISOString()
    const waiting = { reason: 'ContainerCreating' }
    const pending = { phase: 'Pending', startTime, containerStatuses: [{ state: { waiting } }] }
    change(`${PODS}/a-cam-8120fe-pod`, { status: pending })
    await clock.advance(25_000)
    expect(condition()).toMatchObject({ reason: 'Starting' })
    await untilIs({ reason: 'ContainerNotCreated' })
    expect(condition()?.message).toMatch(
      /image may still be pulled.*kubectl -n plant describe pod a-cam-8120fe-pod/,
    )
    change(`${PODS}/a-cam-8120fe-pod`, running)
    await untilIs({ status: 'True' })
  })

  it('is false with an Event while no node of a device can run its broker', async () => {
    refusesPods = false
    const brokerPodSpec = { containers: [], nodeSelector: { zone: 'x' } }
    await start({ brokerSpec: { brokerPodSpec } }, ['8120fe', 'a19705'])
    const why = 'Instance cam-8120fe: no broker on a, because the nodeSelector asks for zone=x'
    await untilIs({
      status: 'False',
      reason: 'NoUsableNode',
      message: `0 of 2 broker Pods are ready, 2 failed: ${why}`,
    })
    expect(counts()).toEqual({ desired: 2, updated: 0, ready: 0 })
    expect(eventsOfConfiguration()).toHaveLength(1)
    const conditions = [{ type: 'Ready', status: 'True' }]
    api.put('/api/v1/nodes/a', { metadata: { labels: { zone: 'x' } }, status: { conditions } })
    await untilIs({ status: 'False', reason: 'Starting' })
  })

  it('asks for one Job without Pods why it has none, now and then', async () => {
    await start({ brokerSpec: { brokerJobSpec: TEMPLATE } }, ['8120fe', 'a19705'])
    await untilIs({ status: 'False', reason: 'Starting' })
    const asked = () =>
      api.requests.filter(({ path, query }) => path === PODS && query.get('dryRun') === 'All')
    expect(asked()).toEqual([])
    await untilIs({
      reason: 'BrokerRefused',
      message: `0 of 2 broker Jobs are ready, 2 failed: ${SENTENCE}`,
    })
    const [first, ...others] = asked()
    expect(first?.body).toMatchObject({
      kind: 'Pod',
      metadata: { name: 'cam-8120fe-3-job', labels: { controller: 'akri.sh' } },
      spec: { containers: [] },
    })
    expect(others).toEqual([])
    await inSteps(
      clock,
      () => {
        expect(asked()).toHaveLength(2)
      },
      1000,
    )
    for (const device of ['8120fe', 'a19705'])
      change(`${JOBS}/cam-${device}-3-job`, {
        status: { conditions: [{ type: 'Complete', status: 'True' }] },
      })
    await untilIs({ status: 'True', message: '2 of 2 broker Jobs are ready' })
    expect(counts()).toEqual({ desired: 2, updated: 2, ready: 2 })
  })

  it.each([
    [400, 'admission webhook "w.example" does not support dry run'],
    [409, 'pods "cam-8120fe-3-job" already exists'],
    [503, 'apiserver is shutting down'],
  ])('does not take the answer %i for a refusal of a Pod', async (status, message) => {
    let isAsked = false
    api.refusal = ({ method, path }) => {
      if (method !== 'POST' || path !== PODS) return undefined
      isAsked = true
      return { status, message }
    }
    await start({ brokerSpec: { brokerJobSpec: TEMPLATE } })
    await inSteps(clock, () => {
      expect(isAsked).toBe(true)
    })
    for (let i = 0; i < 10; i++) await clock.advance(500)
    expect(condition()).toMatchObject({ status: 'False', reason: 'Starting' })
  })

  it('asks for no Pod of a Job that was deleted meanwhile', async () => {
    let isDeleted = false
    api.refusal = ({ method, path }) => {
      if (method !== 'GET' || path !== `${JOBS}/cam-8120fe-3-job`) return undefined
      isDeleted = true
      return { status: 404, message: 'not found' }
    }
    await start({ brokerSpec: { brokerJobSpec: TEMPLATE } })
    await inSteps(clock, () => {
      expect(isDeleted).toBe(true)
    })
    for (let i = 0; i < 10; i++) await clock.advance(500)
    expect(api.requests.filter(({ path }) => path === PODS)).not.toContainEqual(
      expect.objectContaining({ method: 'POST' }),
    )
    expect(condition()).toMatchObject({ status: 'False', reason: 'Starting' })
  })

  it('shows why a Job failed', async () => {
    await start({ brokerSpec: { brokerJobSpec: TEMPLATE } })
    await untilIs({ status: 'False', reason: 'Starting' })
    const failed = { type: 'Failed', status: 'True', message: 'too often' }
    change(`${JOBS}/cam-8120fe-3-job`, { status: { conditions: [failed] } })
    await untilIs({ reason: 'JobFailed' })
    expect(condition()?.message).toContain('Job cam-8120fe-3-job: too often')
  })

  it('has the sentence that refuses Pods of a Deployment, and counts its Pods', async () => {
    await start({ brokerSpec: { brokerDeploymentSpec: { replicas: 2, ...TEMPLATE } } })
    await untilIs({ status: 'False', reason: 'Starting' })
    const failure = { type: 'ReplicaFailure', status: 'True', reason: 'FailedCreate' }
    change(DEPLOYMENT, { status: { conditions: [{ ...failure, message: SENTENCE }] } })
    await untilIs({
      reason: 'BrokerRefused',
      message: `0 of 2 Pods of the Deployment are ready, 1 failed: ${SENTENCE}`,
    })
    expect(eventsOfConfiguration()).toHaveLength(1)
    change(DEPLOYMENT, { status: { observedGeneration: 1, readyReplicas: 2, updatedReplicas: 1 } })
    await untilIs({ status: 'True', reason: 'Ready' })
    expect(counts()).toEqual({ desired: 2, updated: 1, ready: 2 })
    // The status is still about the template before.
    const metadata = { ...api.objects.get(DEPLOYMENT)?.metadata, generation: 2 }
    change(DEPLOYMENT, { metadata })
    await untilIs({
      status: 'False',
      reason: 'RollingOut',
      message: '2 of 2 Pods of the Deployment are ready, 0 of 2 are updated',
    })
    expect(counts()).toEqual({ desired: 2, updated: 0, ready: 2 })
  })

  it('has the sentence that refuses the Deployment itself', async () => {
    api.refusal = ({ path }) =>
      path === DEPLOYMENT ? { status: 403, message: 'exceeded quota: q' } : undefined
    await start({ brokerSpec: { brokerDeploymentSpec: TEMPLATE } })
    await untilIs({ status: 'False', reason: 'QuotaExceeded' })
  })
})
