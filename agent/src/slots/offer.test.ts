import { type InstanceName, type SlotName, slotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { instanceWith, servedWith } from '../testing/objects.js'
import { instanceSlots } from './instance-slots.js'
import { offeredSlots, preferredSlots } from './offer.js'

const instance = 'cam-8120fe' as InstanceName

/** The Instance with these usages of its slots, as a node offers it. */
function seenBy(
  node: NodeName,
  values: readonly string[],
  { healthy = true, nodes = [node], beyond = 0 } = {},
) {
  const usage = Object.fromEntries(
    [...values, ...Array<string>(beyond).fill('node-z')].map((value, index) => [
      slotName(instance, index),
      value,
    ]),
  )
  const capacity = values.length
  const served = servedWith({ healthy, capacity })
  return instanceSlots({ served, instance: instanceWith(usage, { nodes, capacity }) }, node)
}

describe('the offered slots', () => {
  it('R82 R84 are those without a foreign claim, and none of an unhealthy device', () => {
    const usages = fc.array(
      fc.constantFrom('', 'node-a', 'node-b', 'C:0:node-a', 'C:1:node-b', 'C:', 'x:y'),
      { maxLength: 8 },
    )
    fc.assert(
      fc.property(usages, fc.boolean(), (values, healthy) => {
        const node = 'node-a' as NodeName
        const offered = offeredSlots(seenBy(node, values, { healthy }), node)
        const expected = values.map(
          (value, index) =>
            [slotName(instance, index), healthy && (value === '' || value === 'node-a')] as [
              SlotName,
              boolean,
            ],
        )
        expect([...offered]).toEqual(expected)
      }),
    )
  })

  it('A20 leave out as many free slots as claims are beyond a lowered capacity', () => {
    const usages = fc.array(fc.constantFrom('', 'node-a', 'node-b', 'C:0:node-a'), { maxLength: 8 })
    fc.assert(
      fc.property(usages, fc.nat(10), (values, heldOverCapacity) => {
        const node = 'node-a' as NodeName
        const seen = seenBy(node, values, { beyond: heldOverCapacity })
        const offered = [...offeredSlots(seen, node).values()]
        const count = (value: string) => values.filter((each) => each === value).length
        expect(offered.filter(Boolean)).toHaveLength(
          count('node-a') + Math.max(0, count('') - heldOverCapacity),
        )
      }),
    )
  })
})

describe('the preferred slots', () => {
  const NODES = ['node-a', 'node-b', 'node-c'] as NodeName[]
  const slot = (index: number) => slotName(instance, index)
  const all = (capacity: number) => Array.from({ length: capacity }, (_, index) => slot(index))
  const preferred = (
    node: string,
    values: readonly string[],
    size: number,
    available = all(values.length),
    nodes = NODES,
  ) =>
    preferredSlots(seenBy(node as NodeName, values, { nodes }), node as NodeName, {
      available,
      mustInclude: [],
      size,
    })

  it('A16 R85 differ between nodes if there are enough slots', () => {
    const free = ['', '', '', '', '', '']
    expect(NODES.map((node) => preferred(node, free, 2))).toEqual([
      [slot(0), slot(1)],
      [slot(3), slot(2)],
      [slot(4), slot(5)],
    ])
    expect(NODES.map((node) => preferred(node, ['', ''], 1))).toEqual([
      [slot(0)],
      [slot(1)],
      [slot(1)],
    ])
    // For any split of the slots between two nodes.
    const two = NODES.slice(0, 2)
    for (let first = 0; first <= 5; first++) {
      const [up = [], down = []] = [first, 5 - first].map((size, index) =>
        preferred(NODES[index] ?? '', free.slice(1), size, all(5), two),
      )
      expect(new Set([...up, ...down]).size).toBe(5)
    }
  })

  it('A16 R85 of a node that has not joined yet are not those of the nodes that have', () => {
    const free = ['', '', '', '', '', '']
    expect(preferred('node-d', free, 1)).toEqual([slot(5)])
    // The node that has created the Instance is alone in it at first.
    const first = NODES.slice(0, 1)
    expect(preferred('node-a', free, 3, all(6), first)).toEqual([slot(0), slot(1), slot(2)])
    expect(preferred('node-b', free, 3, all(6), first)).toEqual([slot(5), slot(4), slot(3)])
  })

  it('A16 are first unused claims of this node, and never claims of another node', () => {
    expect(preferred('node-a', ['', 'node-b', 'node-a', 'C:0:node-a'], 4)).toEqual([
      slot(2),
      slot(0),
    ])
  })

  it('include what the kubelet requires, and only available slots', () => {
    const usages = fc.array(fc.constantFrom('', 'node-a', 'node-b', 'C:0:node-a'), { maxLength: 8 })
    fc.assert(
      fc.property(
        usages,
        fc.array(fc.nat(9)),
        fc.nat(9),
        fc.constantFrom(...NODES),
        (values, left, size, node) => {
          const available = [...new Set(left)].map(slot)
          const mustInclude = available.slice(0, Math.min(1, size))
          const seen = seenBy(node, values, { nodes: NODES })
          const chosen = preferredSlots(seen, node, { available, mustInclude, size })
          expect(chosen.slice(0, mustInclude.length)).toEqual(mustInclude)
          expect(chosen.length).toBeLessThanOrEqual(size)
          expect(new Set(chosen).size).toBe(chosen.length)
          for (const each of chosen) expect(available).toContain(each)
        },
      ),
    )
  })
})
