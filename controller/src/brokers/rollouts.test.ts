import { type Configuration, type ConfigurationSpec, parseConfigurationStatus } from '@akrijs/api'
import { ApiError, objectKey } from '@akrijs/kube'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually, inSteps } from '../../../test/support/eventually.js'
import { parsePod } from '../kubernetes-objects.js'
import { TestApi } from '../testing/api.js'
import { TestControl } from '../testing/control.js'
import {
  AKRI,
  CONFIGURATION,
  ownerReference,
  POD_BROKER,
  PODS,
  T0,
  testConfiguration,
  testInstance,
  testPod,
} from '../testing/objects.js'
import { reconcileBrokers } from './reconcile-brokers.js'

const DEVICES = ['0', '1', '2', '3', '4', '5'].map((digit) => `cam-00000${digit}`)

describe('a changed spec of broker Pods', () => {
  let controller: TestControl
  let api: TestApi
  let clock: ManualClock
  let generation: number
  /** The fewest ready brokers at any moment. */
  let fewest: number

  beforeEach(async () => {
    controller = new TestControl()
    ;({ api, clock } = controller)
    generation = 1
    api.putNode('a')
    const reported = { uid: 'uid-cam', observedGeneration: 3, devices: 6, conditions: [] }
    api.put('/apis/akri.sh/v0/nodereports/a', { configurations: { 'plant/cam': reported } })
    for (const name of DEVICES) api.putInstance(['a'], { name })
    setImage('v1')
    await controller.start()
    await until(() => expect(images()).toEqual(DEVICES.map(() => 'v1')))
    await until(() => expect(readyPods()).toHaveLength(6))
    fewest = 6
    api.before = ({ method, path }) => {
      if (method !== 'DELETE' || !path.startsWith(PODS)) return
      const left = readyPods().filter(({ metadata }) => !path.endsWith(`/${metadata.name}`))
      fewest = Math.min(fewest, left.length)
    }
  })

  afterEach(() => controller.stop())

  function setImage(image: string, updateStrategy?: object): void {
    generation += 1
    const containers = [{ name: 'broker', image }]
    const brokerSpec = { brokerPodSpec: { containers }, ...(updateStrategy && { updateStrategy }) }
    const { metadata, ...rest } = testConfiguration({
      brokerSpec: brokerSpec as NonNullable<ConfigurationSpec['brokerSpec']>,
    })
    const { status } = parseConfigurationStatus(api.objects.get(CONFIGURATION)) ?? {}
    api.put(CONFIGURATION, { ...rest, metadata: { ...metadata, generation }, status })
  }

  const podPaths = () => [...api.objects.keys()].filter((path) => path.startsWith(`${PODS}/`))
  const readyPods = () =>
    podPaths()
      .flatMap((path) => parsePod(api.objects.get(path), undefined, 0) ?? [])
      .filter(({ ready }) => ready)
  const imageOf = (path: string) => {
    const { spec } = api.objects.get(path) as unknown as Spec
    return spec.containers[0]?.image ?? 'none'
  }
  const patches = (path: string) =>
    api.requests.filter((request) => request.method === 'PATCH' && request.path === path)
  const images = () => podPaths().map(imageOf).sort()

  /** Starts the Pods; no image that begins with `bad` can be pulled. */
  function startPods(): void {
    for (const path of podPaths()) {
      const found = api.objects.get(path) ?? expect.fail()
      if ('status' in found) continue
      const lastTransitionTime = new Date(clock.wallMs()).toISOString()
      const waiting = { reason: 'ErrImagePull', message: 'no such image' }
      const isReady = { type: 'Ready', status: 'True', lastTransitionTime }
      const status =
        imageOf(path) === 'silent'
          ? { phase: 'Running' }
          : imageOf(path).startsWith('bad')
            ? { phase: 'Pending', containerStatuses: [{ state: { waiting } }] }
            : { phase: 'Running', conditions: [isReady] }
      api.put(path, { ...found, status })
    }
  }

  /** Lets the clock and the kubelet go on until the condition is so. */
  const until = (look: () => void, stepMs = 500) =>
    inSteps(
      clock,
      () => {
        startPods()
        look()
      },
      stepMs,
    )
  /** So many seconds, in which kubelets do nothing: each broker that was ready works then. */
  async function pass(seconds: number): Promise<void> {
    for (let second = 0; second < seconds; second++) await clock.advance(1000)
  }
  const status = (): Configuration['status'] =>
    parseConfigurationStatus(api.objects.get(CONFIGURATION))?.status
  const brokersReady = () => status()?.conditions.find(({ type }) => type === 'BrokersReady')

  it('replaces one after the other, and says how far it is', async () => {
    setImage('v2')
    await until(() => expect(brokersReady()?.reason).toBe('RollingOut'))
    expect(status()?.brokers?.desired).toBe(6)
    expect(status()?.brokers?.updated).toBeLessThan(6)
    await until(() => expect(images()).toEqual(DEVICES.map(() => 'v2')))
    expect(fewest).toBe(5)
    await until(() => expect(status()?.brokers).toEqual({ desired: 6, updated: 6, ready: 6 }))
    expect(brokersReady()).toMatchObject({ status: 'True', reason: 'Ready' })
  })

  it('goes by the names of Instances, in whatever order these came', async () => {
    api.putInstance(['a'], { name: 'cam-0' })
    await until(() => expect(readyPods()).toHaveLength(7))
    await pass(10)
    setImage('bad')
    await until(() => expect(images()).toContain('bad'))
    expect(imageOf(`${PODS}/a-cam-0-pod`)).toBe('bad')
  })

  it('replaces as many at once as maxUnavailable, also after a change of the leader', async () => {
    setImage('v2', { rollingUpdate: { maxUnavailable: '50%' } })
    await until(() => expect(images().filter((image) => image === 'v2').length).toBeGreaterThan(0))
    await controller.lead()
    await until(() => expect(images()).toEqual(DEVICES.map(() => 'v2')))
    expect(fewest).toBe(3)
  })

  it('stops after the first broker that does not work, and goes on with a correction', async () => {
    setImage('bad')
    await until(() => expect(brokersReady()?.reason).toBe('RolloutStuck'))
    expect(brokersReady()?.message).toBe(
      '5 of 6 broker Pods are ready, 1 of 6 are updated, 1 failed: ' +
        'Pod a-cam-000000-pod: ErrImagePull: no such image',
    )
    expect(controller.events.map(({ reason }) => reason)).toContain('RolloutStuck')
    for (let round = 0; round < 20; round++) await clock.advance(60_000)
    expect(images()).toEqual(['bad', 'v1', 'v1', 'v1', 'v1', 'v1'])
    // Another mistake hits the same broker.
    setImage('bad2')
    await until(() => expect(images()).toEqual(['bad2', 'v1', 'v1', 'v1', 'v1', 'v1']))
    setImage('v2')
    await until(() => expect(images()).toEqual(DEVICES.map(() => 'v2')))
    expect(fewest).toBe(5)
  })

  it('does not wait for a broker of a node that is away', async () => {
    const device = DEVICES[0] ?? ''
    const away = { ...testInstance(['b'], { name: device }) }
    api.put(`${AKRI}/instances/${device}`, away)
    const conditions = [{ type: 'Ready', status: 'Unknown' }]
    api.put('/api/v1/nodes/b', { metadata: { name: 'b' }, status: { conditions } })
    await until(() => expect(images()).toHaveLength(5))
    setImage('v2')
    await until(() => expect(images()).toEqual(DEVICES.slice(1).map(() => 'v2')))
    expect(fewest).toBe(4)
  })

  it('goes on with another broker after the device of a missing one has gone', async () => {
    setImage('silent')
    await until(() => expect(images()).toContain('silent'))
    // No other broker has anything to wait for.
    await pass(20)
    api.remove(`${AKRI}/instances/${DEVICES[0]}`)
    // No garbage collector deletes its Pod here.
    await until(() => expect(images()).toEqual(['silent', 'silent', 'v1', 'v1', 'v1', 'v1']))
  })

  it('is stuck after ten minutes without a known reason', async () => {
    setImage('silent')
    await until(() => expect(brokersReady()?.reason).toBe('RollingOut'))
    const message = expect.stringContaining('Pod a-cam-000000-pod is not ready')
    const stuck = { reason: 'RolloutStuck', message }
    await until(() => expect(brokersReady()).toMatchObject(stuck), 10_000)
    expect(clock.wallMs() - T0).toBeGreaterThan(600_000)
    expect(images()).toEqual(['silent', 'v1', 'v1', 'v1', 'v1', 'v1'])
  })

  it('deletes no broker whose spec is back before a new leader has read the broker', async () => {
    const deletions = () => api.requests.filter(({ method }) => method === 'DELETE')
    api.before = ({ method }) => {
      if (method === 'DELETE')
        throw new ApiError('', { status: 503, reason: 'Refused', message: 'not yet' })
    }
    await pass(10)
    setImage('v2')
    await until(() => expect(deletions()).not.toEqual([]))
    await controller.end()
    const { length } = deletions()
    api.before = async ({ method, path }) => {
      if (method !== 'GET' || !path.startsWith(PODS)) return
      api.before = () => {}
      setImage('v1')
      await api.seen(controller.state.configurations, CONFIGURATION)
    }
    await controller.lead()
    await pass(20)
    expect(deletions()).toHaveLength(length)
    expect(images()).toEqual(DEVICES.map(() => 'v1'))
  })

  it('counts a broker that fails as missing while its Instance waits in a long queue', async () => {
    setImage('v2')
    await until(() => expect(images()).toContain('v2'))
    // The writes of other Instances take long: one more call is free.
    const [other, own] = [promised(), promised()]
    const { before } = api
    api.before = (request) => {
      if (request.method === 'POST') return other.promise
      return request.method === 'PATCH' && request.path === instance ? own.promise : before(request)
    }
    const { metadata, ...rest } = testConfiguration(POD_BROKER)
    api.put(`${AKRI}/configurations/dog`, { ...rest, metadata: { ...metadata, uid: 'uid-dog' } })
    for (const name of ['dog-1', 'dog-2', 'dog-3', 'dog-4', 'dog-5']) {
      const { metadata, spec, ...rest } = testInstance(['a'], { name })
      const ownerReferences = [ownerReference('Configuration', 'dog')]
      api.put(`${AKRI}/instances/${name}`, {
        ...rest,
        metadata: { ...metadata, ownerReferences },
        spec: { ...spec, configurationName: 'dog' },
      })
    }
    const instance = `${AKRI}/instances/${DEVICES[0]}`
    const { length } = patches(instance)
    // The new broker works: the next Instance waits for its turn, while this one is recorded.
    await inSteps(clock, () => expect(patches(instance).length).toBeGreaterThan(length), 500)
    const path = `${PODS}/a-${DEVICES[0]}-pod`
    const { status, ...pod } = api.objects.get(path) ?? expect.fail()
    api.put(path, { ...pod, status: { phase: 'Running' } })
    await api.seen(controller.state.pods, path)
    other.resolve()
    await eventually(() => expect(podPaths()).toHaveLength(11))
    own.resolve()
    await pass(20)
    expect(images().filter((image) => image === 'v1')).toHaveLength(5)
    api.put(path, { ...pod, status })
    await until(() => expect(images().filter((image) => image === 'v1')).toEqual([]))
    expect(fewest).toBe(5)
  })

  it('deletes no second broker while the cache does not follow', async () => {
    const deleted = () => api.requests.filter(({ method }) => method === 'DELETE')
    const { before } = api
    api.before = (request) => {
      if (request.method === 'DELETE') api.isSilent = true
      return before(request)
    }
    setImage('v2')
    await until(() => expect(deleted()).toHaveLength(1))
    await pass(50)
    expect(deleted()).toHaveLength(1)
  })
})

