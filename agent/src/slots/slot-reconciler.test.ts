import {
  type Configuration,
  type Instance,
  type InstanceName,
  type NodeName,
  type ObjectKey,
  objectKey,
  type SlotName,
} from '@akrijs/kube'
import { silentLogger } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { KubeletUnavailableError } from '../errors.js'
import type { Allocation, NodePods } from '../ports/kubelet.js'
import { ObjectStore } from '../standalone/object-store.js'
import { instanceWith } from '../test-objects.js'
import { GivenSlots } from './given-slots.js'
import { SlotClaims } from './slot-claims.js'
import { SlotReconciler } from './slot-reconciler.js'

const key = objectKey('default', 'cam-8120fe')
const slot = (index: number) => `cam-8120fe-${index}` as SlotName

let clock: ManualClock
let instances: ObjectStore<Instance>
let configurations: ObjectStore<Configuration>
let listed: Map<string, Allocation[]> | undefined
/** The Pods that ask for `akri.sh/cam-8120fe`, and for how many; undefined where nobody watches Pods. */
let users: Map<ObjectKey, number> | undefined
let synced: boolean
let ended: Set<ObjectKey>
let claims: SlotClaims
let given: GivenSlots
let reconciler: SlotReconciler
/** What was written: the slot and what it says since. */
let written: string[]
let events: string[]
/** The messages of its log, of what is worth a line. */
let said: string[]
let asked: number
let failing: boolean
let hanging: boolean
/** What the Instance has otherwise than usual. */
let spec: Partial<Instance['spec']>
let podGone: () => void
let stop: AbortController
let run: () => void
let ran: Promise<void> | undefined
const pod = objectKey('default', 'pod')
const holds = (...ids: string[]) => new Map([['akri.sh/cam-8120fe', [{ pod, ids: new Set(ids) }]]])
const holdsAny = (...ids: string[]) => new Map([['akri.sh/cam', [{ pod, ids: new Set(ids) }]]])

function put(deviceUsage: Record<string, string>, more: Partial<Instance['spec']> = {}): void {
  spec = more
  instances.put(instanceWith(deviceUsage, { capacity: 3, ...more }))
}

const claimed = (...slots: SlotName[]) =>
  claims.during(async ({ claim }) => {
    for (const one of slots) await claim(one, async () => undefined)
  })
const usage = () => instances.get(key)?.spec.deviceUsage ?? {}

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  instances = new ObjectStore()
  configurations = new ObjectStore()
  listed = new Map()
  users = undefined
  synced = true
  ended = new Set()
  claims = new SlotClaims(clock)
  written = []
  events = []
  said = []
  asked = 0
  failing = false
  hanging = false
  spec = {}
  ran = undefined
  podGone = () => {}
  stop = new AbortController()
  const pods: NodePods = {
    get synced() {
      return synced
    },
    lagMs: 100,
    users: (resource) => new Map(resource.startsWith('akri.sh/cam') ? users : []),
    hasEnded: (one) => ended.has(one),
    onGone: (listener) => {
      podGone = listener
    },
  }
  given = new GivenSlots({
    node: 'node-a' as NodeName,
    get pods() {
      return users && pods
    },
  })
  reconciler = new SlotReconciler({
    clock,
    log: { ...silentLogger, info: (_fields, message) => said.push(message) },
    node: 'node-a' as NodeName,
    claims,
    given,
    cluster: {
      instances,
      configurations,
      restoreSlot: async (_key, which, wanted) => {
        if (failing) throw new TypeError('the API server is away')
        const by = usage()[which] ?? ''
        if (by !== '') return { outcome: 'taken', by }
        written.push(`${which} ${wanted}`)
        put({ ...usage(), [which]: wanted }, spec)
        return { outcome: 'claimed' }
      },
      releaseSlot: async (_key, which, held) => {
        if (usage()[which] !== held) return 'changed'
        written.push(`${which} free`)
        put({ ...usage(), [which]: '' }, spec)
        return 'released'
      },
      recordEvent: ({ regarding, reason, message }) => events.push(`${regarding.kind} ${regarding.key} ${reason}: ${message}`),
    },
    kubelet: {
      listAllocated: async (signal) => {
        asked++
        if (hanging) await new Promise((_, reject) => signal.addEventListener('abort', reject, { once: true }))
        if (listed === undefined) throw new KubeletUnavailableError('away')
        return listed
      },
      get pods(): NodePods | undefined {
        return users && pods
      },
    },
  })
  run = () => {
    ran = reconciler.run(stop.signal)
  }
})

