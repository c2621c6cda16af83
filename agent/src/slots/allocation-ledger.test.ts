import type { InstanceName, SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { NodePods } from '../kubelet/kubelet.js'
import { AllocationLedger, type SlotAllocation, usageOf } from './allocation-ledger.js'

const INSTANCE = 'cam-8120fe' as InstanceName
const NODE = 'node-a' as NodeName
const slot = (index: number) => `${INSTANCE}-${index}` as SlotName
const ofInstance = (index: number): SlotAllocation => ({
  slot: slot(index),
  resourceName: `akri.sh/${INSTANCE}`,
  id: slot(index),
})
const ofConfiguration = (index: number, id: string): SlotAllocation => ({
  slot: slot(index),
  resourceName: 'akri.sh/cam',
  id,
})
const pod = objectKey('default', 'p')

let users: Map<ObjectKey, number>
let ended: Set<ObjectKey>
let synced: boolean
let ledger: AllocationLedger

beforeEach(() => {
  users = new Map([[pod, 1]])
  ended = new Set()
  synced = true
  const pods: NodePods = {
    get synced() {
      return synced
    },
    lagMs: 0,
    users: () => users,
    hasEnded: (each) => ended.has(each),
    uidOf: () => undefined,
    startedAt: () => undefined,
    onChange: () => {},
  }
  ledger = new AllocationLedger({ node: NODE, pods })
})

describe('the allocations of containers', () => {
  it('R38 R89 have the usage that their Instance should record', () => {
    expect(usageOf(ofInstance(0), NODE)).toBe('node-a')
    expect(usageOf(ofConfiguration(0, '4'), NODE)).toBe('C:4:node-a')
    // The form of ids in the existing system.
    expect(usageOf(ofConfiguration(0, 'cam-4'), NODE)).toBe('C:cam-4:node-a')
  })

  it('R84 are claims of their Instance, also beyond its capacity', () => {
    for (const each of [ofInstance(0), ofConfiguration(1, '0'), ofInstance(7)]) ledger.record(each)
    ledger.record({ ...ofInstance(0), slot: 'cam-a19705-0' as SlotName, id: 'cam-a19705-0' })
    expect(ledger.claimsIn(INSTANCE)).toEqual({
      [slot(0)]: 'node-a',
      [slot(1)]: 'C:0:node-a',
      [slot(7)]: 'node-a',
    })
    expect(ledger.claimsIn('cam-ffffff' as InstanceName)).toEqual({})
  })

  it.each<[string, () => void]>([
    ['was deleted', () => users.clear()],
    ['has ended', () => ended.add(pod)],
  ])('R90 are not in use after their Pod %s', (_, end) => {
    ledger.recordUsers(ofConfiguration(0, '5'), new Set([pod]))
    expect(ledger.inUse()).toHaveLength(1)
    end()
    expect(ledger.inUse()).toEqual([])
    expect(ledger.claimsIn(INSTANCE)).toEqual({})
    // The Pod of the new allocation is not known yet.
    ledger.record(ofConfiguration(0, '5'))
    expect(ledger.inUse()).toHaveLength(1)
  })

  it('A2 follow the kubelet until all Pods have been seen', () => {
    ledger.recordUsers(ofInstance(0), new Set([pod]))
    users.clear()
    synced = false
    expect(ledger.inUse()).toHaveLength(1)
  })

  it('are reported once for each change', () => {
    const changes: string[] = []
    ledger.onChange((each) => changes.push(each), new AbortController().signal)
    for (let round = 0; round < 3; round++) {
      ledger.record(ofConfiguration(0, '7'))
      ledger.recordUsers(ofConfiguration(0, '7'), new Set([pod]))
    }
    expect(changes.splice(0)).toEqual([slot(0)])
    ledger.record(ofConfiguration(1, '7'))
    expect(changes.splice(0)).toEqual([slot(0), slot(1)])
    // The id belongs to another slot now.
    ledger.remove(ofConfiguration(0, '7'))
    expect(changes).toEqual([])
    ledger.remove(ofConfiguration(1, '7'))
    expect(ledger.list()).toEqual([])
  })

  it('an id stands for the slot that was recorded last, after any records and removals', () => {
    const allocation = fc
      .tuple(fc.nat({ max: 3 }), fc.nat({ max: 3 }), fc.boolean())
      .map(([at, id, direct]) => (direct ? ofInstance(at) : ofConfiguration(at, String(id))))
    const step = fc.record({ isRecord: fc.boolean(), each: allocation })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const all = new AllocationLedger({ node: NODE, pods: undefined })
        const model = new Map<string, SlotAllocation>()
        for (const { isRecord, each } of steps) {
          const key = `${each.resourceName} ${each.id}`
          if (isRecord) {
            all.record(each)
            model.set(key, each)
          } else {
            all.remove(each)
            if (model.get(key)?.slot === each.slot) model.delete(key)
          }
        }
        const inOrder = (some: Iterable<SlotAllocation>) =>
          [...some].map((each) => JSON.stringify(each)).sort()
        expect(inOrder(all.list())).toEqual(inOrder(model.values()))
        expect(inOrder(all.inUse(INSTANCE))).toEqual(inOrder(model.values()))
        expect(inOrder([0, 1, 2, 3].flatMap((index) => all.ofSlot(slot(index))))).toEqual(
          inOrder(model.values()),
        )
        for (const { slot: at, resourceName, id } of model.values())
          expect(all.slotOf(resourceName, id)).toBe(at)
      }),
    )
  })
})
