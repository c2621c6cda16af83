import type { Instance } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Pod } from '../kubernetes-objects.js'
import { T0, type TestPod, testInstance, testPod, withHistory } from '../testing/objects.js'
import type { BrokerHistory, Replaced } from './broker-history.js'
import { isEnded } from './broker-state.js'
import { type PodPlanInput, planPods } from './pod-plan.js'

const MINUTE = 60_000

function plan(instance: Instance, pods: readonly Pod[], more: Partial<PodPlanInput> = {}) {
  const result = planPods({
    instance,
    specHash: 'now',
    strategy: 'RollingUpdate',
    pods,
    isUsable: () => true,
    isAway: () => false,
    lastOn: () => undefined,
    choiceAt: 0,
    now: T0,
    ...more,
  })
  return {
    ...result,
    creates: result.create.map(({ node }) => node).sort(),
    // Here the roll-out permits each update.
    removes: [...result.remove.map(({ pod }) => pod), ...(result.update ? [result.update] : [])]
      .map(({ metadata }) => metadata.name)
      .sort(),
  }
}

/** What a broker on the node `a` has left. */
const leftOnA = (replaced: Replaced | undefined): Pick<BrokerHistory, 'left'> => ({
  left: replaced === undefined ? {} : { a: { replaced } },
})

const failed = (more: TestPod = {}): TestPod => ({ phase: 'Failed', ready: false, ...more })

const one = testInstance(['a'])
const two = testInstance(['a', 'b'])
const three = testInstance(['a', 'b', 'c'], { capacity: 3 })
const twice = testInstance(['a', 'a'])
const deleted: Instance = {
  ...one,
  metadata: { ...one.metadata, deletionTimestamp: '2026-01-01T00:00:00Z' },
}
const pending: TestPod = { phase: 'Pending', ready: false, hasRun: false }
const unscheduled: TestPod = { ...pending, scheduled: false }
const several = [
  testPod('a', { name: 'x', phase: 'Pending', ready: false }),
  testPod('a', { name: 'y' }),
  testPod('a', failed({ name: 'z' })),
]
const old = (node: string, more: TestPod = {}) => testPod(node, { hash: 'before', ...more })
/** New brokers could run on these nodes only. */
const only = (...nodes: string[]) => ({ isUsable: (node: NodeName) => nodes.includes(node) })
const after = (minutes: number) => ({ now: T0 + minutes * MINUTE })
const onDelete = { strategy: 'OnDelete' } as const

type Row = [string, Instance, readonly Pod[], Partial<PodPlanInput>, string[], string[]]

