import type { Configuration } from '@akrijs/api'
import { keyOf } from '@akrijs/kube'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import type { ClusterState } from '../cluster-state.js'
import { OutdatedResourceError } from '../errors.js'
import { specHash } from '../labels.js'
import type { Term } from '../term.js'
import { reconciled, TestApi, withoutStatus } from '../testing/api.js'
import {
  AKRI,
  CONFIGURATION,
  INSTANCE,
  JOB_BROKER,
  JOBS,
  POD_BROKER,
  PODS,
  T0,
  testInstance,
} from '../testing/objects.js'
import { reconcileBrokers } from './reconcile-brokers.js'

describe('the brokers of an Instance', () => {
  let api: TestApi
  let state: ClusterState
  let clock: ManualClock
  let term: Term
  const instance = testInstance(['n.a', 'n-a'], { capacity: 2 })
  const { signal } = new AbortController()
  const reconcile = () =>
    reconciled((recheckAfter) => reconcileBrokers(keyOf(instance), term, signal, recheckAfter))
  const names = (path: string) =>
    [...api.objects.keys()]
      .filter((key) => key.startsWith(`${path}/`))
      .map((key) => key.slice(path.length + 1))

  async function start(
    nodes: readonly string[],
    broker: Partial<Configuration['spec']>,
  ): Promise<void> {
    for (const node of nodes) api.putNode(node)
    api.putConfiguration(broker)
    api.put(`${AKRI}/instances/cam-8120fe`, { ...testInstance(nodes, { capacity: nodes.length }) })
    term = await api.term(clock)
    state = term.state
  }

  beforeEach(() => {
    api = new TestApi()
    clock = new ManualClock(T0)
  })

  afterEach(async () => {
    await api.stop()
  })

  it('are created after a conflict without an object of the name', async () => {
    await start(['a'], POD_BROKER)
    // Two writes of one quota at the same moment give 409, and no Pod.
    const pod = `${PODS}/a-cam-8120fe-pod`
    api.isSilent = true
    api.before = ({ method }) =>
      method === 'POST' ? api.put(pod, { metadata: { name: 'x' } }) : api.remove(pod)
    await expect(reconcile()).rejects.toThrow('409')
    api.before = () => {}
    await reconcile()
    expect(names(PODS)).toEqual(['a-cam-8120fe-pod'])
  })

  it('are not created for a resource that nodes do not offer: no node could run them', async () => {
    await start(['a'], { ...POD_BROKER, offer: 'configuration' })
    await reconcile()
    expect(names(PODS)).toEqual([])
    api.putConfiguration(POD_BROKER)
    await api.seen(state.configurations, CONFIGURATION)
    await reconcile()
    expect(names(PODS)).toEqual(['a-cam-8120fe-pod'])
  })

  it('R43 R46 are removed if none is specified; Pods of users always stay', async () => {
    await start(['a'], POD_BROKER)
    await reconcile()
    const labels = {
      controller: 'akri.sh',
      'akri.sh/configuration': 'cam',
      'akri.sh/instance': 'cam-8120fe',
    }
    api.put(`${PODS}/own`, {
      metadata: { name: 'own', namespace: 'plant', labels },
      status: { phase: 'Running' },
    })
    await eventually(() => expect(state.pods.cache.list()).toHaveLength(2))
    api.putConfiguration()
    await api.seen(state.configurations, CONFIGURATION)
    await reconcile()
    expect(names(PODS)).toEqual(['own'])
  })

  it('R45 are one for each node, also if two names of nodes give one name of a Pod', async () => {
    await start(['n.a', 'n-a'], POD_BROKER)
    await reconcile()
    await reconcile()
    expect(names(PODS)).toEqual([
      'n-a-cam-8120fe-pod',
      expect.stringMatching(/^n-a-cam-8120fe-pod-[0-9a-f]{10}$/),
    ])
    expect(
      new Set(state.pods.ownedBy('Instance', instance).map(({ targetNode }) => targetNode)),
    ).toEqual(new Set(instance.spec.nodes))
    expect(api.sent('POST')).toHaveLength(3)
  })

  it('of a new device wait until all nodes have joined, and two seconds at most', async () => {
    await start(['a', 'b'], POD_BROKER)
    const joined = async (...nodes: string[]) => {
      const { metadata, ...rest } = testInstance(nodes)
      // The clock of the API server is far behind.
      const creationTimestamp = new Date(T0 - 60_000).toISOString()
      const isNew = { uid: 'new', creationTimestamp }
      api.put(`${AKRI}/instances/cam-8120fe`, { ...rest, metadata: { ...metadata, ...isNew } })
      await api.seen(state.instances, INSTANCE)
    }
    await joined('a')
    expect(await reconcile()).toEqual({ requeueAfterMs: 2040 })
    await clock.advance(2039)
    expect(await reconcile()).toEqual({ requeueAfterMs: 1 })
    expect(names(PODS)).toEqual([])
    await joined('a', 'b')
    await reconcile()
    expect(names(PODS)).toHaveLength(1)
    api.remove(`${PODS}/${names(PODS)[0]}`)
    await joined('a')
    await clock.advance(1)
    await reconcile()
    expect(names(PODS)).toHaveLength(1)
  })

  it('C6 are created again after a deletion, then with a back-off', async () => {
    await start(['a'], POD_BROKER)
    const waits: number[] = []
    for (let round = 0; round < 5; round++) {
      const { requeueAfterMs: wait = 0 } = await reconcile()
      waits.push(wait)
      if (wait > 0) {
        expect(names(PODS)).toEqual([])
        await clock.advance(wait)
        await reconcile()
      }
      await vanish()
    }
    expect(waits.slice(0, 2)).toEqual([0, 0])
    for (const [index, least] of [2000, 4000, 8000].entries())
      expect(waits[index + 2]).toBeGreaterThanOrEqual(least)
    // A Pod that was there for long resets the back-off.
    await clock.advance(60_000)
    await reconcile()
    await clock.advance(10 * 60_000)
    await vanish()
    expect(await reconcile()).toEqual({})
    await vanish()
    expect(await reconcile()).toEqual({})

    async function vanish(): Promise<void> {
      expect(names(PODS)).toEqual(['a-cam-8120fe-pod'])
      api.remove(`${PODS}/a-cam-8120fe-pod`)
      await eventually(() => expect(state.pods.cache.list()).toEqual([]))
    }
  })

  it('are created again when due, also if the API server refuses another one', async () => {
    await start(['a', 'b'], POD_BROKER)
    await reconcile()
    const path = `${PODS}/a-cam-8120fe-pod`
    const { metadata, ...pod } = api.objects.get(path) ?? expect.fail()
    const annotations = { ...Object(metadata.annotations), 'akri.sh/restarts': '3' }
    api.put(path, { ...pod, metadata: { ...metadata, annotations }, status: { phase: 'Failed' } })
    api.remove(`${PODS}/b-cam-8120fe-pod`)
    await eventually(() =>
      expect(state.pods.cache.list()).toMatchObject([{ phase: 'Failed', targetNode: 'a' }]),
    )
    api.refusal = ({ method }) =>
      method === 'POST' ? { status: 403, message: 'forbidden' } : undefined
    const times: (number | undefined)[] = []
    const work = reconcileBrokers(keyOf(instance), term, signal, (ms) => times.push(ms))
    await expect(work).rejects.toThrow('forbidden')
    expect(Math.min(...times.map((ms = Infinity) => ms))).toBeLessThan(12_000)
  })

  it('C4 are no second Job if the first has gone, and the watch reported neither', async () => {
    await start(['a'], JOB_BROKER)
    api.isSilent = true
    // Another replica created and recorded the Job; the Job ended, and a user deleted it.
    const found = api.objects.get(`${AKRI}/instances/cam-8120fe`)
    api.put(`${AKRI}/instances/cam-8120fe`, {
      metadata: {},
      ...found,
      status: { brokerJob: { name: 'j', specHash: specHash(JOB_BROKER.brokerSpec.brokerJobSpec) } },
    })
    await reconcile()
    expect(names(JOBS)).toEqual([])
    expect(api.sent('POST')).toEqual([])
  })

  it('C4 are no Job while the custom resource of Instances has no status for it', async () => {
    await start(['a'], JOB_BROKER)
    api.refusal = withoutStatus
    await expect(reconcile()).rejects.toThrow(OutdatedResourceError)
    expect(names(JOBS)).toEqual([])
    api.refusal = () => undefined
    await clock.advance(60_000)
    await reconcile()
    expect(names(JOBS)).toEqual(['cam-8120fe-3-job'])
  })

  it('C4 are no second Job after one that ended without a record', async () => {
    await start(['a'], JOB_BROKER)
    await reconcile()
    api.refusal = withoutStatus
    await expect(reconcile()).rejects.toThrow(OutdatedResourceError)
    // As `ttlSecondsAfterFinished` does.
    api.remove(`${JOBS}/cam-8120fe-3-job`)
    await eventually(() => expect(state.jobs.cache.list()).toEqual([]))
    await clock.advance(60_000)
    await expect(reconcile()).rejects.toThrow(OutdatedResourceError)
    expect(names(JOBS)).toEqual([])
  })
})
