import type { Configuration, Instance, InstanceName, SlotName } from '@akrijs/api'
import { type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { aborted, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { KubeletUnavailableError } from '../errors.js'
import type { PodAllocation } from '../kubelet/kubelet.js'
import { noopObserver } from '../report/observer.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import {
  CAMERA,
  instanceWith,
  NODE,
  podsWith,
  resourcesOf,
  servedWith,
  slot,
} from '../testing/objects.js'
import { SlotBook } from './slot-book.js'
import { SlotClaims } from './slot-claims.js'
import { SlotReconciler } from './slot-reconciler.js'

const pod = objectKey('default', 'pod')
const holds = (...ids: string[]) => new Map([['akri.sh/cam-8120fe', [{ pod, ids: new Set(ids) }]]])
const holdsAny = (...ids: string[]) => new Map([['akri.sh/cam', [{ pod, ids: new Set(ids) }]]])

/** A cluster whose writes to slots can fail. */
class TestCluster extends MemoryCluster {
  /** Whether the API server refuses. */
  failing = false
  /** The claims that were restored. */
  readonly restored: string[] = []

  override async restoreSlot(key: ObjectKey, which: SlotName, usage: string) {
    if (this.failing) throw new TypeError('the API server is away')
    const result = await super.restoreSlot(key, which, usage)
    if (result.outcome === 'claimed') this.restored.push(`${which} ${usage}`)
    return result
  }
}

/**
 * The slot reconciler of `node-a`, with a cluster and a kubelet that a test controls: the Instance
 * `cam-8120fe`, and a Pod that may use its slots by both resources.
 */
class TestNode {
  readonly clock = new ManualClock(1_000_000)
  readonly cluster = new TestCluster()
  readonly stop = new AbortController()
  /** The list of the kubelet; undefined while the kubelet refuses. */
  listed: Map<string, PodAllocation[]> | undefined = new Map()
  /** The Pods that request a resource, and for how many ids; undefined if Pods are not watched. */
  users: Map<ObjectKey, number> | undefined
  readonly ended = new Set<ObjectKey>()
  /** The messages of the log at level info. */
  readonly messages: string[] = []
  /** How often the kubelet was asked. */
  asked = 0
  /** The reports of a broker are read before its slot is released. */
  beforeRelease: (slot: SlotName) => Promise<unknown> = async () => {}
  /** Whether the kubelet does not answer. */
  hanging = false
  /** Called back after a Pod has ended or was deleted. */
  podGone = () => {}
  #ran: Promise<void> | undefined
  readonly pods = {
    ...podsWith({
      lagMs: 100,
      users: (resource) => new Map(resource.startsWith('akri.sh/cam') ? this.users : []),
      hasEnded: (each) => this.ended.has(each),
      uidOf: (each) => `uid-of-${each}`,
      startedAt: (each) => `start-of-${each}`,
      onChange: (listener) => {
        this.podGone = () => listener('gone')
      },
    }),
    /** Whether all Pods have been seen. */
    synced: true,
  }
  readonly #common = {
    ...{ cluster: this.cluster, node: NODE, clock: this.clock, observer: noopObserver },
    kubelet: this.#kubelet(),
  }
  readonly book = new SlotBook({ ...this.#common, kubelet: { pods: this.pods } })
  readonly ledger = this.book.allocations
  readonly claims = new SlotClaims({ ...this.#common, book: this.book })
  readonly reconciler = new SlotReconciler({
    ...{ ...this.#common, claims: this.claims, book: this.book },
    log: { ...silentLogger, info: (_fields, message) => this.messages.push(message) },
    brokerInfo: {
      flush: async (_key, which) => {
        await this.beforeRelease(which)
      },
    },
  })

  run(): void {
    this.#ran = this.reconciler.run(this.stop.signal)
  }

  async end(): Promise<void> {
    this.stop.abort()
    this.book.close()
    await this.#ran
  }

  reconcile(): Promise<unknown> {
    return this.reconciler.reconcile(this.stop.signal)
  }

  /** Writes the Instance. */
  put(deviceUsage: Record<string, string>, more: Partial<Instance['spec']> = {}): void {
    this.cluster.instances.put(instanceWith(deviceUsage, { capacity: 3, ...more }))
  }

  usage(): Readonly<Record<string, string>> {
    return this.cluster.instances.get(CAMERA)?.spec.deviceUsage ?? {}
  }

  /** Claims a slot, as a plugin does for a container. */
  claim(which: SlotName): Promise<unknown> {
    this.book.serve(servedWith())
    return this.claims.allocate(resourcesOf(servedWith()).one, [[which]])
  }

  events(): string[] {
    return this.cluster.events.map(
      ({ regarding: { kind, key, uid }, reason, message }) =>
        `${kind} ${key}${uid ? ` (${uid})` : ''} ${reason}: ${message}`,
    )
  }

  #kubelet() {
    const watched = () => this.users && this.pods
    return {
      listAllocated: async (signal: AbortSignal) => {
        this.asked++
        if (this.hanging) await aborted(signal)
        if (this.hanging || this.listed === undefined) throw new KubeletUnavailableError('away')
        return this.listed
      },
      get pods() {
        return watched()
      },
    }
  }
}

let node: TestNode
let clock: ManualClock

beforeEach(() => {
  node = new TestNode()
  ;({ clock } = node)
})

afterEach(async () => {
  await node.end()
  expect(clock.sleeping).toEqual([])
})

describe('slots without a container, if Pods are not watched', () => {
  beforeEach(() => node.run())

  it('R90 R92 A14 are released after the grace period and no sooner, at both levels', async () => {
    const unused = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' }
    // A slot of a container, one of another node, and an unreadable claim.
    const others = { [slot(2)]: 'C:8:node-a', [slot(3)]: 'node-b', [slot(4)]: 'C:x' }
    node.listed = undefined
    node.put({ ...unused, ...others })
    await clock.advance(600_000)
    // The kubelet answers now.
    node.listed = holdsAny('8')
    await clock.advance(10_000)
    // The machine's clock is set meanwhile.
    clock.set(86_400_000)
    await clock.advance(19_000)
    expect(node.usage()).toEqual({ ...unused, ...others })
    await clock.advance(12_000)
    expect(node.usage()).toEqual({ [slot(0)]: '', [slot(1)]: '', ...others })
  })
})

describe('slots without a container, if Pods are watched', () => {
  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.run()
  })

  it('R90 are reported with their Pod until it is deleted, and are released at once', async () => {
    node.put({ [slot(1)]: 'node-b', [slot(2)]: '' })
    await node.claim(slot(0))
    node.listed = holds(slot(0))
    await clock.advance(10_000)
    const used = new Map([[CAMERA, [{ slot: slot(0), pod, since: `start-of-${pod}` }]]])
    expect(node.cluster.slotsInUse).toEqual(used)
    node.listed = new Map()
    node.users?.clear()
    node.podGone()
    await clock.advance(0)
    expect([node.usage()[slot(0)], node.cluster.slotsInUse]).toEqual(['', new Map()])
  })

  it('are looked for four times in a second at most while Pods go all the time', async () => {
    await clock.advance(0)
    node.asked = 0
    for (let count = 0; count < 1000; count++) {
      node.podGone()
      await clock.advance(20)
    }
    expect(node.asked).toBeGreaterThan(50)
    expect(node.asked).toBeLessThanOrEqual(50 + 4 * 20)
    await clock.advance(60_000)
    node.asked = 0
    node.podGone()
    await clock.advance(0)
    expect(node.asked).toBe(1)
  })

  it('R90 are looked for every ten seconds, and each minute on a node without a slot', async () => {
    await clock.advance(0)
    node.asked = 0
    await clock.advance(180_000)
    expect(node.asked).toBe(3)
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(9999)
    expect(node.asked).toBe(3)
    await clock.advance(30_001)
    expect(node.asked).toBe(7)
  })

  it('R90 are logged to be looked for once a minute, and soon after a Pod has ended', async () => {
    const start = 'reclaiming unused slots - start'
    const logged = async (ms: number) => {
      await clock.advance(ms)
      return node.messages.splice(0).filter((message) => message === start).length
    }
    node.put({ [slot(0)]: 'node-a' })
    node.listed = holds(slot(0))
    expect([await logged(300_000), await logged(30_000)]).toEqual([6, 0])
    for (let pods = 0; pods < 5; pods++) {
      node.podGone()
      await clock.advance(1)
    }
    expect([await logged(0), await logged(10_000), await logged(55_000)]).toEqual([1, 1, 0])
  })

  it('R84 R92 are kept if a container gets them before their release is written', async () => {
    node.users?.clear()
    node.beforeRelease = (which) => node.claim(which)
    node.put({ [slot(0)]: 'node-a' })
    await clock.advance(1000)
    await node.reconcile()
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a' })
  })
})

describe('a device that is gone', () => {
  const { name: instance, configuration } = servedWith()
  const lost = { id: 'foo0', instance, configuration }
  const allocated = { slot: slot(0), resourceName: 'akri.sh/cam', id: '7' }

  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.run()
  })

  it('is reported once to each Pod that has it, as soon as the kubelet lists the Pod', async () => {
    const young = { slot: slot(1), resourceName: 'akri.sh/cam', id: '8' }
    const other = objectKey('default', 'other')
    node.users?.set(other, 1)
    node.ledger.record(allocated)
    node.ledger.record(young)
    node.listed = undefined
    node.book.lose(lost)
    await clock.advance(0)
    expect(node.events()).toEqual([])
    node.listed = holdsAny('7')
    await clock.advance(15_000)
    const event = (of: string) =>
      `Pod ${of} (uid-of-${of}) DeviceLost: node-a no longer finds device "foo0" of Instance ` +
      'cam-8120fe, which the Pod has by akri.sh/cam'
    expect(node.events()).toEqual([event(pod)])
    node.ledger.record(young, new Set([other]))
    await clock.advance(60_000)
    expect(node.events()).toEqual([event(pod), event(other)])
  })

  it.each<[string, () => unknown]>([
    ['is known only after the device is back', () => node.book.serve(servedWith())],
    ['has ended', () => node.ended.add(pod)],
  ])('is reported to no Pod that %s', async (_, happen) => {
    node.ledger.record(allocated)
    node.listed = undefined
    node.book.lose(lost)
    await clock.advance(10_000)
    happen()
    node.listed = holdsAny('7')
    await clock.advance(20_000)
    expect(node.events()).toEqual([])
  })
})

