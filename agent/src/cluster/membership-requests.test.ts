import type { Instance, Membership } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey } from '@akrijs/kube'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { instanceWith } from '../testing/objects.js'
import { MembershipRequests } from './membership-requests.js'

const NODE = 'node-z' as NodeName
const names = (count: number) =>
  Array.from({ length: count }, (_, index) => `node-${index}` as NodeName)

let clock: ManualClock
let present: Instance | undefined
let known: number
let isMissing: boolean
let reported: Map<ObjectKey, Membership>
let requests: MembershipRequests
let changed: (key: ObjectKey) => void

beforeEach(() => {
  clock = new ManualClock()
  known = 1
  isMissing = false
  reported = new Map()
  present = shared(1)
  requests = new MembershipRequests(
    {
      node: NODE,
      clock,
      knownNodes: () => known,
      instances: {
        get: () => present,
        onChange: (listener) => {
          changed = listener
        },
      },
      report: {
        get isMissing() {
          return isMissing
        },
        get memberships() {
          return reported.size
        },
        setMembership: (key, wish) => {
          if (wish === undefined) reported.delete(key)
          else reported.set(key, wish)
        },
      },
    },
    new AbortController().signal,
    () => 0.5,
  )
})

/** The watch shows the Instance with the node, or without it. */
function show(instance: Instance | undefined, hasNode: boolean): void {
  const nodes = [...names(2), ...(hasNode ? [NODE] : [])]
  present = instance && { ...instance, spec: { ...instance.spec, nodes } }
  changed(key)
}

const shared = (nodes: number, metadata: Partial<Instance['metadata']> = {}) =>
  instanceWith({}, { shared: true, nodes: names(nodes) }, metadata)
const key = keyOf(shared(1))

describe('a node that joins or leaves a shared Instance', () => {
  it('A10 writes itself in a small cluster', () => {
    known = 9
    expect(requests.ask(shared(9), 'join')).toBe(false)
    expect(requests.ask(shared(9), 'leave')).toBe(false)
    expect(reported.size).toBe(0)
  })

  it.each([
    [10, 1],
    [1, 10],
  ])('A10 asks the controller if it knows %i nodes and %i of the Instance', (nodes, joined) => {
    known = nodes
    const instance = shared(joined)
    expect(requests.ask(instance, 'join')).toBe(true)
    expect(reported).toEqual(new Map([[key, { uid: instance.metadata.uid, wish: 'join' }]]))
  })

  it('A10 writes itself after some seconds without the controller, at random', async () => {
    known = 10
    expect(requests.ask(shared(2), 'join')).toBe(true)
    await clock.advance(7649)
    expect(requests.ask(shared(3), 'join')).toBe(true)
    await clock.advance(1)
    expect(requests.ask(shared(3), 'join')).toBe(false)
  })

  it.each([
    [40, 9900],
    [100, 22_500],
    [1000, 900_000],
    [5000, 900_000],
  ])('A10 R98 waits for longer among %i nodes, which all would write', async (nodes, ms) => {
    known = nodes
    expect(requests.ask(shared(2), 'join')).toBe(true)
    await clock.advance(ms - 1)
    expect(requests.ask(shared(2), 'join')).toBe(true)
    await clock.advance(1)
    expect(requests.ask(shared(2), 'join')).toBe(false)
  })

  it('A10 writes itself without the custom resource for reports, and alone', () => {
    known = 10
    isMissing = true
    expect(requests.ask(shared(2), 'join')).toBe(false)
    isMissing = false
    const own = instanceWith({}, { shared: false, nodes: names(1) })
    expect(requests.ask(own, 'leave')).toBe(false)
    expect(reported.size).toBe(0)
  })

  it('A10 replaces an earlier wish also if it writes itself', () => {
    known = 10
    const { uid } = shared(2).metadata
    expect(requests.ask(shared(2), 'join')).toBe(true)
    known = 3
    expect(requests.ask(shared(3), 'leave')).toBe(false)
    expect(reported.get(key)).toEqual({ uid, wish: 'leave' })
    expect(requests.ask(shared(3), 'join', true)).toBe(false)
    expect(reported.get(key)).toEqual({ uid, wish: 'join' })
  })

  it('A10 asks again for an Instance that was recreated', async () => {
    known = 10
    requests.ask(shared(2), 'join')
    await clock.advance(20_000)
    expect(requests.ask(shared(2, { uid: 'other' }), 'join')).toBe(true)
    expect(reported.get(key)).toEqual({ uid: 'other', wish: 'join' })
  })

  it.each<[string, () => void]>([
    ['that has come true', () => show(shared(2), true)],
    ['about an Instance that is gone', () => show(undefined, true)],
    ['about an earlier Instance', () => show(shared(2, { uid: 'other' }), false)],
  ])('A10 takes a wish back %s', (_, happens) => {
    known = 10
    requests.ask(shared(2), 'join')
    changed(key)
    expect(reported.size).toBe(1)
    happens()
    expect(reported.size).toBe(0)
  })

  it('A10 R98 asks again, with patience, to join what others removed it from', async () => {
    known = 10
    const { uid } = shared(2).metadata
    requests.ask(shared(2), 'join')
    show(shared(2), true)
    await clock.advance(60_000)
    show(shared(2), false)
    expect(requests.ask(shared(2), 'join')).toBe(true)
    expect(reported.get(key)).toEqual({ uid, wish: 'join' })
  })

  it('A10 replaces a wish that has come true: the report on the server can still have it', () => {
    known = 10
    const { uid } = shared(2).metadata
    requests.ask(shared(2), 'join')
    show(shared(2), true)
    known = 3
    expect(requests.ask(shared(3), 'leave')).toBe(false)
    expect(reported.get(key)).toEqual({ uid, wish: 'leave' })
  })

  it('A10 takes back a wish to leave when the device returns', () => {
    known = 10
    const { uid } = shared(2).metadata
    requests.stay(key)
    expect(reported.size).toBe(0)
    show(shared(2), true)
    expect(requests.ask(shared(2), 'leave')).toBe(true)
    requests.stay(key)
    expect(reported.get(key)).toEqual({ uid, wish: 'join' })
  })

  it('A10 R98 waits longer for a wish that the report has no room for yet', async () => {
    known = 10
    for (let index = 0; index < 1000; index++)
      reported.set(`plant/other-${index}` as ObjectKey, { uid: 'other', wish: 'join' })
    expect(requests.ask(shared(2), 'join')).toBe(true)
    await clock.advance(15_299)
    expect(requests.ask(shared(2), 'join')).toBe(true)
    await clock.advance(1)
    expect(requests.ask(shared(2), 'join')).toBe(false)
  })
})
