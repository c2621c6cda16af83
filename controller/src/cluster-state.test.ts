import { objectKey } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import type { ClusterState } from './cluster-state.js'
import { TestApi } from './testing/api.js'
import { testConfiguration, testInstance, testPod } from './testing/objects.js'

const CONFIGURATION = '/apis/akri.sh/v0/namespaces/plant/configurations/cam'
const NODE = '/api/v1/nodes/a'
const PODS = '/api/v1/namespaces/plant/pods'

describe('the state of a cluster', () => {
  let api: TestApi
  let state: ClusterState
  const key = objectKey('plant', 'cam')
  const cached = () => state.configurations.cache.get(key)

  beforeEach(() => {
    api = new TestApi()
  })

  afterEach(async () => {
    await api.stop()
  })

  it('keeps the last valid spec of an invalid Configuration, and its deletion', async () => {
    const { metadata, ...rest } = testConfiguration()
    api.put(CONFIGURATION, { metadata, ...rest })
    state = (await api.start()).state
    const broken = { ...rest, spec: { ...rest.spec, capacity: -1 } }
    api.put(CONFIGURATION, {
      metadata: { ...metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
      ...broken,
    })
    await eventually(() => expect(cached()?.metadata.deletionTimestamp).toBeDefined())
    expect(cached()?.spec.capacity).toBe(1)
    // The Configuration was deleted and created again: the old spec does not apply.
    api.put(CONFIGURATION, { metadata: { ...metadata, uid: 'another' }, ...broken })
    await eventually(() => expect(cached()).toBeUndefined())
  })

  it('reports a change of a Pod to the Instance that owns it, also without labels', async () => {
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', { ...testInstance(['a']) })
    const { metadata } = testPod('a')
    const labels = { controller: 'akri.sh' }
    api.put(`${PODS}/a-pod`, { metadata: { ...metadata, labels } })
    state = (await api.start()).state
    const reported: string[] = []
    state.onInstanceChange((changed) => reported.push(changed), new AbortController().signal)
    api.put(`${PODS}/a-pod`, { metadata: { ...metadata, labels }, status: { phase: 'Failed' } })
    await eventually(() => expect(reported).toEqual(['plant/cam-8120fe']))
  })

  it('reports a node only if a change decides whether Pods can run there', async () => {
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
    const reported: unknown[] = []
    state.onNodeChange(
      (name, instances) => reported.push([name, instances]),
      new AbortController().signal,
    )
    // The first Node object counts as a change.
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
      expect(reported).toEqual(Array.from({ length: 5 }, () => ['a', ['plant/cam-8120fe']])),
    )
  })
})
