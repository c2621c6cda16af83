import type { Instance, SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { instanceWith, podsWith } from '../testing/objects.js'
import type { SlotAllocation } from './allocation-ledger.js'
import { type NodeSlot, planReclaim, planRestore, type ReclaimInput, slotId } from './claim-plan.js'

const NOW = 1_000_000
const RESOURCE = 'akri.sh/cam-8120fe'
const pod = objectKey('default', 'p')
const slot = (index: number): NodeSlot => {
  const name = `cam-8120fe-${index}` as SlotName
  return { slot: name, resourceName: RESOURCE, id: name, claim: undefined }
}

/** Pods that are watched 100 ms behind the kubelet; each may have so many ids. */
const watched = (users: readonly [ObjectKey, number][], ended: ObjectKey[] = []) =>
  podsWith({
    lagMs: 100,
    users: () => new Map(users),
    hasEnded: (key) => ended.includes(key),
  })

/**
 * The plan for slot 0: no container and no known Pod uses it, and its claim is older than the
 * agent.
 */
const plan = (input: Partial<ReclaimInput> = {}) =>
  planReclaim({
    askedAt: NOW,
    allocated: new Map(),
    slots: [slot(0)],
    pods: watched([]),
    podGoneAt: Number.NEGATIVE_INFINITY,
    unlistedSince: new Map(),
    graceMs: 20_000,
    claims: { lastClaimed: () => undefined },
    allocations: { usersOf: () => undefined },
    ...input,
  })
const lists = (of: ObjectKey, ...indexes: number[]) =>
  new Map([[RESOURCE, [{ pod: of, ids: new Set(indexes.map((index) => slot(index).id)) }]]])
const never = Number.POSITIVE_INFINITY

describe('the reclaim plan', () => {
  it('R90 keeps a slot that the kubelet lists, and releases it after its Pod', () => {
    const allocated = lists(pod, 0)
    expect(plan({ allocated, pods: watched([[pod, 1]]) })).toMatchObject({
      release: [],
      recheckAt: never,
    })
    expect(plan({ allocated, pods: watched([], [pod]) }).release).toEqual([slot(0)])
  })

  it('R90 asks again soon while the kubelet lists a Pod that is gone, for a minute', () => {
    const at = (podGoneAt: number) => plan({ allocated: lists(pod, 0), podGoneAt })
    expect(at(NOW - 59_999)).toMatchObject({ release: [], recheckAt: NOW + 250 })
    expect(at(NOW - 60_000)).toMatchObject({ release: [], recheckAt: never })
  })

  it('R92 waits as long as the watch of Pods may be behind a claim, and a millisecond more', () => {
    const at = (claimedAt: number) => plan({ claims: { lastClaimed: () => claimedAt } })
    expect(at(NOW - 100)).toMatchObject({ release: [], recheckAt: NOW + 1 })
    expect(at(NOW - 101).release).toEqual([slot(0)])
  })

  it('R84 R92 keeps a slot while its Pod has fewer ids than its containers may have', () => {
    const allocations = { usersOf: () => new Set([pod]) }
    const pods = watched([[pod, 2]])
    const waits = { release: [], recheckAt: never }
    expect(plan({ allocations, pods, allocated: lists(pod, 1) })).toMatchObject(waits)
    // Before the kubelet lists the slot, it may be of any Pod of the resource.
    expect(plan({ pods, allocated: lists(pod, 1) })).toMatchObject(waits)
    expect(plan({ pods, allocated: lists(pod, 1, 2) }).release).toEqual([slot(0)])
    const other = { usersOf: () => new Set([objectKey('default', 'q')]) }
    expect(plan({ allocations: other, pods, allocated: lists(pod, 1) }).release).toEqual([slot(0)])
  })

  it.each<[string, Partial<ReclaimInput>]>([
    ['Pods are not watched', { pods: undefined }],
    ['not all Pods are known yet', { pods: { ...watched([]), synced: false } }],
    [
      'its Pod has all other ids that it may have',
      {
        pods: watched([[pod, 1]]),
        allocated: lists(pod, 1),
        allocations: { usersOf: () => new Set([pod]) },
      },
    ],
  ])(
    'R92 releases a slot after the grace period, which a claim starts again, if %s',
    (_, input) => {
      const first = plan(input)
      const unlistedSince = new Map([[slotId(slot(0)), NOW]])
      expect(first).toEqual({ release: [], unlistedSince, recheckAt: NOW + 20_000 })
      const later = (ms: number, claimedAt?: number) =>
        plan({
          ...input,
          unlistedSince,
          askedAt: NOW + ms,
          claims: { lastClaimed: () => claimedAt },
        })
      expect(later(19_999)).toMatchObject({ release: [], recheckAt: NOW + 20_000 })
      expect(later(20_000).release).toEqual([slot(0)])
      expect(later(20_000, NOW + 5000)).toMatchObject({ release: [], recheckAt: NOW + 25_000 })
      // The grace period starts again after the kubelet has listed the slot.
      const listed = { ...input, unlistedSince, allocated: lists(pod, 0) }
      expect(plan(listed).unlistedSince).toEqual(new Map())
    },
  )
})

const NODE = 'node-a' as NodeName
const SLOT = slot(0).slot
const allocation: SlotAllocation = { slot: SLOT, resourceName: 'akri.sh/cam', id: '7' }

/** The plan of a node that uses these slots. */
const restore = (allocations: readonly SlotAllocation[], ...instances: Instance[]) =>
  planRestore(allocations, instances, NODE)
const nothing = { restore: [], conflicts: [] }

describe('the restore plan', () => {
  it('R7 leaves a slot to another claim, also of another container of this node', () => {
    const takenBy = (usage: string, ...others: SlotAllocation[]) => {
      const { restore: claims, conflicts } = restore(
        [allocation, ...others],
        instanceWith({ [SLOT]: usage }),
      )
      expect(claims).toEqual([])
      return conflicts.map((conflict) => conflict.takenBy)
    }
    expect(takenBy('node-b')).toEqual(['node-b'])
    expect(takenBy('node-a', { slot: SLOT, resourceName: 'akri.sh/cam-8120fe', id: SLOT })).toEqual(
      ['node-a'],
    )
    // No container of this node uses that claim: it is about to be released.
    expect(takenBy('node-a')).toEqual([])
  })

  it('leaves out an Instance without the node, under deletion, or with the claim elsewhere', () => {
    const deleted = { deletionTimestamp: '2026-01-01T00:00:00Z' }
    expect(restore([allocation], instanceWith({}, { nodes: ['node-b' as NodeName] }))).toEqual(
      nothing,
    )
    expect(restore([allocation], instanceWith({}, {}, deleted))).toEqual(nothing)
    expect(restore([allocation])).toEqual(nothing)
    // A resource name has no namespace.
    const other = instanceWith({ [SLOT]: 'C:7:node-a' }, {}, { namespace: 'other' })
    expect(restore([allocation], instanceWith({}), other)).toEqual(nothing)
  })
})
