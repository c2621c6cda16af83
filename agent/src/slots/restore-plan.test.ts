import type { Instance, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
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

  it('R7 R84 takes no slot from another claim, and ends with all claims written', () => {
    const usage = fc.constantFrom('', 'node-a', 'node-b', 'C:0:node-a', 'C:1:node-b', 'C:x')
    const anyAllocation = fc
      .nat({ max: 4 })
      .chain((index) =>
        fc.constantFrom<SlotAllocation>(
          { slot: slot(index), resourceName: 'akri.sh/cam-8120fe', id: slot(index) },
          { slot: slot(index), resourceName: 'akri.sh/cam', id: '0' },
        ),
      )
    fc.assert(
      fc.property(fc.array(usage, { maxLength: 4 }), fc.array(anyAllocation), (usages, all) => {
        const before: Record<string, string> = Object.fromEntries(
          usages.map((value, index) => [slot(index), value]),
        )
        const now: Record<string, string> = { ...before }
        for (let step = 0; ; step++) {
          const [next] = plan(all, instanceWith(now)).restore
          if (next === undefined) break
          expect(now[next.allocation.slot] ?? '').toBe('')
          now[next.allocation.slot] = next.usage
          expect(step).toBeLessThan(5)
        }
        for (const [name, value] of Object.entries(before))
          if (value !== '') expect(now[name]).toBe(value)
        for (const { slot: name } of all) expect(now[name] ?? '').not.toBe('')
      }),
    )
  })
})
