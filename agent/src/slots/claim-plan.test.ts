import type { Instance, InstanceName, SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { describe, expect, it } from 'vitest'
import { instanceWith, podsWith } from '../testing/objects.js'
import type { SlotAllocation } from './allocation-ledger.js'
import { lostClaims, type NodeSlot, planReclaim, type ReclaimInput } from './claim-plan.js'

const NOW = 1_000_000
const RESOURCE = 'akri.sh/cam-8120fe'
const SLOT = 'cam-8120fe-0' as SlotName
const pod = objectKey('default', 'p')
const slot = { slot: SLOT, resourceName: RESOURCE, id: SLOT }

/** Pods that are watched 100 ms behind the kubelet; each may have so many ids. */
const watched = (users: readonly [ObjectKey, number][], ended: ObjectKey[] = []) =>
  podsWith({
    lagMs: 100,
    users: () => new Map(users),
    hasEnded: (key) => ended.includes(key),
  })

/** The plan for a slot that no container and no known Pod uses, by an old claim. */
const plan = (input: Partial<ReclaimInput> = {}, more: Partial<NodeSlot> = {}) =>
  planReclaim({
    askedAt: NOW,
    allocated: new Map(),
    slots: [{ ...slot, ...more }],
    pods: watched([]),
    podGoneAt: Number.NEGATIVE_INFINITY,
    unlistedSince: new Map(),
    graceMs: 20_000,
    ...input,
  })
const lists = (...indexes: number[]) =>
  new Map([[RESOURCE, [{ pod, ids: new Set(indexes.map((index) => `cam-8120fe-${index}`)) }]]])
const never = Number.POSITIVE_INFINITY
const waits = { release: [], recheckAt: never }

describe('the reclaim plan', () => {
  it('R90 keeps a slot that the kubelet lists, and releases it after its Pod', () => {
    const allocated = lists(0)
    expect(plan({ allocated, pods: watched([[pod, 1]]) })).toMatchObject(waits)
    expect(plan({ allocated, pods: watched([], [pod]) }).release).toEqual([slot])
  })

  it('R90 asks again soon while the kubelet lists a Pod that is gone, for a minute', () => {
    const at = (podGoneAt: number) => plan({ allocated: lists(0), podGoneAt })
    expect(at(NOW - 59_999)).toMatchObject({ release: [], recheckAt: NOW + 250 })
    expect(at(NOW - 60_000)).toMatchObject(waits)
  })

  it('R92 waits as long as the watch of Pods may be behind a claim, and a millisecond more', () => {
    const at = (claimedAt: number) => plan({}, { claimedAt })
    expect(at(NOW - 100)).toMatchObject({ release: [], recheckAt: NOW + 1 })
    expect(at(NOW - 101).release).toHaveLength(1)
  })

  it('R84 R92 keeps a slot while its Pod has fewer ids than its containers may have', () => {
    const pods = watched([[pod, 2]])
    const [users, other] = [new Set([pod]), new Set([objectKey('default', 'q')])]
    expect(plan({ pods, allocated: lists(1) }, { users })).toMatchObject(waits)
    // Before the kubelet lists the slot, it may be of any Pod of the resource.
    expect(plan({ pods, allocated: lists(1) })).toMatchObject(waits)
    expect(plan({ pods, allocated: lists(1, 2) }).release).toHaveLength(1)
    expect(plan({ pods, allocated: lists(1) }, { users: other }).release).toHaveLength(1)
  })

  it.each<[string, Partial<ReclaimInput>, Partial<NodeSlot>]>([
    ['Pods are not watched', { pods: undefined }, {}],
    ['not all Pods are known yet', { pods: { ...watched([]), synced: false } }, {}],
    [
      'its Pod has all other ids that it may have',
      { pods: watched([[pod, 1]]), allocated: lists(1) },
      { users: new Set([pod]) },
    ],
  ])(
    'R92 releases a slot after the grace period, which begins with a claim, if %s',
    (_, input, of) => {
      const { unlistedSince, ...first } = plan(input, of)
      expect(first).toEqual({ release: [], recheckAt: NOW + 20_000 })
      const later = (ms: number, claimedAt = 0) =>
        plan({ ...input, unlistedSince, askedAt: NOW + ms }, { ...of, claimedAt })
      expect(later(19_999)).toMatchObject({ release: [], recheckAt: NOW + 20_000 })
      expect(later(20_000).release).toHaveLength(1)
      expect(later(20_000, NOW + 5000)).toMatchObject({ release: [], recheckAt: NOW + 25_000 })
      // The grace period starts again after the kubelet has listed the slot.
      const listed = { ...input, unlistedSince, allocated: lists(0) }
      expect(plan(listed, of).unlistedSince).toEqual(new Map())
    },
  )
})

describe('the lost claims of containers', () => {
  const allocation: SlotAllocation = { slot: SLOT, resourceName: 'akri.sh/cam', id: '7' }
  const lost = (allocations: readonly SlotAllocation[], ...instances: Instance[]) =>
    lostClaims(allocations, instances, 'node-a' as NodeName).map(({ takenBy }) => takenBy)

  it.each<[string, string, SlotAllocation[], string[]]>([
    ['nothing', '', [], ['']],
    ['another node', 'node-b', [], ['node-b']],
    ['another container of this node', 'node-a', [slot], ['node-a']],
    // The claim is about to be released.
    ['no container', 'node-a', [], []],
  ])('R7 conflict with the claim of their slot, if that is of %s', (_, usage, others, expected) =>
    expect(lost([allocation, ...others], instanceWith({ [SLOT]: usage }))).toEqual(expected),
  )

  it.each<[string, Instance[]]>([
    ['there is no Instance', []],
    ['the node is not in the Instance', [instanceWith({}, { nodes: ['node-b' as NodeName] })]],
    ['the Instance is being deleted', [instanceWith({}, {}, { deletionTimestamp: '2026' })]],
    [
      'an Instance of another namespace has the claim',
      [instanceWith({}), instanceWith({ [SLOT]: 'C:7:node-a' }, {}, { namespace: 'other' })],
    ],
  ])('are none if %s', (_, instances) => expect(lost([allocation], ...instances)).toEqual([]))

  it('take one look at each Instance, however many allocations there are', () => {
    let looks = 0
    const count = 300
    const instances = Array.from({ length: count }, (_, at) => {
      const name = `cam-${at}` as InstanceName
      const { metadata, ...rest } = instanceWith({}, {}, { name })
      const look = () => {
        looks++
        return metadata
      }
      return Object.defineProperty({ ...rest, metadata }, 'metadata', { get: look })
    })
    const allocations = instances.map((_, at): SlotAllocation => {
      return { ...allocation, slot: `cam-${at}-0` as SlotName }
    })
    expect(lost(allocations, ...instances)).toHaveLength(count)
    expect(looks).toBeLessThan(count * 10)
  })
})