afterEach(async () => {
  stop.abort()
  await ran
  expect(clock.sleeping).toEqual([])
})

describe('slots that nobody uses, where nobody watches Pods', () => {
  beforeEach(() => run())

  it('R90 R92 A14 are taken back after the grace period, of both levels, and no sooner', async () => {
    put({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(1000)
    // Somebody sets the machine's clock meanwhile.
    clock.set(86_400_000)
    await clock.advance(20_000 - 2000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' })
    await clock.advance(12_000)
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' })
  })

  it('R90 are not those that a container has, of another node, or of a form that nobody knows', async () => {
    listed = new Map([
      ['akri.sh/cam-8120fe', [{ pod, ids: new Set([slot(0)]) }]],
      ['akri.sh/cam', [{ pod, ids: new Set(['7']) }]],
    ])
    const held = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: 'node-b', 'cam-8120fe-3': 'C:x' }
    put(held)
    await clock.advance(120_000)
    expect(usage()).toEqual(held)
  })

  it('R92 give a slot that is claimed again the whole grace, though it was unused before', async () => {
    put({ [slot(0)]: 'node-a' })
    await clock.advance(19_000)
    await claimed(slot(0))
    await clock.advance(19_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(12_000)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('are not known while the kubelet cannot be asked', async () => {
    listed = undefined
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})

describe('slots that nobody uses, where somebody watches Pods', () => {
  beforeEach(() => {
    users = new Map([[pod, 1]])
    run()
  })

  it('R90 are free at once when their Pod went', async () => {
    listed = holds(slot(0))
    await claimed(slot(0))
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    listed = new Map()
    users?.clear()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are said to be reclaimed once, though several looks find them at the same time', async () => {
    await clock.advance(0)
    put({ [slot(0)]: 'node-a' })
    users?.clear()
    await clock.advance(200)
    put({ [slot(0)]: 'node-a' })
    await Promise.all([reconciler.round(stop.signal), reconciler.round(stop.signal)])
    expect(usage()).toEqual({ [slot(0)]: '' })
    expect(said).toEqual(['slot reclaimed'])
  })

  it('R90 are free soon after, where the kubelet takes a while to forget the Pod', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a' })
    await clock.advance(600)
    users?.clear()
    podGone()
    await clock.advance(1500)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    listed = new Map()
    await clock.advance(300)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are free when their Pod came and went before the kubelet listed it', async () => {
    await claimed(slot(0))
    put({ [slot(0)]: 'node-a' })
    users?.clear()
    podGone()
    await clock.advance(50)
    // It may be a claim for a Pod that has not been heard of yet.
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(60)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R90 are those of a Pod that has ended, although the kubelet still lists it', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a' })
    ended.add(pod)
    users?.clear()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are none while a Pod that asks for them has not been given any, however long its image takes', async () => {
    await claimed(slot(0))
    put({ [slot(0)]: 'node-a' })
    podGone()
    await clock.advance(600_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    // It was given another one: this is nobody's.
    put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    listed = holds(slot(1))
    await clock.advance(10_000)
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: 'node-a' })
  })

  it('R84 R92 are none of a container that waits to be started again, beside another one of its Pod', async () => {
    users = new Map([[pod, 2]])
    listed = holds(slot(0), slot(1))
    put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    // As a container runtime tells it.
    listed = holds(slot(0))
    await clock.advance(600_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    listed = new Map()
    users.clear()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: '' })
  })

  it('R84 R92 are none of a container that has not been started yet, or of an init container that nobody lists', async () => {
    users = new Map([[pod, 2]])
    await claimed(slot(0), slot(1))
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(600_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    // The init container has ended.
    users.set(pod, 1)
    await clock.advance(10_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: '' })
  })

  it('R84 R92 are none of a request that has not been answered, however long the API server takes', async () => {
    users?.clear()
    let answer = () => {}
    const request = claims.during(async ({ claim }) => {
      await claim(slot(0), async () => put({ [slot(0)]: 'node-a' }))
      await claim(
        slot(1),
        () =>
          new Promise<void>((resolve) => {
            answer = resolve
          }),
      )
    })
    await clock.advance(30_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    answer()
    await request
    await clock.advance(50)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
    await clock.advance(2000)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R77 R90 are those of a Pod that went, although another one still waits for its containers', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a' })
    await clock.advance(10_000)
    users = new Map([[objectKey('default', 'waits'), 1]])
    listed = new Map()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual({ [slot(0)]: '' })
  })

  it('R92 are those that their Pod does not have any more, after the grace period', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    listed = holds(slot(1))
    await clock.advance(19_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'node-a' })
    await clock.advance(20_000)
    expect(usage()).toEqual({ [slot(0)]: '', [slot(1)]: 'node-a' })
  })

  it('A2 are none when a kubelet that has just restarted lists nothing, while their Pods are there', async () => {
    listed = holds(slot(0))
    put({ [slot(0)]: 'node-a' })
    await clock.advance(10_000)
    listed = new Map()
    await clock.advance(60_000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})

describe('slots that a container has and no Instance says so', () => {
  const held = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' }
  const free = { [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' }
  const claimedAgain = [`${slot(0)} node-a`, `${slot(1)} C:7:node-a`]

  beforeEach(() => {
    users = new Map([[pod, 1]])
    listed = new Map([...holds(slot(0)), ...holdsAny('7')])
  })

  /** A first look, at what is right. */
  async function looked(): Promise<void> {
    put(held)
    run()
    await clock.advance(0)
    expect(asked).toBe(1)
  }

  it('R7 R84 are claimed again at once, of both levels, when somebody frees them or makes the Instance anew', async () => {
    await looked()
    put(free)
    await clock.advance(0)
    expect(usage()).toEqual(held)
    expect(written.splice(0)).toEqual(claimedAgain)
    instances.remove(key)
    put({})
    // Not quite at once a second time: somebody may be doing it for ever.
    await clock.advance(1000)
    expect(usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' })
    expect(written.toSorted()).toEqual(claimedAgain)
  })

  it('R84 are claimed again as soon as this node is in the Instance that another one has made', async () => {
    await looked()
    instances.remove(key)
    put(free, { nodes: ['node-b' as NodeName] })
    await clock.advance(0)
    expect(usage()).toEqual(free)
    put(free, { nodes: ['node-b' as NodeName, 'node-a' as NodeName] })
    await clock.advance(0)
    expect(usage()).toEqual(held)
  })

  it('R84 are known before anything is offered, from the kubelet and from before a restart', async () => {
    put(free)
    given.note({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    await reconciler.begin(stop.signal)
    expect(given.claimsIn('cam-8120fe' as InstanceName)).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' })
    expect(written).toEqual([])
  })

  it('do not keep anything waiting for a kubelet that does not answer', async () => {
    hanging = true
    let begun = false
    const beginning = reconciler.begin(stop.signal).then(() => {
      begun = true
    })
    await clock.advance(999)
    expect(begun).toBe(false)
    await clock.advance(1)
    await beginning
    expect(begun).toBe(true)
    hanging = false
    run()
    await clock.advance(0)
  })

  it('cost nothing while all is as it should be', async () => {
    await looked()
    for (const capacity of [4, 5, 6]) put(held, { capacity })
    await clock.advance(100_000)
    expect(written).toEqual([])
    // Once in ten seconds, as ever.
    expect(asked).toBe(11)
  })

  it('R84 are known at the level of the Instance even if nobody remembers them', async () => {
    listed = holds(slot(0))
    put(free)
    run()
    await clock.advance(0)
    expect(usage()).toEqual({ ...free, [slot(0)]: 'node-a' })
  })

  it('are not guessed where nobody knows what an id stands for: that is said, once', async () => {
    configurations.put({ metadata: { name: 'cam', namespace: 'default' } } as Configuration)
    listed = holdsAny('7')
    put(free)
    run()
    await clock.advance(60_000)
    expect(written).toEqual([])
    expect(events).toEqual([expect.stringMatching(/^Configuration default\/cam UnknownSlot: .*has 7 of akri.sh\/cam/)])
  })

  it('R40 R91 are known by the annotations of containers, where those are asked', async () => {
    listed = new Map([['akri.sh/cam', [{ pod, ids: new Set(['7']), slots: new Map([['7', slot(1)]]) }]]])
    put(free)
    run()
    await clock.advance(0)
    expect(usage()).toEqual({ ...free, [slot(1)]: 'C:7:node-a' })
  })

  it('R7 are left to who has taken them meanwhile, and that is said, once', async () => {
    await looked()
    put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(60_000)
    expect(written).toEqual([])
    expect(events).toEqual([expect.stringMatching(/^Instance default\/cam-8120fe SlotUsedTwice: .*cam-8120fe-0.* node-b /)])
    // It may happen again.
    put(held)
    await clock.advance(10_000)
    put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(10_000)
    expect(events).toHaveLength(2)
  })

  it.each<[string, Partial<Instance['spec']>, Record<string, string>, number]>([
    ['are beyond the capacity', { capacity: 1 }, {}, 1],
    ['others hold as many as there may be', { capacity: 2 }, { [slot(0)]: 'node-b', [slot(2)]: 'node-b' }, 3],
  ])(
    'A20 R7 are claimed again also where they %s, so that nobody else is given one, and that is said',
    async (_, more, others, held) => {
      await looked()
      listed = holdsAny('7')
      given.forget({ slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) })
      put(others, more)
      await clock.advance(60_000)
      expect(usage()).toEqual({ ...others, [slot(1)]: 'C:7:node-a' })
      const said = events.filter((one) => one.includes('BeyondCapacity'))
      expect(said).toEqual(held > (more.capacity ?? 0) ? [expect.stringContaining(`${held} slots are held`)] : [])
    },
  )

  it('R7 are claimed again at growing intervals where somebody frees them again and again', async () => {
    await looked()
    listed = holds(slot(0))
    given.forget({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    put({ ...free, [slot(0)]: 'node-a' })
    await clock.advance(0)
    instances.onChange(() => {
      if (usage()[slot(0)] !== '') queueMicrotask(() => put(free))
    }, stop.signal)
    put(free)
    await clock.advance(600_000)
    // At once, and then after 1 s, 2 s, 4 s … 30 s, or down to half of that.
    expect(written.length).toBeGreaterThan(10)
    expect(written.length).toBeLessThan(50)
  })

  it('R84 are theirs again where the Instance gave them to this node in another way', async () => {
    await looked()
    put({ ...held, [slot(1)]: 'node-a' })
    await clock.advance(10_000)
    expect(usage()).toEqual(held)
    expect(events).toEqual([])
  })

  it("R90 are nobody's when their Pod has ended or gone, although the kubelet still lists it", async () => {
    await looked()
    ended.add(pod)
    put(free)
    await clock.advance(10_000)
    expect(usage()).toEqual(free)
    ended.clear()
    users?.clear()
    put(free)
    await clock.advance(10_000)
    expect(usage()).toEqual(free)
    expect(written).toEqual([])
  })

  it('R90 are free when their Pod ends after they were claimed again', async () => {
    await looked()
    put(free)
    await clock.advance(600)
    expect(usage()).toEqual(held)
    listed = new Map()
    users?.clear()
    podGone()
    await clock.advance(0)
    expect(usage()).toEqual(free)
    // And nobody thinks of them any more.
    expect(given.list()).toEqual([])
  })

  it('R90 are forgotten when their Pod ends while there is no Instance', async () => {
    await looked()
    instances.remove(key)
    await clock.advance(10_000)
    expect(given.list()).toHaveLength(2)
    listed = new Map()
    users?.clear()
    podGone()
    await clock.advance(0)
    expect(given.list()).toEqual([])
  })

  it('wait until it is known which Pods there are', async () => {
    synced = false
    put(held)
    run()
    await clock.advance(0)
    put(free)
    await clock.advance(0)
    expect(usage()).toEqual(free)
    synced = true
    await clock.advance(250)
    expect(usage()).toEqual(held)
  })

  it('A2 are also those that a kubelet does not list which has just restarted, as long as their Pods are there', async () => {
    await looked()
    listed = new Map()
    instances.remove(key)
    await clock.advance(10_000)
    expect(Object.keys(given.claimsIn('cam-8120fe' as InstanceName))).toEqual([slot(0), slot(1)])
    put(free)
    await clock.advance(0)
    expect(usage()).toEqual(held)
  })

  it.each(['cluster', 'kubelet'])('are tried again soon when the %s could not be asked', async (which) => {
    await looked()
    const before = listed
    if (which === 'cluster') failing = true
    else listed = undefined
    put(free)
    await clock.advance(500)
    expect(usage()).toEqual(free)
    failing = false
    listed = before
    await clock.advance(1000)
    expect(usage()).toEqual(held)
  })
})
