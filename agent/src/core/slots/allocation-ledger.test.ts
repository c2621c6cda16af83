import { type InstanceName, parseSlotUsage, type SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import type { NodePods } from '../../ports/kubelet.js'
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
    hasEnded: (one) => ended.has(one),
    onGone: () => {},
  }
  ledger = new AllocationLedger({ node: NODE, pods })
})

describe('the slots that containers have', () => {
  it('R38 R89 are written as their Instance has to say them', () => {
    expect(usageOf(ofInstance(0), NODE)).toBe('node-a')
    expect(usageOf(ofConfiguration(0, '4'), NODE)).toBe('C:4:node-a')
    // As the existing system names ids.
    expect(usageOf(ofConfiguration(0, 'cam-4'), NODE)).toBe('C:cam-4:node-a')
  })

  it('R84 are claims of their Instance, those beyond its capacity too', () => {
    for (const one of [ofInstance(0), ofConfiguration(1, '0'), ofInstance(7)]) ledger.record(one)
    ledger.record({ ...ofInstance(0), slot: 'cam-a19705-0' as SlotName, id: 'cam-a19705-0' })
    expect(ledger.claimsIn(INSTANCE)).toEqual({
      [slot(0)]: 'node-a',
      [slot(1)]: 'C:0:node-a',
      [slot(7)]: 'node-a',
    })
    expect(ledger.claimsIn('cam-ffffff' as InstanceName)).toEqual({})
  })

  it('R7 are not free, and what others hold is theirs', () => {
    const said = new Map(
      [0, 1, 2].map((index) => [slot(index), parseSlotUsage(index === 1 ? 'node-b' : '')]),
    )
    expect(ledger.overlay(INSTANCE, said)).toBe(said)
    for (const one of [ofConfiguration(0, '5'), ofInstance(1)]) ledger.record(one)
    expect([...ledger.overlay(INSTANCE, said).values()]).toEqual(
      ['C:5:node-a', 'node-b', ''].map((text) => parseSlotUsage(text)),
    )
  })

  it.each<[string, () => void]>([
    ['has gone', () => users.clear()],
    ['has ended', () => ended.add(pod)],
  ])('R90 are nobody any more once their Pod %s', (_, end) => {
    ledger.recordUsers(ofConfiguration(0, '5'), new Set([pod]))
    expect(ledger.inUse()).toHaveLength(1)
    end()
    expect(ledger.inUse()).toEqual([])
    expect(ledger.claimsIn(INSTANCE)).toEqual({})
    // Whose they are now is not known yet.
    ledger.record(ofConfiguration(0, '5'))
    expect(ledger.inUse()).toHaveLength(1)
  })

  it('A2 are what the kubelet says while nobody knows which Pods there are', () => {
    ledger.recordUsers(ofInstance(0), new Set([pod]))
    users.clear()
    synced = false
    expect(ledger.inUse()).toHaveLength(1)
  })

  it('are told of once, when something changes about them', () => {
    const told: string[] = []
    ledger.onChange((one) => told.push(one), new AbortController().signal)
    for (let round = 0; round < 3; round++) {
      ledger.record(ofConfiguration(0, '7'))
      ledger.recordUsers(ofConfiguration(0, '7'), new Set([pod]))
    }
    expect(told.splice(0)).toEqual([slot(0)])
    ledger.record(ofConfiguration(1, '7'))
    expect(told.splice(0)).toEqual([slot(0), slot(1)])
    // It is another slot's by now.
    ledger.remove(ofConfiguration(0, '7'))
    expect(told).toEqual([])
    ledger.remove(ofConfiguration(1, '7'))
    expect(ledger.list()).toEqual([])
  })

  it('each id stands for the slot that was noted last, whatever is noted and forgotten', () => {
    const one = fc
      .tuple(fc.nat({ max: 3 }), fc.nat({ max: 3 }), fc.boolean())
      .map(([at, id, direct]) => (direct ? ofInstance(at) : ofConfiguration(at, String(id))))
    const step = fc.record({ note: fc.boolean(), each: one })
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const all = new AllocationLedger({ node: NODE, pods: undefined })
        const model = new Map<string, SlotAllocation>()
        for (const { note, each } of steps) {
          const key = `${each.resourceName} ${each.id}`
          if (note) {
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