describe('the broker Pods of an Instance', () => {
  const pair = testInstance(['a', 'b'], { capacity: 2 })
  const reduced = testInstance(['a', 'b', 'c'], { capacity: 2 })
  const [a, b, c] = [testPod('a'), testPod('b'), testPod('c')]
  const ended = testPod('a', failed())
  const waiting = testPod('a', unscheduled)
  const leaving = testPod('c', { leaves: true })
  it.each<Row>([
    ['R44 R45 R63 are one for each node of the Instance', pair, [], {}, ['a', 'b'], []],
    ['R44 R45 are not created where there is one', pair, [a], {}, ['b'], []],
    ['R63 are removed from other nodes', pair, [a, c], {}, [], ['c-pod']],
    ['have their slots until they have gone', pair, [a, leaving], {}, [], []],
    ['are one for a node that the Instance names twice', twice, [], {}, ['a'], []],
    ['stay on such a node', twice, [a], {}, [], []],
    [
      'are one there, whatever the capacity',
      testInstance(['a', 'a'], { capacity: 2 }),
      [],
      {},
      ['a'],
      [],
    ],
    ['R77 are on a node that can be used', two, [], only('b'), ['b'], []],
    ['R77 move to such a node after their end', two, [ended], only('b'), ['b'], ['a-pod']],
    ['stay while they run, also on a cordoned node', two, [a], only('b'), [], []],
    ['are none if no node can be used', two, [], only(), [], []],
    ['R48 are fewer when the capacity is lowered', reduced, [ended, b, c], {}, [], ['a-pod']],
    ['R51 are removed if no Pod is specified', one, [a], { specHash: undefined }, [], ['a-pod']],
    ['R51 are removed if the Instance is being deleted', deleted, [a], {}, [], ['a-pod']],
    [
      'are the running one of several',
      testInstance(['a'], { capacity: 3 }),
      several,
      {},
      [],
      ['x', 'z'],
    ],
    [
      'stay if a container has run',
      one,
      [testPod('a', { ...pending, hasRun: true })],
      after(60),
      [],
      [],
    ],
    ['R76 stay while no node has room for them', one, [waiting], after(60), [], []],
    // The new broker is created once the old one has gone.
    ['R77 leave after five minutes without room', two, [waiting], after(5), [], ['a-pod']],
  ])('%s', (_title, instance, pods, more, creates, removes) => {
    expect(plan(instance, pods, more)).toMatchObject({ creates, removes })
  })

  it('R48 R114 C7 are at most as many as the capacity, always on the same nodes', () => {
    const nodes = Array.from({ length: 10 }, (_, index) => `n${index}`)
    const creates = (...names: string[]) => plan(testInstance(names, { capacity: 5 }), []).creates
    const chosen = creates(...nodes)
    expect(chosen).toHaveLength(5)
    expect(creates(...nodes.toReversed())).toEqual(chosen)
    // A new node does not take a running broker from another node.
    const running = chosen.map((node) => testPod(node))
    for (const more of [[], ['z0', 'z1', 'z2']])
      expect(plan(testInstance([...nodes, ...more], { capacity: 5 }), running)).toMatchObject({
        creates: [],
        removes: [],
      })
  })

  it('are spread over the nodes', () => {
    const counts = new Map<string, number>()
    for (let index = 0; index < 300; index++) {
      const [node = ''] = plan(testInstance(['a', 'b', 'c'], { name: `cam-${index}` }), []).creates
      counts.set(node, (counts.get(node) ?? 0) + 1)
    }
    for (const node of ['a', 'b', 'c']) expect(counts.get(node)).toBeGreaterThan(70)
  })

  it('R77 move on to each other node in turn while nodes have no room', () => {
    const instance = testInstance(['a', 'b', 'c'])
    let history: BrokerHistory = { left: {}, full: [] }
    const hosts: string[] = []
    let now = T0
    let pods: Pod[] = []
    for (let round = 0; round < 20 && hosts.length < 7; round++) {
      const step = plan(withHistory(instance, history), pods, { now })
      history = step.history
      const removed = step.remove.map(({ pod }) => pod)
      pods = pods.filter((pod) => !removed.includes(pod))
      for (const { node } of step.create) {
        hosts.push(node)
        const waiting = {
          phase: 'Pending',
          ready: false,
          scheduled: false,
          createdAt: now,
        } as const
        pods.push(testPod(node, waiting))
      }
      now += 6 * MINUTE
    }
    const turn = hosts.slice(0, 3)
    expect(turn.toSorted()).toEqual(['a', 'b', 'c'])
    expect(hosts).toEqual([...turn, ...turn, turn[0]])
  })

  it.each([2, 1])('R48 are %i after the capacity was lowered to that', (capacity) => {
    const running = ['a', 'b', 'c'].map((node) => testPod(node))
    const { creates, removes } = plan(testInstance(['a', 'b', 'c'], { capacity }), running)
    expect([creates, removes.length]).toEqual([[], 3 - capacity])
  })
})

