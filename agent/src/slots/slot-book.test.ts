import { setImmediate } from 'node:timers/promises'
import type { Instance, InstanceName, SlotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ObjectStore } from '../cluster/object-store.js'
import { instanceWith, servedWith } from '../testing/objects.js'
import { SlotBook } from './slot-book.js'

const NODE = 'node-a' as NodeName
const OTHER = 'node-b' as NodeName
const served = servedWith()
const slot = (index: number) => `cam-8120fe-${index}` as SlotName

let clock: ManualClock
let instances: ObjectStore<Instance>
let book: SlotBook
let changes: (string | undefined)[]

beforeEach(() => {
  clock = new ManualClock()
  instances = new ObjectStore()
  book = new SlotBook({ cluster: { instances }, node: NODE, kubelet: { pods: undefined }, clock })
  changes = []
  book.onChange(({ instance }) => changes.push(instance), new AbortController().signal)
})

afterEach(() => {
  vi.restoreAllMocks()
})

const put = (usage: Record<string, string>, metadata: Partial<Instance['metadata']> = {}) =>
  instances.put(instanceWith(usage, { nodes: [NODE, OTHER] }, metadata))
const free = () => book.of(served.name)?.free

describe('what a node knows of slots', () => {
  it('R83 follows the Instance, and tells of each change of what is offered', () => {
    book.serve(served)
    expect([book.of(served.name)?.state, free(), changes]).toEqual(['absent', [], [served.name]])
    put({})
    expect(free()).toEqual([slot(0), slot(1)])
    put({ [slot(0)]: OTHER })
    expect(free()).toEqual([slot(1)])
    expect(changes).toHaveLength(3)
  })

  it('tells nothing of what the kubelet need not know', async () => {
    put({})
    book.serve(served)
    changes = []
    put({}, { generation: 2, resourceVersion: '2' })
    book.serve({ ...served, properties: { CAMERA: '1' } })
    await book.refresh()
    expect(changes).toEqual([])
    // But the next container gets it.
    expect(book.of(served.name)?.served.properties).toEqual({ CAMERA: '1' })
  })

  it('R7 R84 has what containers of this node have, with a claim or without one', () => {
    put({})
    book.serve(served)
    const used = { slot: slot(0), resourceName: 'akri.sh/cam', id: '3' }
    book.allocations.record(used)
    expect([free(), book.of(served.name)?.byId.get('3')]).toEqual([[slot(1)], slot(0)])
    book.allocations.remove(used)
    expect(free()).toEqual([slot(0), slot(1)])
  })

  it('R7 tells when a container ends while its Instance is being deleted', () => {
    const used = { slot: slot(0), resourceName: `akri.sh/${served.name}`, id: slot(0) }
    put({ [slot(0)]: NODE }, { deletionTimestamp: '2026-01-01T00:00:00Z' })
    book.serve(served)
    book.allocations.record(used)
    changes = []
    // Lists have showed the slot as healthy.
    book.allocations.remove(used)
    expect(changes).toEqual([served.name])
  })

  it('R77 keeps a slot that another node frees for that node', async () => {
    put({ [slot(0)]: OTHER })
    book.serve(served)
    put({})
    expect(free()).toEqual([slot(1)])
    changes = []
    await clock.advance(15_000)
    expect([free(), changes]).toEqual([[slot(0), slot(1)], [served.name]])
  })

  it('A8 does not take the Instance of another namespace for its own', () => {
    put({}, { namespace: 'elsewhere' })
    book.serve(served)
    expect(book.of(served.name)?.state).toBe('absent')
  })

  it('lets other work have its turn while it makes all slots again', async () => {
    for (const digest of ['8120fe', 'a19705', 'b00000']) book.serve(servedWith({}, digest))
    let time = 0
    vi.spyOn(performance, 'now').mockImplementation(() => {
      time += 10
      return time
    })
    const done: string[] = []
    const other = setImmediate().then(() => done.push('allocation'))
    await Promise.all([other, book.refresh().then(() => done.push('refresh'))])
    expect(done).toEqual(['allocation', 'refresh'])
  })

  it('makes the slots of one Instance for a change of one of thousands', () => {
    for (let index = 0; index < 5000; index++)
      book.serve(servedWith({}, index.toString(16).padStart(6, '0')))
    const get = vi.spyOn(instances, 'get')
    instances.put(instanceWith({}, {}, { name: 'cam-000007' as InstanceName }))
    book.allocations.record({ slot: slot(0), resourceName: 'akri.sh/cam', id: '0' })
    expect(get.mock.calls.length).toBeLessThan(5)
    expect(book.all(served.configuration)).toHaveLength(5000)
  })
})
