import type { Instance, SlotName } from '@akrijs/api'
import { ApiError, type NodeName, type ObjectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { beforeEach, describe, expect, it } from 'vitest'
import { CAMERA, instanceWith } from '../testing/objects.js'
import { type InstanceStep, InstanceWrites } from './instance-steps.js'
import { leaveWaitMs } from './instance-work.js'

const PATH = '/apis/akri.sh/v0/namespaces/default/instances/cam-8120fe'
const nodesOf = (count: number) => Array.from({ length: count }, (_, i) => `node-${i}` as NodeName)

let server: FakeApiServer

const current = () => server.objects.get(PATH) as unknown as Instance | undefined

/** The writes of a node that has read the Instance before others changed it. */
class LateWrites extends InstanceWrites {
  readonly #read: Instance | undefined

  constructor(read: Instance | undefined) {
    super()
    this.#read = read
  }

  protected async changeInstance<T>(_: ObjectKey, decide: (of?: Instance) => InstanceStep<T>) {
    const step = decide(this.#read)
    if ('done' in step) return step.done
    const request = { path: PATH, query: new URLSearchParams(), manager: 'test' }
    if ('remove' in step) {
      const { uid, resourceVersion } = step.remove.metadata
      const body = { preconditions: { uid, resourceVersion } }
      server.store.handle({ ...request, method: 'DELETE', body })
    } else server.store.handle({ ...request, method: 'PATCH', patch: 'json', body: step.patch })
    return step.result
  }
}

/** Whether the server accepts the write. */
async function isAccepted(write: Promise<unknown>): Promise<boolean> {
  try {
    await write
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
  it('is longest at the first place, and about two seconds at most', () => {
    const waits = [9, 10, 200, 1000].map((count) => {
      const nodes = nodesOf(count)
      return leaveWaitMs(instanceWith({}, { nodes }), 'node-0' as NodeName)
    })
    expect(waits).toEqual([0, 90, 1990, 1998])
  })

  it('lets all nodes leave with one refused write, although each has read all others', async () => {
    const nodes = nodesOf(100)
    server.put(PATH, { ...instanceWith({}, { nodes }) })
    const before = current()
    const inTurn = nodes.toSorted(
      (a, b) => leaveWaitMs(before as Instance, a) - leaveWaitMs(before as Instance, b),
    )
    const refused: NodeName[] = []
    for (const node of inTurn)
      if (!(await isAccepted(new LateWrites(before).leaveInstance(CAMERA, node))))
        refused.push(node)
    expect(refused).toEqual(['node-0'])
    expect(await new LateWrites(current()).leaveInstance(CAMERA, 'node-0' as NodeName)).toBe(
      'deleted',
    )
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

  it('leave no Instance without nodes, lose no node, and free only their own slots', async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.uniqueArray(fc.constantFrom(...NODES), { minLength: 1 }),
        fc.array(action, { maxLength: 40 }),
        async (first, actions) => {
          server = new FakeApiServer(new ManualClock())
          const slots = Object.fromEntries(NODES.map((_, i) => [`cam-8120fe-${i}`, '']))
          server.put(PATH, { ...instanceWith(slots, { nodes: first, capacity: NODES.length }) })
          const history = [current()]
          const members = new Set<string>(first)
          const written = new Map<NodeName, number>()
          for (const { node, behind, what } of actions) {
            if (current() === undefined) return
            const read = history[Math.max(written.get(node) ?? 0, history.length - 1 - behind)]
            const slot = `cam-8120fe-${NODES.indexOf(node)}` as SlotName
            if (what === 'claim' && !members.has(node)) continue
            const version = server.store.version
            const writes = new LateWrites(read)
            const isDone = await isAccepted(
              what === 'leave'
                ? writes.leaveInstance(CAMERA, node)
                : what === 'join'
                  ? writes.joinInstance(CAMERA, node)
                  : writes.claimSlot(CAMERA, slot, node),
            )
            const isWritten = isDone && server.store.version !== version
            if (isWritten && what === 'leave') members.delete(node)
            if (isWritten && what === 'join') members.add(node)
            const now = current()
            history.push(now)
            if (isDone) written.set(node, history.length - 1)
            expect(new Set(now?.spec.nodes)).toEqual(members)
            expect(now === undefined || now.spec.nodes.length > 0).toBe(true)
            const holders = Object.values(now?.spec.deviceUsage ?? {})
            if (isDone && what === 'leave') expect(holders).not.toContain(node)
          }
        },
      ),
      { numRuns: 200 },
    )
  })
})
