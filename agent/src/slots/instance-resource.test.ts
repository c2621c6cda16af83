import { type InstanceName, type SlotName, slotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { instanceWith, servedWith } from '../testing/objects.js'
import { offeredSlots, preferredSlots } from './instance-resource.js'
import { instanceSlots } from './instance-slots.js'

const NODES = ['node-a', 'node-b', 'node-c'] as NodeName[]
const NODE = 'node-a' as NodeName
const slot = (index: number) => slotName('cam-8120fe' as InstanceName, index)
const of = (facts: Parameters<typeof instanceSlots>[0]) => instanceSlots(facts, NODE)
const claim = fc.constantFrom('', 'node-a', 'node-b', 'C:0:node-a', 'C:1:node-b', 'C:', 'x:y')
const claims = fc.array(claim, { maxLength: 8 })

/** The slots with these claims and with so many claims beyond the capacity, as a node sees them. */
function seenBy(
  node: string,
  values: readonly string[],
  { beyond = 0, healthy = true, nodes = NODES } = {},
) {
  const others = Array.from({ length: beyond }, () => 'node-b')
  const usage = Object.fromEntries([...values, ...others].map((value, at) => [slot(at), value]))
  const capacity = values.length
  const served = servedWith({ healthy, capacity })
  const instance = instanceWith(usage, { nodes, capacity })
  return instanceSlots({ served, instance }, node as NodeName)
}

describe('the slots of an Instance', () => {
  it('R82 A13 are usable while device and Instance are there and stay', () => {
    const served = servedWith()
    const leaving = instanceWith({}, {}, { deletionTimestamp: '2026-01-01T00:00:00Z' })
    expect(of({ served, instance: instanceWith({}) })).toMatchObject({ usable: true })
    expect(of({ served, instance: leaving })).toMatchObject({ state: 'leaving', free: [] })
    expect(of({ served, instance: undefined })).toMatchObject({ state: 'absent', free: [] })
    const unhealthy = of({ served: servedWith({ healthy: false }), instance: instanceWith({}) })
    expect(unhealthy).toMatchObject({ usable: false, free: [] })
  })

  it('A20 are as many as the smaller capacity of the Instance and its Configuration', () => {
    const sizeOf = (capacity: number, written?: number) => {
      const instance = written === undefined ? undefined : instanceWith({}, { capacity: written })
      return of({ served: servedWith({ capacity }), instance }).slots.size
    }
    expect([sizeOf(3, 2), sizeOf(2, 3), sizeOf(2)]).toEqual([2, 2, 2])
  })

  it('R7 R84 of running containers have their ids, whatever the Instance records', () => {
    const inUse = { [slot(0)]: 'C:5:node-a', [slot(1)]: 'node-a', [slot(7)]: 'C:6:node-a' }
    const seen = (usage: Record<string, string>) =>
      of({ served: servedWith(), instance: instanceWith(usage), inUse })
    const lost = seen({ [slot(0)]: '', [slot(1)]: 'node-b' })
    expect([...lost.slots.values()]).toMatchObject([{ virtualId: '5' }, { node: 'node-b' }])
    const other = seen({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' })
    for (const { free, byId } of [lost, other])
      expect([free, Object.fromEntries(byId)]).toEqual([[], { 5: slot(0), 6: slot(7) }])
    expect(Object.fromEntries(offeredSlots(other, NODE))).toEqual({
      [slot(0)]: false,
      [slot(1)]: true,
    })
  })

  it('R82 R84 A20 are offered without a foreign claim, except those that have to wait', () => {
    fc.assert(
      fc.property(claims, fc.boolean(), fc.nat(10), (values, healthy, beyond) => {
        const seen = seenBy(NODE, values, { healthy, beyond })
        const offered = offeredSlots(seen, NODE)
        expect([...offered.keys()]).toEqual(values.map((_, index) => slot(index)))
        let waiting = values.filter((value) => value === '').length - beyond
        const expected = values.map(
          (value) => healthy && (value === 'node-a' || (value === '' && waiting-- > 0)),
        )
        expect([...offered.values()]).toEqual(expected)
      }),
    )
  })
})

describe('the preferred slots', () => {
  const all = (capacity: number) => Array.from({ length: capacity }, (_, index) => slot(index))
  const preferred = (
    node: string,
    values: readonly string[],
    size: number,
    available = all(values.length),
    nodes = NODES,
  ) =>
    preferredSlots(seenBy(node, values, { nodes }), node as NodeName, {
      available,
      mustInclude: [],
      size,
    })
  const FREE = ['', '', '', '', '', '']

  it('A16 R85 differ between nodes if there are enough slots', () => {
    expect(NODES.map((node) => preferred(node, FREE, 2))).toEqual([
      [slot(0), slot(1)],
      [slot(3), slot(2)],
      [slot(4), slot(5)],
    ])
    expect(NODES.flatMap((node) => preferred(node, ['', ''], 1))).toEqual([0, 1, 1].map(slot))
    // For any split of the slots between two nodes.
    const two = NODES.slice(0, 2)
    for (let first = 0; first <= 5; first++) {
      const [up = [], down = []] = [first, 5 - first].map((size, index) =>
        preferred(NODES[index] ?? '', FREE.slice(1), size, all(5), two),
      )
      expect(new Set([...up, ...down]).size).toBe(5)
    }
  })

  it('A16 R85 of a node that has not joined yet are not those of the nodes that have', () => {
    expect(preferred('node-d', FREE, 1)).toEqual([slot(5)])
    // The node that has created the Instance is alone in it at first.
    const first = NODES.slice(0, 1)
    expect(preferred('node-a', FREE, 3, all(6), first)).toEqual([0, 1, 2].map(slot))
    expect(preferred('node-b', FREE, 3, all(6), first)).toEqual([5, 4, 3].map(slot))
  })

  it('A16 are first unused claims of this node, and never claims of another node', () => {
    const values = ['', 'node-b', 'node-a', 'C:0:node-a']
    expect(preferred('node-a', values, 4)).toEqual([slot(2), slot(0)])
  })

  it('include what the kubelet requires, and only available slots', () => {
    const left = fc.uniqueArray(fc.nat(9))
    fc.assert(
      fc.property(claims, left, fc.nat(9), fc.constantFrom(...NODES), (values, ids, size, node) => {
        const available: SlotName[] = ids.map(slot)
        const mustInclude = available.slice(0, Math.min(1, size))
        const request = { available, mustInclude, size }
        const chosen = preferredSlots(seenBy(node, values), node, request)
        expect(chosen.slice(0, mustInclude.length)).toEqual(mustInclude)
        expect(chosen.length).toBeLessThanOrEqual(size)
        expect(new Set(chosen).size).toBe(chosen.length)
        for (const each of chosen) expect(available).toContain(each)
      }),
    )
  })
})
