import { setMaxListeners } from 'node:events'
import { objectKey } from '@akrijs/kube'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import type { ClusterState } from './cluster-state.js'
import { TestApi } from './testing/api.js'
import { CONFIGURATION, PODS, testConfiguration, testInstance, testPod } from './testing/objects.js'

const NODE = '/api/v1/nodes/a'

describe('the state of a cluster', () => {
  let api: TestApi
  let state: ClusterState
  const key = objectKey('plant', 'cam')
  const cached = () => state.configuration(key)

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

  it('reports each change of a Configuration but that of its status or its labels', async () => {
    const { metadata, spec, ...rest } = testConfiguration()
    const instance = testInstance(['a'])
    const status = (devices: number) => ({
      observedGeneration: 3,
      conditions: [],
      devices,
      slots: { total: 0, claimed: 0 },
      nodes: {},
    })
    const put = (more: object, changed: object = {}, devices = 0) =>
      api.put(CONFIGURATION, {
        ...rest,
        metadata: { ...metadata, ...more },
        spec: { ...spec, ...changed },
        status: status(devices),
      })
    put({})
    api.put('/apis/akri.sh/v0/namespaces/plant/instances/cam-8120fe', { ...instance })
    state = (await api.start()).state
    const reported: string[] = []
    const { signal } = new AbortController()
    setMaxListeners(0, signal)
    const report = (listener: string) => (changed: string) =>
      reported.push(`${listener} ${changed} ${cached()?.status?.devices ?? 'none'}`)
    state.onInstanceChange(report('instance'), signal)
    state.onConfigurationChange(report('configuration'), signal)
    state.onBrokersChange(report('brokers'), signal)
    put({}, {}, 1)
    put({ labels: { x: 'y' } }, {}, 2)
    put({}, { capacity: 2 }, 3)
    put({}, { capacity: 2 }, 4)
    // The spec is invalid: the cache keeps the last valid spec, with its status.
    put({ generation: 4 }, { capacity: -1 }, 5)
    put({ generation: 4, deletionTimestamp: '2026-01-01T00:00:00Z' }, { capacity: -1 }, 6)
    put({ uid: 'another', generation: 4 }, { capacity: 2 }, 7)
    api.remove(CONFIGURATION)
    await eventually(() => expect(reported.at(-1)).toBe('brokers plant/cam none'))
    expect(reported).toEqual(
      [3, 3, 3, 7, 'none'].flatMap((devices) => [
        `instance plant/cam-8120fe ${devices}`,
        `configuration plant/cam ${devices}`,
        `brokers plant/cam ${devices}`,
      ]),
    )
  })

  it('counts the Pods of Configurations that have their names, on nodes that exist', async () => {
    api.putConfiguration()
    const { metadata, ...rest } = testConfiguration()
    const younger = { namespace: 'guest', uid: 'g', creationTimestamp: '2099-01-01T00:00:00Z' }
    const other = CONFIGURATION.replace('plant', 'guest')
    api.put(other, { ...rest, metadata: { ...metadata, ...younger } })
    api.putNode('a')
    const put = (namespace: string, name: string, node = 'a', configuration = 'cam') =>
      api.put(`/api/v1/namespaces/${namespace}/pods/${name}`, {
        metadata: {
          labels: { controller: 'akri.sh', 'akri.sh/configuration': configuration },
          annotations: { 'akri.sh/target-node': node },
        },
      })
    put('plant', 'counted')
    put('plant', 'elsewhere', 'invented')
    put('plant', 'made-up', 'a', 'made-up')
    put('guest', 'of-the-younger')
    put('other', 'of-none')
    state = (await api.start()).state
    const counted = state.podsOfConfigurations().map((pod) => [pod.metadata.name, pod.targetNode])
    expect(counted).toEqual([
      ['counted', 'a'],
      ['elsewhere', undefined],
    ])
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
      expect(reported).toEqual(Array.from({ length: 4 }, () => ['a', ['plant/cam-8120fe']])),
    )
  })
})
