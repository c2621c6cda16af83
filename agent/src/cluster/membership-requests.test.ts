import type { Instance, Membership } from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { instanceWith } from '../testing/objects.js'
import { MembershipRequests } from './membership-requests.js'
import { ObjectStore } from './object-store.js'

const NODE = 'node-z' as NodeName
const names = (count: number) =>
  Array.from({ length: count }, (_, index) => `node-${index}` as NodeName)

let clock: ManualClock
let instances: ObjectStore<Instance>
let known: number
/** The report counts how often it hears of a new wish, and of room for another. */
let told: { wishChanged: number; statusChanged: number }
let report: ConstructorParameters<typeof MembershipRequests>[0]['report'] & { isMissing: boolean }
let requests: MembershipRequests

beforeEach(() => {
  clock = new ManualClock()
  instances = new ObjectStore()
  known = 10
  told = { wishChanged: 0, statusChanged: 0 }
  report = {
    isMissing: false,
    wishChanged: () => void told.wishChanged++,
    statusChanged: () => void told.statusChanged++,
  }
  requests = new MembershipRequests(
    { node: NODE, clock, knownNodes: () => known, instances, report, random: () => 0.5 },
    new AbortController().signal,
  )
})

/** The watch shows the Instance with the node, or without it. */
function show(instance: Instance, hasNode: boolean): void {
  const nodes = [...instance.spec.nodes, ...(hasNode ? [NODE] : [])]
  instances.put({ ...instance, spec: { ...instance.spec, nodes } })
}

const shared = (nodes: number, metadata: Partial<Instance['metadata']> = {}) =>
  instanceWith({}, { shared: true, nodes: names(nodes) }, metadata)
const DELETED = { deletionTimestamp: '2026-01-01T00:00:00Z' }
const local = instanceWith({}, { shared: false, nodes: names(1) })
const key = keyOf(shared(1))

function join(instance = shared(2), isUrgent = false): boolean {
  show(instance, false)
  return requests.ask(keyOf(instance), 'join', isUrgent)
}

function leave(instance = shared(2)): boolean {
  show(instance, true)
  return requests.ask(keyOf(instance), 'leave')
}

const { uid } = shared(1).metadata

/** The agent waits for the controller so long, and then writes itself. */
async function waits(ms: number): Promise<void> {
  expect(join()).toBe(true)
  await clock.advance(ms - 1)
  expect(join()).toBe(true)
  await clock.advance(1)
  expect(join()).toBe(false)
}

const reports = (wish: Membership['wish'], of = uid) =>
  expect(requests.wishes.get(key)).toEqual({ uid: of, wish })

describe('a node that joins or leaves a shared Instance', () => {
  it.each<[string, { known: number; isMissing?: boolean }, () => boolean]>([
    ['in a small cluster', { known: 9 }, () => join(shared(9))],
    ['in a small cluster that it leaves', { known: 9 }, () => leave(shared(8))],
    ['if it is the last that leaves', { known: 10 }, () => leave(shared(0))],
    ['for an Instance under deletion', { known: 10 }, () => join(shared(2, DELETED))],
    ['without the custom resource for reports', { known: 10, isMissing: true }, join],
    ['for an Instance of its own', { known: 10 }, () => leave(local)],
  ])('A10 writes itself %s', (_, world, ask) => {
    ;({ known, isMissing: report.isMissing = false } = world)
    expect(ask()).toBe(false)
    expect(requests.wishes.size).toBe(0)
  })

  it.each([
    [10, 1],
    [1, 10],
  ])('A10 asks the controller if it knows %i nodes and %i of the Instance', (nodes, joined) => {
    known = nodes
    expect(join(shared(joined))).toBe(true)
    reports('join')
  })

  it.each([
    [10, 7650],
    [100, 22_500],
    [5000, 900_000],
  ])('A10 R98 waits at random, for longer among %i nodes, which all would write', (nodes, ms) => {
    known = nodes
    return waits(ms)
  })

  it('A10 R98 waits longer for a wish without room, which follows earlier ones', async () => {
    const metadataOf = (index: number) => ({ name: `other-${index}` as never, uid: 'other' })
    for (let index = 0; index < 1000; index++) join(shared(2, metadataOf(index)))
    await waits(15_300)
    expect(told).toEqual({ wishChanged: 1001, statusChanged: 0 })
    for (const index of [0, 1]) instances.put(shared(2, { ...metadataOf(index), uid: 'next' }))
    expect(told).toEqual({ wishChanged: 1001, statusChanged: 1 })
  })

  it('A10 replaces an earlier wish, which the report can still have, if it writes itself', () => {
    expect(join()).toBe(true)
    known = 3
    expect(leave(shared(3))).toBe(false)
    reports('leave')
    expect(join(shared(3), true)).toBe(false)
    reports('join')
  })

  it('A10 asks again for an Instance that was recreated', async () => {
    join()
    await clock.advance(20_000)
    expect(join(shared(2, { uid: 'other' }))).toBe(true)
    reports('join', 'other')
  })

  it.each<[string, () => void]>([
    ['that has come true', () => show(shared(2), true)],
    ['about an Instance that is gone', () => instances.remove(key)],
    ['about an earlier Instance', () => show(shared(2, { uid: 'other' }), false)],
  ])('A10 takes a wish back %s', (_, happens) => {
    join()
    show(shared(2), false)
    expect(requests.wishes.size).toBe(1)
    happens()
    expect(requests.wishes.size).toBe(0)
  })

  it('A10 R98 asks again, with patience, to join what others removed it from', async () => {
    join()
    show(shared(2), true)
    await clock.advance(60_000)
    show(shared(2), false)
    expect(join()).toBe(true)
    reports('join')
  })

  it('A10 takes back a wish to leave when the device returns', () => {
    requests.stay(key)
    expect(requests.wishes.size).toBe(0)
    show(shared(2), true)
    expect(leave()).toBe(true)
    requests.stay(key)
    reports('join')
  })
})
