import type { Instance, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { instanceWith } from '../testing/objects.js'
import type { SlotAllocation } from './allocation-ledger.js'
import { planRestore } from './restore-plan.js'

const NODE = 'node-a' as NodeName
const slot = (index: number) => `cam-8120fe-${index}` as SlotName
const allocation: SlotAllocation = { slot: slot(0), resourceName: 'akri.sh/cam', id: '7' }

/** The plan of a node that uses these slots, and whose back-off is over. */
const plan = (allocations: readonly SlotAllocation[], ...instances: Instance[]) =>
  planRestore({ allocations, instances, node: NODE, now: 0, retryAt: () => 0 })
const nothing = { restore: [], conflicts: [] }

describe('the restore plan', () => {
  it('R84 restores a claim that the Instance records as free, or does not record', () => {
    const lost = { allocation, key: 'default/cam-8120fe', usage: 'C:7:node-a' }
    for (const instance of [
      instanceWith({ [slot(0)]: '' }),
      instanceWith({}),
      instanceWith({}, { capacity: 0 }),
    ])
      expect(plan([allocation], instance)).toEqual({ restore: [lost], conflicts: [] })
    expect(plan([allocation], instanceWith({ [slot(0)]: 'C:7:node-a' }))).toEqual(nothing)
  })

  it('R7 leaves a slot to another claim, also of another container of this node', () => {
    const takenBy = (usage: string, ...others: SlotAllocation[]) => {
      const { restore, conflicts } = plan(
        [allocation, ...others],
        instanceWith({ [slot(0)]: usage }),
      )
      expect(restore).toEqual([])
      return conflicts.map((conflict) => conflict.takenBy)
    }
    expect(takenBy('node-b')).toEqual(['node-b'])
    expect(
      takenBy('node-a', { slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) }),
    ).toEqual(['node-a'])
    // No container of this node uses that claim: it is about to be released.
    expect(takenBy('node-a')).toEqual([])
  })

  it('waits until the back-off of the slot is over', () => {
    const at = (now: number) =>
      planRestore({
        allocations: [allocation],
        instances: [instanceWith({})],
        node: NODE,
        now,
        retryAt: () => 1000,
      })
    expect(at(999)).toEqual(nothing)
    expect(at(1000).restore).toHaveLength(1)
  })

  it('leaves out an Instance that the node is not in, or that is being deleted', () => {
    const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' }
    expect(plan([allocation], instanceWith({}, { nodes: ['node-b' as NodeName] }))).toEqual(nothing)
    expect(plan([allocation], instanceWith({}, {}, deleted))).toEqual(nothing)
    expect(plan([allocation])).toEqual(nothing)
  })

  it('restores nothing if the Instance of that name in another namespace records the claim', () => {
    const other = instanceWith({ [slot(0)]: 'C:7:node-a' }, {}, { namespace: 'other' })
    expect(plan([allocation], instanceWith({}), other)).toEqual(nothing)
  })
})
