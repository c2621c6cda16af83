import { claimPatch, type Instance, type SlotName } from '@akrijs/api'
import { ApiError, type NodeName } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { instanceWith } from '../testing/objects.js'
import { type InstanceStep, joinStep, leaveStep } from './instance-steps.js'
import { leaveWaitMs } from './instance-work.js'

const PATH = '/apis/akri.sh/v0/namespaces/default/instances/cam-8120fe'
const nodesOf = (count: number) => Array.from({ length: count }, (_, i) => `node-${i}` as NodeName)

let server: FakeApiServer

const current = () => server.objects.get(PATH) as unknown as Instance | undefined

/** Carries out a decision. @returns whether the server accepted the write */
function write<T>(step: InstanceStep<T>): boolean {
  if ('done' in step) return true
  try {
    const request = { path: PATH, query: new URLSearchParams(), manager: 'test' }
    if ('remove' in step) {
      const { uid, resourceVersion } = step.remove.metadata
      const body = { preconditions: { uid, resourceVersion } }
      server.store.handle({ ...request, method: 'DELETE', body })
    } else server.store.handle({ ...request, method: 'PATCH', patch: 'json', body: step.patch })
    return true
  } catch (error) {
    if (error instanceof ApiError && [404, 409, 422].includes(error.status)) return false
    throw error
  }
}

beforeEach(() => {
  server = new FakeApiServer(new ManualClock())
})

describe('the wait before a leave', () => {
  it.each([
    [9, 0],
    [10, 90],
    [200, 1990],
    [1000, 1998],
  ])('of %i nodes is longer for each place nearer to the first: %i ms', (count, first) => {
    const nodes = nodesOf(count)
    const instance = instanceWith({}, { nodes })
    const waits = nodes.map((node) => leaveWaitMs(instance, node))
    expect(waits[0]).toBeCloseTo(first)
    expect(waits.at(-1)).toBe(0)
    const isShorter = (wait: number, place: number) => wait < (waits[place - 1] ?? Infinity)
    expect(first === 0 || waits.every(isShorter)).toBe(true)
  })

  it('lets all nodes leave with one refused write, although each has read all others', () => {
    const nodes = nodesOf(100)
    server.put(PATH, { ...instanceWith({}, { nodes }) })
    const before = current()
    const inTurn = nodes.toSorted(
      (a, b) => leaveWaitMs(before as Instance, a) - leaveWaitMs(before as Instance, b),
    )
    const refused = inTurn.filter((node) => !write(leaveStep(before, node)))
    expect(refused).toEqual(['node-0'])
    expect(write(leaveStep(current(), 'node-0' as NodeName))).toBe(true)
    expect(current()).toBeUndefined()
  })
})

describe('nodes that join, claim and leave at once', () => {
  const NODES = nodesOf(6)
  const action = fc.record({
    node: fc.constantFrom(...NODES),
    /** How many changes the cache of the node is behind, apart from its own writes. */
    behind: fc.nat(3),
    what: fc.constantFrom('leave', 'leave', 'join', 'claim'),
  })

  it('leave no Instance without nodes, lose no node, and free only their own slots', () => {
    fc.assert(
      fc.property(
        fc.uniqueArray(fc.constantFrom(...NODES), { minLength: 1 }),
        fc.array(action, { maxLength: 40 }),
        (first, actions) => {
          server = new FakeApiServer(new ManualClock())
          const slots = Object.fromEntries(NODES.map((_, i) => [`cam-8120fe-${i}`, '']))
          server.put(PATH, { ...instanceWith(slots, { nodes: first, capacity: NODES.length }) })
          const history = [current()]
          let members = new Set<string>(first)
          const written = new Map<NodeName, number>()
          for (const { node, behind, what } of actions) {
            if (current() === undefined) return
            const read = history[Math.max(written.get(node) ?? 0, history.length - 1 - behind)]
            const slot = `cam-8120fe-${NODES.indexOf(node)}` as SlotName
            const step =
              what === 'leave'
                ? leaveStep(read, node)
                : what === 'join'
                  ? joinStep(read, node)
                  : read?.spec.deviceUsage[slot] === '' && members.has(node)
                    ? ({ patch: claimPatch(read, slot, node), result: 'claimed' } as const)
                    : ({ done: 'nothing' } as const)
            const version = server.store.version
            const isDone = write<string>(step)
            if (isDone && server.store.version !== version) {
              if (what === 'leave') members = new Set([...members].filter((each) => each !== node))
              if (what === 'join') members.add(node)
            }
            const now = current()
            history.push(now)
            if (isDone) written.set(node, history.length - 1)
            expect(new Set(now?.spec.nodes)).toEqual(members)
            expect(now === undefined || now.spec.nodes.length > 0).toBe(true)
            const holders = Object.values(now?.spec.deviceUsage ?? {}).filter((each) => each !== '')
            for (const holder of holders)
              if (what === 'leave') expect(isDone && holder === node).toBe(false)
          }
        },
      ),
      { numRuns: 200 },
    )
  })
})
