import type { Instance, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { instanceWith } from '../testing/objects.js'
import { NO_ORPHANS, ORPHAN_MS, type Orphans, planOrphans } from './orphan-plan.js'

const slot = 'cam-8120fe-0' as SlotName
const [first, second] = ['node-a', 'node-b'] as NodeName[] as [NodeName, NodeName]

const instance = (usage: string): Pick<Instance, 'spec' | 'status'> => ({
  ...instanceWith({ [slot]: usage }, { nodes: [first, second] }),
  status: { brokerInfo: { state: 'done' }, brokerInfoSlots: { state: slot } },
})
const plan = (
  orphans: Orphans,
  now: number,
  { node = first, usage = '', directory = false } = {},
) => planOrphans(instance(usage), orphans, { node, now, hasDirectory: () => directory })

describe('the plan of orphans', () => {
  it('leaves entries of a free slot to its node first, and longer on each further node', () => {
    for (const [node, graceMs] of [
      [first, ORPHAN_MS],
      [second, 2 * ORPHAN_MS],
    ] as const) {
      const begun = plan(NO_ORPHANS, 100, { node })
      expect(begun).toMatchObject({ abandoned: new Set(), recheckInMs: graceMs })
      expect(plan(begun, 99 + graceMs, { node })).toMatchObject({ recheckInMs: 1 })
      const over = plan(begun, 100 + graceMs, { node })
      expect(over).toEqual({
        abandoned: new Set([slot]),
        waiting: new Map(),
        recheckInMs: undefined,
      })
    }
  })

  it('forgets a slot that is claimed again, and a slot whose workload is still here', () => {
    const orphans = plan(NO_ORPHANS, 0)
    const abandoned = plan(orphans, ORPHAN_MS)
    for (const state of [orphans, abandoned]) {
      expect(plan(state, ORPHAN_MS, { usage: 'node-b' })).toMatchObject(NO_ORPHANS)
      expect(plan(state, ORPHAN_MS, { directory: true })).toMatchObject(NO_ORPHANS)
    }
  })

  it('waits for other nodes where this node is not in the Instance', () => {
    const node = 'node-c' as NodeName
    expect(plan(NO_ORPHANS, 0, { node })).toMatchObject({ recheckInMs: undefined, ...NO_ORPHANS })
  })
})