describe('a broker that has ended', () => {
  it('R49 R62 is restarted at once, then with a back-off while it ends again and again', () => {
    const ended = (restarts: number) =>
      testPod('a', { phase: 'Succeeded', ready: false, restarts, endedAt: T0 })
    const reason = 'it has ended: Succeeded'
    expect(plan(testInstance(['a']), [ended(0)]).remove).toMatchObject([{ reason, restarts: 1 }])
    const { removes, recheckAt = T0 } = plan(testInstance(['a']), [ended(1)])
    expect([removes, recheckAt > T0]).toEqual([[], true])
    expect(plan(testInstance(['a']), [ended(1)], { now: recheckAt }).remove).toMatchObject([
      { reason, restarts: 2 },
    ])
  })

  it('resets the back-off after a long run', () => {
    const pod = testPod('a', failed({ restarts: 9, ranMs: 11 * MINUTE }))
    expect(plan(testInstance(['a']), [pod]).remove).toMatchObject([{ restarts: 1 }])
  })

  it('R86 R89 C6 waits before the first restart too if the kubelet refused it', () => {
    const pod = testPod('a', failed({ reason: 'UnexpectedAdmissionError', hasRun: false }))
    const { removes, recheckAt = 0 } = plan(testInstance(['a']), [pod])
    expect(removes).toEqual([])
    expect(recheckAt).toBeGreaterThanOrEqual(T0 + 2000)
    expect(plan(testInstance(['a']), [pod], { now: recheckAt }).removes).toEqual(['a-pod'])
  })

  it('C6 waits alone after another client deleted it, and the wait counts a deletion once', () => {
    const instance = testInstance(['a', 'b'], { capacity: 2 })
    const lastOn = (ageMs: number) => (node: NodeName) =>
      node === 'a' ? { uid: 'deleted', ageMs } : undefined
    const found = withHistory(instance, { left: { a: { vanished: 1 } } })
    const { creates, recheckAt = T0 } = plan(found, [], { lastOn: lastOn(1000) })
    expect(creates).toEqual(['b'])
    const later = { now: recheckAt, lastOn: lastOn(1000 + recheckAt - T0) }
    const { creates: next, history } = plan(found, [testPod('b')], later)
    expect([next, history.left]).toEqual([['a'], { a: { uid: 'deleted', vanished: 2 } }])
    // A refused creation is no further deletion.
    const again = plan(withHistory(instance, history), [testPod('b')], later)
    expect([again.creates, again.history]).toEqual([['a'], history])
  })

  it('passes on the number of its restarts', () => {
    // A restart stays on its node.
    const instance = testInstance(['a', 'b'])
    for (const node of ['a', 'b'])
      expect(plan(withHistory(instance, { left: { [node]: { restarts: 2 } } }), []).create).toEqual(
        [{ node, restarts: 2 }],
      )
  })

  it('leaves its restarts, and whether it worked, until a broker of its node works', () => {
    const ended = testPod('a', failed({ restarts: 2, endedAt: 0 }))
    const { history } = plan(one, [ended])
    expect(history.left).toEqual({ a: { uid: ended.metadata.uid, restarts: 3 } })
    const found = withHistory(one, history)
    expect(plan(found, [testPod('a', { name: 'next', readySince: T0 })]).history).toEqual(history)
    expect(plan(found, [testPod('a', { name: 'next' })]).history.left).toEqual({})
    const left = { a: { uid: 'x', replaced: 'broken' } } as const
    expect(plan(withHistory(one, { left }), [testPod('a')]).history.left).toEqual(left)
  })

  it('leaves it to the next broker of its node, or else of another node', () => {
    const pair = testInstance(['a', 'b', 'c'], { capacity: 2 })
    const left = { a: { replaced: 'broken' }, b: { replaced: 'working' } } as const
    const found = withHistory(pair, { left })
    const leftAfter = (...nodes: string[]) => plan(found, [], only(...nodes)).history.left
    expect(leftAfter('a')).toEqual(left)
    expect(leftAfter('c')).toEqual({ a: left.a, c: left.b })
  })
})

describe('a broker that is pending', () => {
  it.each([
    ['R86 R89 C6 is replaced after five minutes on its node, by time alone', one, pending],
    ['R77 is tried on another node after five minutes without room', two, unscheduled],
  ])('%s', (_title, instance, more) => {
    const pod = testPod('a', more)
    const recheckAt = T0 + 5 * MINUTE
    expect(plan(instance, [pod])).toMatchObject({ removes: [], recheckAt })
    const restarts = more === pending ? 1 : 0
    expect(plan(instance, [pod], after(5)).remove).toMatchObject([{ restarts }])
  })
})