it('a roll-out deletes no second broker while the deletion of one has no answer', async () => {
  const api = new TestApi()
  try {
    const brokerSpec = { brokerPodSpec: { containers: [{ name: 'broker', image: 'v2' }] } }
    api.putConfiguration({ brokerSpec })
    api.putNode('a')
    const names = ['cam-000000', 'cam-000001']
    for (const name of names) {
      api.putInstance(['a'], { name })
      const { metadata } = testPod('a', { name, hash: 'before' })
      api.put(`${PODS}/${name}`, {
        metadata: {
          ...metadata,
          labels: { controller: 'akri.sh' },
          ownerReferences: [ownerReference('Instance', name)],
        },
        status: { phase: 'Running', conditions: [{ type: 'Ready', status: 'True' }] },
      })
    }
    const clock = new ManualClock(T0)
    const term = await api.term(clock)
    await clock.advance(10_000)
    const woken: string[] = []
    const { signal } = new AbortController()
    term.rollouts.onRoom((instances) => woken.push(...instances), signal)
    const reconcile = (device: number) =>
      reconcileBrokers(objectKey('plant', names[device] ?? ''), term, signal, () => {})
    const sent = (method: string) =>
      api.requests.flatMap((request) => (request.method === method ? request.path : []))
    const deletion = `${PODS}/cam-000000`
    // A new leader has not planned the first Instance.
    await reconcile(1)
    expect([sent('DELETE'), woken]).toEqual([[], []])
    // The deletion is carried out, and neither the answer nor the watch says so.
    api.before = ({ method, path }) => {
      if (method !== 'DELETE') return
      api.isSilent = true
      api.remove(path)
      throw new ApiError('', { status: 503, reason: 'Refused', message: 'not yet' })
    }
    await expect(reconcile(0)).rejects.toThrow('not yet')
    api.refusal = () => ({ status: 503, message: 'not yet' })
    await expect(reconcile(0)).rejects.toThrow('not yet')
    await reconcile(1)
    expect(sent('DELETE')).toEqual([deletion])
    api.refusal = () => undefined
    await reconcile(0)
    await reconcile(1)
    expect(sent('DELETE')).toEqual([deletion])
    expect(woken).toEqual([])
  } finally {
    await api.stop()
  }
})

interface Spec {
  readonly spec: { readonly containers: readonly { readonly image: string }[] }
}

function promised(): { readonly promise: Promise<void>; resolve(): void } {
  let resolve = () => {}
  const promise = new Promise<void>((fulfil) => {
    resolve = fulfil
  })
  return { promise, resolve: () => resolve() }
}
