import type { NodeName } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { instanceWith, NODE, resourcesOf, servedWith, slot } from '../testing/objects.js'
import { chosenSlots, preferredSlots } from './instance-resource.js'
import { advertisedSlots, instanceSlots, SlotBook } from './slot-book.js'

const NODES = ['node-a', 'node-b', 'node-c'] as NodeName[]
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
  return instanceSlots(node as NodeName, served, instance)
}

describe('the slots of an Instance', () => {
  it('R7 R84 of running containers have their ids, whatever the Instance records', () => {
    const inUse = { [slot(0)]: 'C:5:node-a', [slot(1)]: 'node-a', [slot(7)]: 'C:6:node-a' }
    const seen = (usage: Record<string, string>) =>
      instanceSlots(NODE, servedWith(), instanceWith(usage), undefined, inUse)
    const lost = seen({ [slot(0)]: '', [slot(1)]: 'node-b' })
    expect([...lost.slots.values()]).toMatchObject([{ virtualId: '5' }, { node: 'node-b' }])
    const other = seen({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' })
    for (const { free, byId } of [lost, other])
      expect([free, Object.fromEntries(byId)]).toEqual([[], { 5: slot(0), 6: slot(7) }])
    expect(advertisedSlots(other).map(({ healthy }) => healthy)).toEqual([false, true])
  })

  it('R82 R84 A16 A20 are offered and given without a foreign claim, unless they wait', () => {
    fc.assert(
      fc.property(claims, fc.boolean(), fc.nat(10), (values, healthy, beyond) => {
        const seen = seenBy(NODE, values, { healthy, beyond })
        const offered = advertisedSlots(seen)
        expect(offered.map(({ id }) => id)).toEqual(values.map((_, index) => slot(index)))
        let waiting = values.filter((value) => value === '').length - beyond
        const expected = values.map(
          (value) => healthy && (value === 'node-a' || (value === '' && waiting-- > 0)),
        )
        expect(offered.map(({ healthy }) => healthy)).toEqual(expected)
        // Also a slot of this node that no container uses any more.
        const ids = offered.flatMap(({ id, healthy }) => (healthy ? id : []))
        const [chosen = []] = chosenSlots(seen, [ids], {})
        expect(chosen.map(({ slot }) => slot)).toEqual(ids)
      }),
    )
  })
})

describe('the preferred slots', () => {
  const preferred = (node: string, values: readonly string[], size: number, nodes = NODES) => {
    const available = values.map((_, index) => slot(index))
    const request = { available, mustInclude: [], size }
    return preferredSlots(seenBy(node, values, { nodes }), request)
  }

  it('A16 R85 differ between nodes if there are enough slots, also before a node joins', () => {
    const free = ['', '', '', '', '', '']
    expect(NODES.map((node) => preferred(node, free, 2))).toEqual([
      [slot(0), slot(1)],
      [slot(3), slot(2)],
      [slot(4), slot(5)],
    ])
    expect(preferred('node-d', free, 1)).toEqual([slot(5)])
    // The node that has created the Instance is alone in it at first.
    for (const nodes of [NODES.slice(0, 1), NODES.slice(0, 2)])
      for (let size = 0; size <= 6; size++) {
        const ofFirst = preferred('node-a', free, size, nodes)
        const all = [...ofFirst, ...preferred('node-b', free, 6 - size, nodes)]
        expect(new Set(all).size).toBe(6)
      }
  })

  it('A16 are those that the kubelet requires, claims of this node, and free slots', () => {
    const seen = seenBy('node-a', ['', 'node-b', 'node-a', 'C:0:node-a', '', 'node-a'])
    const available = [0, 1, 2, 3, 4].map(slot)
    const preferred = [slot(4), slot(2), slot(0)]
    for (const size of [1, 2, 3, 4])
      expect(preferredSlots(seen, { available, mustInclude: [slot(4)], size })).toEqual(
        preferred.slice(0, size),
      )
  })
})

/** The resources of both levels, for one device. */
function open() {
  const instances = new ObjectStore<ReturnType<typeof instanceWith>>()
  const kubelet = { pods: undefined }
  const clock = new ManualClock()
  const book = new SlotBook({ cluster: { instances }, node: NODE, kubelet, clock })
  instances.put(instanceWith({}, { capacity: 3 }))
  const served = servedWith({ capacity: 3 })
  book.serve(served)
  const { one, any } = resourcesOf(served)
  const ofContainer = (index: number, id: string, resourceName: string = any.name) => {
    const allocation = { slot: slot(index), resourceName, id }
    book.allocations.record(allocation)
    return allocation
  }
  const health = () => book.advertise(one).map(({ healthy }) => healthy)
  const ids = () => Object.fromEntries(book.advertise(any).map(({ id, healthy }) => [id, healthy]))
  return { instances, book, served, one, any, ofContainer, health, ids }
}

type Opened = ReturnType<typeof open>

describe('an id of an Instance is refused', () => {
  const refuses = (id: string, message: string, happen: (opened: Opened) => void = () => {}) => {
    const opened = open()
    happen(opened)
    expect(() => opened.book.choose(opened.one, [[id]])).toThrow(message)
  }

  it('A20 A22 if it is no slot of the Instance, with its beginning in the message', () => {
    const odd = ['', '0', 'cam-8120fe-01', 'cam-8120fe--1', 'cam-a19705-0', 'ä\n']
    for (const id of [...odd, `${slot(1)}000000000`])
      refuses(id, `${JSON.stringify(id)} is not a slot of Instance cam-8120fe`)
    refuses('x'.repeat(100_000), `"${'x'.repeat(200)}" is not a slot of Instance cam-8120fe`)
    refuses(
      slot(2),
      'Instance cam-8120fe has no slot "cam-8120fe-2"; its capacity is 2',
      ({ book, served }) => book.serve({ ...served, capacity: 2 }),
    )
  })

  it.each<[string, string, (opened: Opened) => void]>([
    [
      'R82 its handler does not report the device',
      'the device of Instance cam-8120fe is not available now',
      ({ book, served }) => book.serve({ ...served, healthy: false }),
    ],
    [
      'the device was removed',
      'the device of Instance cam-8120fe was removed',
      ({ book, served }) => book.withdraw(served, false),
    ],
    [
      'R84 A13 the Instance does not exist',
      'there is no Instance cam-8120fe yet',
      ({ instances, served }) => instances.remove(served.key),
    ],
    [
      'R84 A13 the Instance is under deletion',
      'Instance cam-8120fe is being deleted',
      ({ instances }) => instances.put(instanceWith({}, {}, { deletionTimestamp: '2026' })),
    ],
    [
      'R7 R84 a container has the slot whose claim the Instance has lost',
      'a container of this node has slot cam-8120fe-0 already, by C:7:node-a',
      ({ ofContainer }) => ofContainer(0, '7'),
    ],
  ])('if %s', (_, message, happen) => refuses(slot(0), message, happen))

  it.each([
    ['node-b', ' by node node-b'],
    ['C:0:node-a', ' by node node-a'],
    ['x:y', ''],
  ])('R84 R85 by the claim %s', (claim, by) =>
    refuses(slot(1), `slot cam-8120fe-1 is taken${by}`, ({ instances }) =>
      instances.put(instanceWith({ [slot(1)]: claim }, { capacity: 3 })),
    ),
  )
})

describe('containers whose devices cannot be allocated', () => {
  it('A13 R84 keep their ids as healthy without the Instance, which offers no other', () => {
    const { instances, served, book, ofContainer, health, ids } = open()
    ofContainer(0, slot(0), 'akri.sh/cam-8120fe')
    const used = ofContainer(1, '4')
    expect([health(), ids()]).toEqual([[true, false, true], { 0: true, 4: true }])
    // No container has these claims.
    const claims = { [slot(2)]: 'node-a', [slot(1)]: 'C:5:node-a' }
    instances.put(instanceWith(claims, { capacity: 3 }, { deletionTimestamp: '2026' }))
    expect([health(), ids()]).toEqual([[true, false, false], { 4: true }])
    instances.remove(served.key)
    expect([health(), ids()]).toEqual([[true, false, false], { 4: true }])
    book.serve({ ...served, healthy: false })
    expect([health(), ids()]).toEqual([[false, false, false], { 4: false }])
    book.serve(served)
    book.allocations.remove(used)
    expect([health(), ids()]).toEqual([[true, false, false], {}])
  })

  it('keep their ids as unhealthy without the device, until they end or it is back', () => {
    const { book, served, ofContainer, ids } = open()
    const losses: unknown[] = []
    const signal = new AbortController().signal
    book.onLoss(({ instance }, isOver) => losses.push([instance, isOver]), signal)
    const { name: instance, configuration } = served
    const lost = { id: undefined, instance, configuration }
    const used = ofContainer(0, '0')
    book.serve(servedWith({}, 'a19705'))
    book.lose(lost)
    book.withdraw(served, false)
    expect([ids(), losses]).toEqual([{}, []])
    book.serve(served)
    book.withdraw(served, true)
    expect(ids()).toEqual({ 0: false })
    book.serve(served)
    expect([ids(), book.lost(served.configuration)]).toEqual([{ 0: true, 1: true }, []])
    book.withdraw(served, true)
    const next = ofContainer(1, '7')
    book.allocations.remove(used)
    expect([ids(), book.isLost(served.name)]).toEqual([{ 7: false }, true])
    book.allocations.remove(next)
    expect([ids(), book.isLost(served.name)]).toEqual([{}, false])
    book.lose(lost)
    const [begun, over] = [
      [served.name, false],
      [served.name, true],
    ]
    expect(losses).toEqual([begun, begun, over])
  })
})
