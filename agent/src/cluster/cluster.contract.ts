import type { NodeStatus } from '@akrijs/api'
import { keyOf, objectKey } from '@akrijs/kube/objects'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { manifest } from '../testing/objects.js'
import { brokerInfoContract } from './cluster-broker-info.contract.js'
import { instancesContract } from './cluster-instances.contract.js'
import { slotsContract } from './cluster-slots.contract.js'
import {
  type ClusterUnderTest,
  NODE_A,
  NODE_B,
  slot,
  TestedCluster,
} from './tested-cluster.contract.js'

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
    brokerInfoContract(tested)
    configurationsContract(tested)
  })
}

function configurationsContract(tested: TestedCluster): void {
  it('reads the present Configuration, and none that does not exist', async () => {
    const { metadata, spec } = await tested.configuration()
    expect(await tested.cluster.readConfiguration(keyOf({ metadata }))).toMatchObject({
      metadata: { uid: metadata.uid },
      spec,
    })
    expect(
      await tested.cluster.readConfiguration(objectKey(metadata.namespace, 'none')),
    ).toBeUndefined()
  })

  it('deletes Instances with their Configuration', async () => {
    const instance = await tested.instance(1)
    await tested.adapter.removeConfiguration({
      namespace: instance.metadata.namespace,
      name: instance.spec.configurationName,
    })
    await eventually(() => expect(tested.current(instance)).toBeUndefined())
    await eventually(() =>
      expect(
        tested.cluster.configurations.list().map(({ metadata }) => metadata.name),
      ).not.toContain(instance.spec.configurationName),
    )
  })

  it('raises the generation of a Configuration with its spec, not with its status', async () => {
    const wanted = manifest()
    await tested.adapter.applyConfiguration(wanted)
    const first = await tested.seen(wanted)
    const report = statusWith('HandlerLost', 'gone')
    await tested.cluster.reportStatus(keyOf(first), NODE_A, report)
    await eventually(async () =>
      expect(await tested.adapter.reportedStatus(keyOf(first))).toEqual(report),
    )
    expect(tested.cluster.configurations.get(keyOf(first))?.metadata.generation).toBe(
      first.metadata.generation,
    )
    await tested.adapter.applyConfiguration({ ...wanted, spec: { ...wanted.spec, capacity: 7 } })
    await eventually(() =>
      expect(tested.cluster.configurations.get(keyOf(first))).toMatchObject({
        spec: { capacity: 7 },
        metadata: { uid: first.metadata.uid, generation: first.metadata.generation + 1 },
      }),
    )
    expect(await tested.adapter.reportedStatus(keyOf(first))).toEqual(report)
  })

  it('stores the message of a condition in its bounds and without control characters', async () => {
    const wanted = manifest()
    await tested.adapter.applyConfiguration(wanted)
    const { metadata } = await tested.seen(wanted)
    const key = keyOf({ metadata })
    const messages = ['camera \u001b[2J\u009b1m\u202eeno\ud800\r\nEvents:', 'x'.repeat(2000)]
    const stored = ['camera \ufffd[2J\ufffd1m\ufffdeno\ufffd\n| Events:', `${'x'.repeat(1021)}…`]
    for (const [index, message] of messages.entries()) {
      await tested.cluster.reportStatus(key, NODE_A, statusWith('HandlerFailed', message))
      await eventually(async () => {
        const status = await tested.adapter.reportedStatus(key)
        expect(status?.conditions[0]?.message).toBe(stored[index])
      })
    }
  })

  it('calls listeners with the key of each change until they stop', async () => {
    const instance = await tested.instance(1)
    const enough = new AbortController()
    const told: string[] = []
    tested.cluster.instances.onChange((key) => told.push(key), enough.signal)
    await tested.cluster.joinInstance(keyOf(instance), NODE_B)
    await eventually(() => expect(told).toContain(keyOf(instance)))
    enough.abort()
    const before = told.length
    await tested.cluster.leaveInstance(keyOf(instance), NODE_B)
    await eventually(() => expect(tested.current(instance)?.spec.nodes).toEqual([NODE_A]))
    expect(told).toHaveLength(before)
  })

  it('keeps Instances and claims through a restart', async (context) => {
    if (tested.adapter.restart === undefined)
      return context.skip('the adapter keeps nothing of its own')
    const instance = await tested.instance(2)
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 1), NODE_A)
    const before = await eventually(() => {
      expect(tested.usageOf(instance)?.[slot(instance, 1)]).toBe(NODE_A)
      return tested.current(instance)
    })
    const identities = () =>
      tested.cluster.configurations
        .list()
        .map(({ metadata: { uid, generation }, spec }) => ({ uid, generation, spec }))
    const configurations = identities()
    await tested.restart()
    await eventually(() => expect(tested.current(instance)).toEqual(before))
    await eventually(() => expect(identities()).toEqual(configurations))
  })
}

function statusWith(reason: string, message: string): NodeStatus {
  const condition = { type: 'Ready', status: 'False', reason, message } as const
  return { observedGeneration: 1, devices: 4, conditions: [condition] }
}
