import { setImmediate } from 'node:timers/promises'
import type { Instance, InstanceName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { costOf } from '../../../test/support/cost.js'
import { ObjectStore } from '../cluster/object-store.js'
import { instanceWith, NODE, OTHER, servedWith, slot } from '../testing/objects.js'
import { SlotBook } from './slot-book.js'

const served = servedWith()
const BOTH = ['akri.sh/cam-8120fe', 'akri.sh/cam']

let clock: ManualClock
let instances: ObjectStore<Instance>
let book: SlotBook
let changes: string[]

beforeEach(() => {
  clock = new ManualClock()
  instances = new ObjectStore()
  book = open()
  changes = []
  book.onChange((resource) => changes.push(resource), new AbortController().signal)
})

afterEach(async () => {
  vi.restoreAllMocks()
  book.close()
  await clock.advance(0)
  expect(clock.sleeping).toEqual([])
})

function open(slotHandoverMs?: number): SlotBook {
  const kubelet = { pods: undefined }
  return new SlotBook({ cluster: { instances }, node: NODE, kubelet, clock, slotHandoverMs })
}

const put = (
  usage: Record<string, string>,
  metadata: Partial<Instance['metadata']> = {},
  spec: Partial<Instance['spec']> = {},
) => instances.put(instanceWith(usage, { nodes: [NODE, OTHER], ...spec }, metadata))
const free = () => [...(book.of(served.name)?.free ?? [])].sort()

describe('what a node knows of slots', () => {
  it('R83 A8 follows the Instance, and tells which resources may have changed', () => {
    book.serve(served)
    expect([book.of(served.name)?.state, free(), changes]).toEqual(['absent', [], BOTH])
    put({})
    expect(free()).toEqual([slot(0), slot(1)])
    put({ [slot(0)]: OTHER })
    expect(free()).toEqual([slot(1)])
    expect(changes.splice(0)).toEqual([...BOTH, ...BOTH, ...BOTH])
    // The Instance of another device, and of a namespace that has nothing to do with this one.
    put({}, { name: 'cam-a19705' as InstanceName })
    put({}, { namespace: 'elsewhere' })
    expect(changes).toEqual([])
    instances.remove(served.key)
    expect(book.of(served.name)?.state).toBe('absent')
  })

  it('R88 is made again each minute, in turns with other work', async () => {
    for (const digest of ['8120fe', 'a19705', 'b00000']) book.serve(servedWith({}, digest))
    let time = 0
    vi.spyOn(performance, 'now').mockImplementation(() => {
      time += 10
      return time
    })
    changes = []
    await clock.advance(59_999)
    expect(changes).toEqual([])
    void clock.advance(1)
    const seen: number[] = []
    for (let turn = 0; turn < 50; turn++) {
      await setImmediate()
      seen.push(changes.length)
    }
    expect(changes).toHaveLength(6)
    expect(seen.filter((count) => count > 0 && count < 6)).not.toEqual([])
  })

  it('makes the slots of an Instance once for a question, however many facts changed', () => {
    book.serve(served)
    const get = vi.spyOn(instances, 'get')
    for (let index = 0; index < 100; index++) {
      const id = slot(index)
      book.allocations.record({ slot: id, resourceName: 'akri.sh/cam-8120fe', id })
    }
    for (let round = 0; round < 2; round++)
      expect(book.all(served.configuration)[0]?.own).toEqual([slot(0), slot(1)])
    expect(get).toHaveBeenCalledTimes(1)
  })
})

describe('a slot that another node frees', () => {
  const ALL = [slot(0), slot(1)]
  const GONE = { nodes: [NODE] }

  beforeEach(() => book.serve(served))

  it.each([OTHER, `C:0:${OTHER}`])(
    'R77 is reserved for that node for a while, and free then, if the claim was %s',
    async (held) => {
      put({ [slot(0)]: held })
      // The claim can be from before the start of the agent.
      book.close()
      book = open()
      book.onChange((resource) => changes.push(resource), new AbortController().signal)
      book.serve(served)
      put({})
      await clock.advance(10_000)
      expect(free()).toEqual([slot(1)])
      // R84: that node can claim the slot meanwhile, which is reserved again after that.
      put({ [slot(0)]: held })
      put({})
      changes = []
      await clock.advance(14_999)
      expect([free(), changes]).toEqual([[slot(1)], []])
      await clock.advance(1)
      expect([free(), changes]).toEqual([ALL, BOTH])
    },
  )

  it.each<[string, () => void]>([
    ['this node had it', () => [put({ [slot(0)]: NODE, [slot(1)]: `C:0:${NODE}` }), put({})]],
    [
      'its node leaves the Instance after that',
      () => [put({ [slot(1)]: OTHER }), put({}), put({}, {}, GONE)],
    ],
    [
      'reservations are switched off',
      () => {
        book.close()
        book = open(0)
        book.serve(served)
        put({ [slot(0)]: OTHER })
        put({})
      },
    ],
    [
      'R84 its last node has recreated the Instance without the claim',
      () => [put({ [slot(0)]: OTHER }), put({}, { uid: 'u2' })],
    ],
  ])('is free at once if %s', (_, happen) => {
    happen()
    expect(free()).toEqual(ALL)
  })

  it('is free after its own time if another slot is reserved again meanwhile', async () => {
    const both = { [slot(0)]: OTHER, [slot(1)]: OTHER }
    for (const usage of [both, { [slot(1)]: OTHER }, {}, { [slot(0)]: OTHER }, {}]) {
      put(usage)
      await clock.advance(2000)
    }
    // Of slot 1 since 6 s, of slot 0 since 2 s.
    await clock.advance(8999)
    expect(free()).toEqual([])
    await clock.advance(1)
    expect(free()).toEqual([slot(1)])
    await clock.advance(4000)
    expect(free()).toEqual(ALL)
  })

  it('R79 is not reserved if the slot is beyond the capacity', () => {
    put({ [slot(0)]: NODE, [slot(1)]: OTHER }, {}, { capacity: 1 })
    put({ [slot(0)]: '' }, {}, { capacity: 1 })
    expect(free()).toEqual([slot(0)])
  })

  it('R84 costs no look at each slot of a capacity that another program writes', async () => {
    const capacity = 30_000_000
    const cost = await costOf(() => {
      put({ [slot(0)]: OTHER }, {}, { capacity })
      put({}, {}, { capacity })
      expect(free()).toEqual([slot(1)])
      instances.remove(served.key)
    })
    expect(cost).toBeLessThan(2000)
  })

  it('R84 costs no look at the reservations of other Instances that go', async () => {
    const names = Array.from({ length: 20_000 }, (_, at) => `cam-${at}` as InstanceName)
    const cost = await costOf(() => {
      for (const usage of [OTHER, ''])
        for (const name of names) put({ [`${name}-0`]: usage }, { name })
      for (const name of names) instances.remove(objectKey('default', name))
    })
    expect(cost).toBeLessThan(2000)
  })

  it.each([true, false])(
    'R84 is reserved in a recreated Instance until the node joins (deletion seen: %s)',
    async (isSeen) => {
      put({ [slot(0)]: OTHER, [slot(1)]: NODE })
      if (isSeen) instances.remove(served.key)
      put({}, { uid: 'u2' }, GONE)
      expect(free()).toEqual([slot(1)])
      put({}, { uid: 'u2' })
      expect(free()).toEqual(ALL)
      put({}, { uid: 'u2' }, GONE)
      // The node may not join in time.
      await clock.advance(15_000)
      expect(free()).toEqual(ALL)
    },
  )

  it('R84 by leaving is also reserved in the next Instance of the device', async () => {
    put({ [slot(0)]: NODE, [slot(1)]: OTHER })
    put({ [slot(0)]: NODE }, {}, GONE)
    // All nodes lost the device.
    instances.remove(objectKey('default', served.name))
    await clock.advance(14_000)
    put({}, { uid: 'u2' }, GONE)
    await clock.advance(14_999)
    expect(free()).toEqual([slot(0)])
    await clock.advance(1)
    expect(free()).toEqual(ALL)
  })
})
