import type { NodeStatus } from '@akrijs/api'
import { keyOf, objectKey } from '@akrijs/kube/objects'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { manifest } from '../testing/objects.js'
import { instancesContract } from './cluster-instances.contract.js'
import { slotsContract } from './cluster-slots.contract.js'
import { type ClusterUnderTest, NODE_A, NODE_B, TestedCluster } from './tested-cluster.contract.js'

export type { ClusterUnderTest } from './tested-cluster.contract.js'

/**
 * The behaviour of every adapter of the port. Tests wait for changes: an API server sends them
 * after its answer.
 */
export function clusterContract(name: string, make: () => Promise<ClusterUnderTest>): void {
  describe(`the contract of a cluster: ${name}`, () => {
    const tested = new TestedCluster()

    beforeEach(() => tested.open(make))
    afterEach(() => tested.adapter.dispose())

    instancesContract(tested)
    slotsContract(tested)
    configurationsContract(tested)
  })
}

function configurationsContract(tested: TestedCluster): void {
  it('reads the present Configuration, and none that does not exist', async () => {
    const { metadata, spec } = await tested.configuration()
    const present = await tested.cluster.readConfiguration(keyOf({ metadata }))
    expect(present).toMatchObject({ metadata: { uid: metadata.uid }, spec })
    const none = objectKey(metadata.namespace, 'none')
    expect(await tested.cluster.readConfiguration(none)).toBeUndefined()
  })

  it('deletes Instances with their Configuration', async () => {
    const instance = await tested.instance(1)
    const { metadata } = instance.draft.owner
    await tested.adapter.removeConfiguration(metadata)
    await instance.isGone()
    await eventually(() =>
      expect(tested.cluster.configurations.get(keyOf({ metadata }))).toBeUndefined(),
    )
  })

  it('raises the generation of a Configuration with its spec, not with its status', async () => {
    const wanted = manifest()
    const { metadata } = await tested.configuration(wanted)
    const key = keyOf({ metadata })
    const now = () => tested.cluster.configurations.get(key)
    const lost = { type: 'Ready', status: 'False', reason: 'HandlerLost', message: 'gone' } as const
    const report: NodeStatus = { observedGeneration: 1, devices: 4, conditions: [lost] }
    const isReported = () =>
      eventually(async () => expect(await tested.adapter.reportedStatus(key)).toEqual(report))
    await tested.cluster.reportStatus(key, NODE_A, report)
    await isReported()
    expect(now()?.metadata.generation).toBe(metadata.generation)
    await tested.adapter.applyConfiguration({ ...wanted, spec: { ...wanted.spec, capacity: 7 } })
    const { uid, generation } = metadata
    const edited = { spec: { capacity: 7 }, metadata: { uid, generation: generation + 1 } }
    await eventually(() => expect(now()).toMatchObject(edited))
    await isReported()
  })

  it('calls listeners with the key of each change until they stop', async () => {
    const instance = await tested.instance(1)
    const enough = new AbortController()
    const told: string[] = []
    tested.cluster.instances.onChange((key) => told.push(key), enough.signal)
    await instance.join(NODE_B)
    await eventually(() => expect(told).toContain(instance.key))
    enough.abort()
    const before = told.length
    await instance.leave(NODE_B)
    await instance.shows({ nodes: [NODE_A] })
    expect(told).toHaveLength(before)
  })
}