describe('a changed spec', () => {
  const all = ['a', 'b', 'c'].map((node) => old(node))
  const [, b = expect.fail(), c = expect.fail()] = all
  const starting = testPod('a', { phase: 'Pending', ready: false, scheduled: false })
  const unready = testPod('a', { ready: false })
  const adopted = testPod('a', { hash: undefined })
  it.each<Row>([
    ['R65 R72 is rolled out one broker at a time', three, all, {}, [], ['a-pod']],
    ['R65 waits for one that is leaving', three, [old('a', { leaves: true }), b, c], {}, [], []],
    ['R65 waits for one that is missing', three, [b, c], {}, ['a'], []],
    ['R65 waits for one that starts', three, [starting, b, c], {}, [], []],
    ['R65 waits for one that is not ready', three, [unready, b, c], {}, [], []],
    ['R65 goes on with the next one', three, [testPod('a'), b, c], {}, [], ['b-pod']],
    ['is not held up by one without room', three, [starting, b, c], after(5), [], ['b-pod']],
    ['leaves brokers whose successors could run nowhere', three, all, only(), [], []],
    ['replaces the one whose successor could run', three, all, only('b'), [], ['b-pod']],
    ['moves a broker to a node that takes over', two, [old('a')], only('b'), [], ['a-pod']],
    // It is lost anyway.
    ['replaces one that does not work', one, [old('a', { ready: false })], only(), [], ['a-pod']],
    ['waits with OnDelete until a user deletes', three, [old('a'), b], onDelete, ['c'], []],
    ['is none for brokers without a spec hash', one, [adopted], {}, [], []],
  ])('%s', (_title, instance, pods, more, creates, removes) => {
    expect(plan(instance, pods, more)).toMatchObject({ creates, removes })
  })

  it('waits only while brokers of the earlier spec are left', () => {
    const waits = (...pods: readonly Pod[]) => plan(three, pods).waits
    expect(waits(unready, b, c)).toBe(true)
    expect(waits(unready, testPod('b'), testPod('c'))).toBe(false)
    expect(waits(testPod('a'), b, c)).toBe(false)
  })

  it('replaces all brokers that do not work at once, without their restarts', () => {
    const ended = old('b', failed({ restarts: 9, endedAt: T0 }))
    const { remove } = plan(three, [old('a', { ready: false }), ended, c])
    expect(remove.map(({ pod, restarts }) => [pod.metadata.name, restarts]).sort()).toEqual([
      ['a-pod', 0],
      ['b-pod', 0],
    ])
  })

  it('takes brokers without a spec hash over', () => {
    expect(plan(one, [adopted]).adopt).toEqual([adopted])
  })

  it('waits for a new broker until it has been ready for five seconds', () => {
    const pods = [testPod('a', { readySince: T0 }), b, c]
    const { left } = leftOnA('working')
    const found = withHistory(three, { left })
    expect(plan(found, pods)).toMatchObject({ removes: [], missing: 1, recheckAt: T0 + 5000 })
    expect(plan(found, pods, { now: T0 + 4999 })).toMatchObject({ missing: 1, history: { left } })
    expect(plan(found, pods, { now: T0 + 5000 })).toMatchObject({
      update: { metadata: { annotations: { 'akri.sh/broker-spec-hash': 'before' } } },
      missing: 0,
      history: { left: {} },
    })
  })

  it('passes on whether the last working broker was replaced by the controller', () => {
    const left = (more: TestPod, replaced?: Replaced, now = T0) =>
      plan(withHistory(one, leftOnA(replaced)), [testPod('a', more)], { now }).remove.map(
        (removal) => removal.replaced,
      )
    const before: TestPod = { hash: 'before', ready: false }
    expect(left(before)).toEqual(['broken'])
    expect(left(before, 'broken')).toEqual(['broken'])
    expect(left(before, 'working')).toEqual(['working'])
    expect(left({ hash: 'before', ...failed() })).toEqual(['broken'])
    // A broker that is ready for a moment only.
    expect(left({ hash: 'before', readySince: T0 }, 'working')).toEqual(['working'])
    expect(left({ hash: 'before', readySince: T0 }, 'working', T0 + 5000)).toEqual([])
    // A restart changes nothing.
    for (const replaced of ['working', 'broken', undefined] as const)
      expect(left(failed(), replaced)).toEqual([replaced])
  })

  it('counts the brokers that a roll-out waits for', () => {
    const missing = (pods: readonly Pod[], more: Partial<PodPlanInput> = {}) =>
      plan(one, pods, more).missing
    expect(missing([])).toBe(1)
    expect(missing([testPod('a')])).toBe(0)
    expect(missing([testPod('a', { leaves: true })])).toBe(1)
    expect(missing([testPod('a', { ready: false })])).toBe(1)
    expect(missing([testPod('a', failed())])).toBe(1)
    expect(missing([old('a')])).toBe(0)
    // A broker that did not work before the change costs nothing.
    expect(missing([old('a', { ready: false })])).toBe(0)
    const broken = withHistory(one, leftOnA('broken'))
    expect(plan(broken, [testPod('a', { ready: false })]).missing).toBe(0)
    expect(plan(broken, [old('a', { leaves: true })]).missing).toBe(0)
    expect(plan(broken, []).missing).toBe(0)
    // The new broker of an earlier change still counts, and does not count twice.
    const working = withHistory(one, leftOnA('working'))
    expect(plan(working, [old('a', { ready: false })]).missing).toBe(1)
    // The node is at fault.
    expect(missing([testPod('a', { ready: false })], { isAway: () => true })).toBe(0)
    expect(missing([], { isUsable: () => false })).toBe(0)
    expect(plan(one, [], { isUsable: () => false }).desired).toBe(0)
  })
})