describe('lost claims of running containers', () => {
  const held = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a', [slot(2)]: '' }
  const free = { [slot(0)]: '', [slot(1)]: '', [slot(2)]: '' }
  const restored = [`${slot(0)} node-a`, `${slot(1)} C:7:node-a`]
  const all = new Map([...holds(slot(0)), ...holdsAny('7')])

  beforeEach(() => {
    node.users = new Map([[pod, 1]])
    node.listed = all
  })

  /** The first reconcile, with all claims recorded. */
  async function started(): Promise<void> {
    node.put(held)
    node.run()
    await clock.advance(0)
    expect(node.asked).toBe(1)
  }

  it('R7 R84 are restored at once, at both levels, when freed by another program', async () => {
    await started()
    node.put(free)
    await clock.advance(0)
    expect(node.usage()).toEqual(held)
    expect(node.cluster.restored.splice(0)).toEqual(restored)
    node.cluster.instances.remove(CAMERA)
    node.put({})
    await clock.advance(0)
    expect(node.usage()).toEqual({ [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' })
    expect(node.cluster.restored.toSorted()).toEqual(restored)
  })

  it('R7 R84 are restored at once after the restores of many slots of an Instance', async () => {
    const slots = Array.from({ length: 12 }, (_, index) => slot(index))
    node.users = new Map([[pod, slots.length]])
    node.listed = holds(...slots)
    const all = Object.fromEntries(slots.map((each) => [each, 'node-a']))
    node.put(all)
    node.run()
    await clock.advance(0)
    for (let edit = 0; edit < 3; edit++) {
      node.put({})
      await clock.advance(1000)
      expect(node.usage()).toEqual(all)
    }
  })

  it('R84 are known before slots are offered; the kubelet has a second to answer', async () => {
    node.put(free)
    node.ledger.record({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    const begin = () => node.reconciler.begin(node.stop.signal)
    node.hanging = true
    const beginning = begin()
    await clock.advance(999)
    expect(clock.sleeping).toContain(1)
    await clock.advance(1)
    await beginning
    node.hanging = false
    await begin()
    const claims = { [slot(0)]: 'node-a', [slot(1)]: 'C:7:node-a' }
    expect(node.ledger.claimsIn('cam-8120fe' as InstanceName)).toEqual(claims)
    expect(node.usage()).toEqual(free)
  })

  it('are not guessed if no record tells the slot of an id: an Event reports it', async () => {
    node.cluster.configurations.put({
      metadata: { name: 'cam', namespace: 'default' },
    } as Configuration)
    node.listed = holdsAny('7')
    node.put(free)
    node.run()
    await clock.advance(60_000)
    expect(node.cluster.restored).toEqual([])
    expect(node.events()).toEqual([
      expect.stringMatching(/^Configuration default\/cam UnknownSlot: .*has 7 of akri.sh\/cam/),
    ])
  })

  it('R7 are not restored if another node has claimed the slot: an Event reports it', async () => {
    await started()
    node.put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(60_000)
    expect(node.cluster.restored).toEqual([])
    expect(node.events()).toEqual([
      expect.stringMatching(
        /^Instance default\/cam-8120fe SlotUsedTwice: .*cam-8120fe-0.* node-b /,
      ),
    ])
    // The next conflict is reported again.
    node.put(held)
    await clock.advance(10_000)
    node.put({ ...held, [slot(0)]: 'node-b' })
    await clock.advance(10_000)
    expect(node.events()).toHaveLength(2)
  })

  it.each<[string, Partial<Instance['spec']>, Record<string, string>, number]>([
    ['they are beyond the capacity', { capacity: 1 }, {}, 1],
    ['the Instance is full', { capacity: 2 }, { [slot(0)]: 'node-b', [slot(2)]: 'node-b' }, 3],
  ])(
    'A20 R7 are restored also if %s, and an Event reports a claim too many',
    async (_, more, others, held) => {
      await started()
      node.listed = holdsAny('7')
      node.ledger.remove({ slot: slot(0), resourceName: 'akri.sh/cam-8120fe', id: slot(0) })
      node.put(others, more)
      await clock.advance(60_000)
      expect(node.usage()).toEqual({ ...others, [slot(1)]: 'C:7:node-a' })
      const reported = node.events().filter((each) => each.includes('BeyondCapacity'))
      expect(reported).toEqual(
        held > (more.capacity ?? 0) ? [expect.stringContaining(`${held} slots are held`)] : [],
      )
    },
  )

  it('R7 are restored ten times at once, then at intervals, if they are freed again', async () => {
    await started()
    node.listed = holds(slot(0))
    node.ledger.remove({ slot: slot(1), resourceName: 'akri.sh/cam', id: '7' })
    node.put({ ...free, [slot(0)]: 'node-a' })
    await clock.advance(0)
    node.cluster.instances.onChange(() => {
      if (node.usage()[slot(0)] !== '') queueMicrotask(() => node.put(free))
    }, node.stop.signal)
    node.put(free)
    await clock.advance(600_000)
    expect(node.cluster.restored.length).toBeGreaterThan(10)
    expect(node.cluster.restored.length).toBeLessThan(10 + 10 + 60 + 2)
  })

  it.each(['cluster', 'kubelet', 'watch of Pods'])(
    'are retried soon after a failure of the %s',
    async (which) => {
      await started()
      if (which === 'cluster') node.cluster.failing = true
      else if (which === 'kubelet') node.listed = undefined
      else node.pods.synced = false
      node.put(free)
      await clock.advance(500)
      expect(node.usage()).toEqual(free)
      node.cluster.failing = false
      node.listed = all
      node.pods.synced = true
      await clock.advance(1000)
      expect(node.usage()).toEqual(held)
    },
  )
})
