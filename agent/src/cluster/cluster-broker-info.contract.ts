import type { SlotName } from '@akrijs/api'
import { keyOf, type NodeName, objectKey } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import type { BrokerReports } from './cluster.js'
import { found, NODE_A, NODE_B, slot, type TestedCluster } from './tested-cluster.contract.js'

/** Of the contract of a cluster: what workloads report. */
export function brokerInfoContract(tested: TestedCluster): void {
  it('R69 writes reports of workloads, and keeps slots and generation', async () => {
    const instance = await tested.instance(2)
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)
    const before = await eventually(() => {
      expect(tested.usageOf(instance)?.[slot(instance, 0)]).toBe(NODE_A)
      return found(tested.current(instance))
    })
    const report = (files: Record<string, string>) =>
      tested.cluster.reportBrokerInfo(
        keyOf(instance),
        NODE_A,
        reported({ [slot(instance, 0)]: files }),
      )
    expect(await report({ 'firmware-version': '1.0', constructor: '' })).toBe('reported')
    await eventually(() =>
      expect(tested.infoOf(instance)).toEqual({ 'firmware-version': '1.0', constructor: '' }),
    )
    expect(await report({ 'firmware-version': '1.1', state: 'ä\n\0"' })).toBe('reported')
    await eventually(() =>
      expect(tested.infoOf(instance)).toEqual({ 'firmware-version': '1.1', state: 'ä\n\0"' }),
    )
    expect(tested.current(instance)?.status?.brokerInfoSlots).toEqual({
      'firmware-version': slot(instance, 0),
      state: slot(instance, 0),
    })
    expect(tested.current(instance)?.spec).toEqual(before.spec)
    expect(tested.current(instance)?.metadata.generation).toBe(before.metadata.generation)
    expect(await report({})).toBe('reported')
    await eventually(() => expect(tested.infoOf(instance)).toEqual({}))
  })

  it('R69 keeps the reports of other nodes, and no report of a free slot', async () => {
    const instance = await tested.instance(3, [NODE_A, NODE_B])
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 1), `C:0:${NODE_B}`)
    await Promise.all([
      tested.cluster.reportBrokerInfo(
        keyOf(instance),
        NODE_A,
        reported({ [slot(instance, 0)]: { a: '1' }, [slot(instance, 2)]: { c: '1' } }),
      ),
      tested.cluster.reportBrokerInfo(
        keyOf(instance),
        NODE_B,
        reported({ [slot(instance, 1)]: { b: '1' } }),
      ),
    ])
    await eventually(() => expect(tested.infoOf(instance)).toEqual({ a: '1', b: '1' }))
    await tested.cluster.releaseSlot(keyOf(instance), slot(instance, 0), NODE_A)
    await tested.cluster.reportBrokerInfo(
      keyOf(instance),
      NODE_B,
      reported({ [slot(instance, 1)]: { b: '2' } }),
    )
    await eventually(() => expect(tested.infoOf(instance)).toEqual({ a: '1', b: '2' }))
    const over = [slot(instance, 0), slot(instance, 1)]
    await tested.cluster.reportBrokerInfo(keyOf(instance), NODE_A, reported({}, over))
    await eventually(() => expect(tested.infoOf(instance)).toEqual({ b: '2' }))
  })

  it('R69 writes nothing for an unchanged report, and answers for a missing Instance', async () => {
    const instance = await tested.instance(1)
    await tested.cluster.claimSlot(keyOf(instance), slot(instance, 0), NODE_A)
    const same = reported({ [slot(instance, 0)]: { a: '1' } })
    await tested.cluster.reportBrokerInfo(keyOf(instance), NODE_A, same)
    const version = await eventually(() => {
      expect(tested.infoOf(instance)).toEqual({ a: '1' })
      return tested.current(instance)?.metadata.resourceVersion
    })
    expect(await tested.cluster.reportBrokerInfo(keyOf(instance), NODE_A, same)).toBe('reported')
    expect(tested.current(instance)?.metadata.resourceVersion).toBe(version)
    const none = objectKey(instance.metadata.namespace, 'none-123456')
    expect(await tested.cluster.reportBrokerInfo(none, NODE_A, same)).toBe('gone')
  })

  it('R69 loses no report and no claim in concurrent writes', async () => {
    const instance = await tested.instance(5)
    await Promise.all(
      Array.from({ length: 5 }, async (_, index) => {
        const node = `node-${index}` as NodeName
        await tested.cluster.claimSlot(keyOf(instance), slot(instance, index), node)
        for (const round of ['1', '2', '3'])
          await tested.cluster.reportBrokerInfo(
            keyOf(instance),
            node,
            reported({ [slot(instance, index)]: { [`f${index}`]: round } }),
          )
      }),
    )
    await eventually(() =>
      expect(tested.infoOf(instance)).toEqual({ f0: '3', f1: '3', f2: '3', f3: '3', f4: '3' }),
    )
    expect(Object.values(tested.usageOf(instance) ?? {})).toEqual([
      'node-0',
      'node-1',
      'node-2',
      'node-3',
      'node-4',
    ])
  })
}

/** By slot the files that its workload has. */
function reported(
  files: Readonly<Record<string, Readonly<Record<string, string>>>>,
  abandoned: SlotName[] = [],
): BrokerReports {
  const workloads = Object.entries(files).map(
    ([name, own]) =>
      [
        name as SlotName,
        { files: new Map(Object.entries(own)), fresh: new Set<string>() },
      ] as const,
  )
  return { workloads: new Map(workloads), abandoned: new Set(abandoned) }
}