describe('for any Pods and nodes', () => {
  const NODES = ['a', 'b', 'c', 'd', 'e']
  const anyPod = fc
    .record({
      node: fc.constantFrom(...NODES),
      hash: fc.constantFrom('now', 'before', undefined),
      leaves: fc.boolean(),
      scheduled: fc.boolean(),
      restarts: fc.nat({ max: 12 }),
      state: fc.constantFrom<TestPod>(
        {},
        { ready: false },
        { phase: 'Pending', ready: false },
        { phase: 'Pending', ready: false, hasRun: false },
        { phase: 'Failed', ready: false },
        { phase: 'Failed', ready: false, reason: 'UnexpectedAdmissionError', hasRun: false },
        { phase: 'Succeeded', ready: false, endedAt: T0 },
        { phase: 'Unknown', ready: false },
      ),
    })
    .map(({ node, state, ...more }, index = 0) => ({ node, more: { ...more, ...state }, index }))
  const pods = fc
    .array(anyPod, { maxLength: 8 })
    .map((all) => all.map(({ node, more }, index) => testPod(node, { ...more, name: `p${index}` })))
  const instances = fc
    .record({ nodes: fc.subarray(NODES), capacity: fc.integer({ min: 1, max: 5 }) })
    .map(({ nodes, capacity }) => testInstance(nodes, { capacity }))
  const usable = fc.subarray(NODES)

  it('R48 R114 a plan creates at most capacity brokers, on nodes without a Pod', () => {
    fc.assert(
      fc.property(
        instances,
        pods,
        usable,
        fc.nat({ max: 20 * MINUTE }),
        (instance, existing, good, later) => {
          const { create, remove, adopt } = plan(instance, existing, {
            isUsable: (node) => good.includes(node),
            now: T0 + later,
          })
          const alive = existing.filter((pod) => !isEnded(pod))
          if (create.length > 0)
            expect(alive.length + create.length).toBeLessThanOrEqual(instance.spec.capacity)
          for (const { node } of create) {
            expect(instance.spec.nodes).toContain(node)
            expect(good).toContain(node)
            expect(existing.map(({ targetNode }) => targetNode)).not.toContain(node)
          }
          const removed = remove.map(({ pod }) => pod)
          expect(new Set(removed).size).toBe(removed.length)
          for (const pod of removed) expect(pod.metadata.deletionTimestamp).toBeUndefined()
          for (const pod of adopt) expect(removed).not.toContain(pod)
        },
      ),
    )
  })
})
