import { objectKey } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import type { ClusterState } from './cluster-state.js'
import { TestApi } from './testing/api.js'
import { testConfiguration, testInstance, testPod } from './testing/objects.js'

const CONFIGURATION = '/apis/akri.sh/v0/namespaces/plant/configurations/cam'
const NODE = '/api/v1/nodes/a'
const PODS = '/api/v1/namespaces/plant/pods'

describe('what is known of a cluster', () => {
  let api: TestApi
  let state: ClusterState
  const key = objectKey('plant', 'cam')
  const known = () => state.configurations.cache.get(key)

  beforeEach(() => {
    api = new TestApi()
  })

  afterEach(async () => {
    await api.stop()
  })

  it('is the last good spec of a Configuration that is not valid any more, and that it is being deleted', async () => {
    const { metadata, ...rest } = testConfiguration()
    api.put(CONFIGURATION, { metadata, ...rest })
    state = (await api.start()).state
    const broken = { ...rest, spec: { ...rest.spec, capacity: -1 } }
    api.put(CONFIGURATION, {
      metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
      ...broken,
    })
    await eventually(() => expect(known()?.metadata.deletionTimestamp).toBeDefined())
    expect(known()?.spec.capacity).toBe(1)
    // Deleted and made again while nobody watched: the spec of the old one is nothing to it.
    api.put(CONFIGURATION, { metadata: { ...metadata, uid: 'another' }, ...broken })
    await eventually(() => expect(known()).toBeUndefined())
  })

  it('tells of what an Instance owns also where somebody took its labels away', async () => {
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', { ...testInstance(['a']) })
    const { metadata } = testPod('a')
    const labels = { controller: 'akri.sh' }
    api.put(`${PODS}/a-pod`, { metadata: { ...metadata, labels } })
    state = (await api.start()).state
    const told: string[] = []
    state.onInstanceChange((one) => told.push(one), new AbortController().signal)
    api.put(`${PODS}/a-pod`, { metadata: { ...metadata, labels }, status: { phase: 'Failed' } })
    await eventually(() => expect(told).toEqual(['plant/cam-8120fe']))
  })

  it('tells of a node with the Instances that it sees when Pods can run there no more, or again, and of no other change', async () => {
    const node = (more: object = {}, ready = 'True') => {
      const conditions = [
        { type: 'Ready', status: ready, lastTransitionTime: '2026-01-01T00:00:00Z' },
      ]
      api.put(NODE, {
        metadata: { name: 'a', uid: 'uid-a', ...more },
        spec: {},
        status: { conditions },
      })
    }
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', { ...testInstance(['a']) })
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-a19705', {
      ...testInstance(['b'], { name: 'cam-a19705' }),
    })
    node()
    state = (await api.start()).state
    const told: unknown[] = []
    state.onNodeChange((name, seenBy) => told.push([name, seenBy]), new AbortController().signal)
    // The first that is heard of it is news.
    for (const [more, ready] of [
      [{}, 'True'],
      [{ annotations: { beat: '1' } }, 'True'],
      [{}, 'False'],
      [{ labels: { x: 'y' } }, 'False'],
      [{ labels: { x: 'y' }, deletionTimestamp: '2026-01-01T00:00:00Z' }, 'False'],
    ] as const)
      node(more, ready)
    api.remove(NODE)
    await eventually(() =>
      expect(told).toEqual(Array.from({ length: 5 }, () => ['a', ['plant/cam-8120fe']])),
    )
  })
})
