import type { ConfigurationName, SlotName } from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AllocationRefusedError } from '../errors.js'
import type { PodAllocation } from '../kubelet/kubelet.js'
import { noopObserver } from '../report/observer.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import { configurationWith, draftOf, podsWith, servedWith } from '../testing/objects.js'
import { usageOf } from './allocation-ledger.js'
import { configurationResource } from './configuration-resource.js'
import { instanceResource } from './instance-resource.js'
import { SlotBook } from './slot-book.js'
import { SlotClaims } from './slot-claims.js'
import { SlotReconciler } from './slot-reconciler.js'

// Two nodes and two devices, with the parts of the agent that know of slots. Kubelets are minimal
// models.

const NODES = ['node-a', 'node-b'] as NodeName[]
const DIGESTS = ['8120fe', 'a19705']
const OWNER = configurationWith({}, { name: 'cam' as ConfigurationName })

interface Container {
  readonly resourceName: string
  readonly ids: readonly string[]
  /** From the annotations of the container. */
  readonly slots: readonly SlotName[]
}

class World {
  readonly clock = new ManualClock(1_000_000)
  readonly cluster = new MemoryCluster()
  readonly nodes = NODES.map((name) => new Node(name, this))
  capacity = 2

  served(digest: string) {
    return servedWith({ capacity: this.capacity }, digest)
  }

  async make(digest: string, { name: node, book }: Node): Promise<void> {
    const { name } = this.served(digest)
    const draft = draftOf(OWNER, this.capacity, [node], digest)
    const spec = { ...draft.spec, deviceUsage: book.allocations.claimsIn(name) }
    await this.cluster.createInstance({ ...draft, spec })
  }

  /** Frees the slot, as a person who edits the Instance. */
  free(at: number, slotAt: number): void {
    const { instances } = this.cluster
    const instance = pick(instances.list(), at)
    const slot = instance && pick(Object.keys(instance.spec.deviceUsage), slotAt)
    if (instance === undefined || slot === undefined) return
    const deviceUsage = { ...instance.spec.deviceUsage, [slot]: '' }
    instances.put({ ...instance, spec: { ...instance.spec, deviceUsage } })
  }

  /** The claims of all Instances, as `slot claim`. */
  claims(): Set<string> {
    const instances = this.cluster.instances.list()
    const all = instances.flatMap(({ spec }) => Object.entries(spec.deviceUsage))
    return new Set(all.flatMap(([slot, claim]) => (claim === '' ? [] : `${slot} ${claim}`)))
  }
}

class Node {
  readonly name: NodeName
  readonly world: World
  /** By their Pods. */
  readonly containers = new Map<ObjectKey, Container>()
  /** The list of the kubelet is behind its allocations and behind the end of Pods. */
  listed = new Map<ObjectKey, Container>()
  book: SlotBook
  claims: SlotClaims
  reconciler: SlotReconciler
  #pods = 0

  constructor(name: NodeName, world: World) {
    this.name = name
    this.world = world
    ;({ book: this.book, claims: this.claims, reconciler: this.reconciler } = this.#start())
  }

  /** Kills the agent, and starts another agent from the checkpoint. */
  restart(): void {
    const remembered = this.book.allocations.list()
    this.book.close()
    ;({ book: this.book, claims: this.claims, reconciler: this.reconciler } = this.#start())
    for (const each of remembered) this.book.allocations.record(each)
  }

  async reconcile(): Promise<void> {
    await this.world.clock.advance(10)
    await this.reconciler.reconcile(new AbortController().signal)
  }

  /** Admits a Pod that requests so many ids of the resource, as a kubelet does. */
  async run(digest: string | undefined, size: number): Promise<void> {
    const { world, book, containers } = this
    for (const each of DIGESTS) book.serve(world.served(each))
    const { name, configuration } = world.served(digest ?? '')
    const resource =
      digest === undefined
        ? configurationResource(configuration, book)
        : instanceResource(name, book)
    const { name: resourceName } = resource
    const ofResource = [...containers.values()].filter((each) => each.resourceName === resourceName)
    const taken = new Set(ofResource.flatMap(({ ids }) => ids))
    const available = resource
      .advertise()
      .flatMap(({ id, healthy }) => (healthy && !taken.has(id) ? id : []))
    const ids = resource.prefer({ available, mustInclude: [], size })
    if (ids.length < size) return
    const isKnown = ids.some((id) => book.allocations.slotOf(resourceName, id) !== undefined)
    const [response] = await this.claims.allocate(resource, [ids]).catch((error: unknown) => {
      // Its Pod has ended, which this node does not know yet, and its device cannot be used. What
      // else is offered is never refused: the cluster is as this node sees it.
      if (!isKnown || !AllocationRefusedError.is(error)) throw error
      return []
    })
    if (response === undefined) return
    const slots = Object.keys(response.annotations).map(
      (each) => each.replace('akri.agent.slot-', '') as SlotName,
    )
    const pod = objectKey('default', `${this.name}-${this.#pods++}`)
    containers.set(pod, { resourceName, ids, slots })
  }

  /** The slots of its containers, with their claims. */
  used() {
    return [...this.containers.values()].flatMap(({ resourceName, ids, slots }) =>
      slots.map((slot, at) => {
        const claim = usageOf({ slot, resourceName, id: ids[at] ?? '' }, this.name)
        return { slot, name: this.name, claim: `${slot} ${claim}` }
      }),
    )
  }

  #start() {
    const { world, containers, name: node } = this
    const { cluster, clock } = world
    const pods = podsWith({
      users: (resource) =>
        new Map(
          [...containers].flatMap(([pod, { resourceName, ids }]) =>
            resourceName === resource ? [[pod, ids.length] as const] : [],
          ),
        ),
    })
    const kubelet = {
      pods,
      listAllocated: async () => {
        const allocated = new Map<string, PodAllocation[]>()
        for (const [pod, { resourceName, ids }] of this.listed) {
          const before = allocated.get(resourceName) ?? []
          allocated.set(resourceName, [...before, { pod, ids: new Set(ids) }])
        }
        return allocated
      },
    }
    const common = { cluster, kubelet, node, clock, log: silentLogger, observer: noopObserver }
    const book = new SlotBook({ ...common, slotHandoverMs: 0 })
    const claims = new SlotClaims({ ...common, book })
    return { book, claims, reconciler: new SlotReconciler({ ...common, book, claims }) }
  }
}

const pick = <T>(all: readonly T[], at: number): T | undefined => all[at % Math.max(1, all.length)]
const nodeOf = (world: World, at: number): Node => pick(world.nodes, at) ?? expect.fail()
const keyAt = (world: World, at: number) => world.served(pick(DIGESTS, at) ?? '').key

/** The events of a history. Two numbers choose the node and the device or container. */
const EVENTS: Readonly<Record<string, (world: World, a: number, b: number) => unknown>> = {
  'a Pod requests slots of a device': (world, a, b) =>
    nodeOf(world, a).run(pick(DIGESTS, b), 1 + (b >> 2)),
  'a Pod requests any devices': (world, a, b) => nodeOf(world, a).run(undefined, 1 + (b % 2)),
  'a Pod ends': (world, a, b) => {
    const { containers } = nodeOf(world, a)
    const each = pick([...containers.keys()], b)
    if (each !== undefined) containers.delete(each)
  },
  'the kubelet updates its list': (world, a) => {
    const node = nodeOf(world, a)
    node.listed = new Map(node.containers)
  },
  'an Instance is deleted': (world, _, b) => world.cluster.instances.remove(keyAt(world, b)),
  'an Instance is created': (world, a, b) => world.make(pick(DIGESTS, b) ?? '', nodeOf(world, a)),
  'a node joins': (world, a, b) =>
    world.cluster.joinInstance(keyAt(world, b), nodeOf(world, a).name),
  'another program frees a slot': (world, a, b) => world.free(a, b),
  'the capacity changes': async (world, a) => {
    world.capacity = 1 + (a % 3)
    const change = { capacity: world.capacity, brokerProperties: {} }
    for (const at of DIGESTS.keys()) await world.cluster.updateInstance(keyAt(world, at), change)
  },
  'an agent is killed': (world, a) => nodeOf(world, a).restart(),
  'a slot reconciler runs': (world, a) => nodeOf(world, a).reconcile(),
}

/** A Pod gets the id of a Pod that has ended, whose slot the capacity does not have any more. */
const ID_OF_A_SLOT_BEYOND_THE_CAPACITY = [
  { what: 'a Pod requests any devices', a: 1, b: 0 },
  { what: 'the capacity changes', a: 0, b: 0 },
  { what: 'a Pod ends', a: 1, b: 0 },
  { what: 'a Pod requests any devices', a: 3, b: 0 },
]

async function start(...nodes: readonly Node[]): Promise<void> {
  for (const digest of DIGESTS)
    for (const node of nodes) {
      await node.world.make(digest, node)
      await node.world.cluster.joinInstance(node.world.served(digest).key, node.name)
    }
}

describe('the slots of containers, after any history', () => {
  const event = fc.record({
    what: fc.constantFrom(...Object.keys(EVENTS)),
    a: fc.nat({ max: 5 }),
    b: fc.nat({ max: 5 }),
  })
  const history = fc.array(event, { maxLength: 60 })

  it('R7 R84 R90 are claimed, no other slot is, and no node allocates one twice', async () => {
    await fc.assert(
      fc.asyncProperty(history, async (steps) => {
        const world = new World()
        await start(...world.nodes)
        for (const { what, a, b } of steps) await EVENTS[what]?.(world, a, b)
        for (const node of world.nodes) node.listed = new Map(node.containers)
        await start(...world.nodes)
        for (let round = 0; round < 4; round++) {
          // Longer than the longest back-off.
          await world.clock.advance(30_000)
          for (const node of world.nodes) await node.reconcile()
        }

        const used = world.nodes.flatMap((node) => node.used())
        const [expected, claims] = [new Set(used.map(({ claim }) => claim)), world.claims()]
        for (const claim of claims) expect(expected).toContain(claim)
        // The claim of the node, or of another node that claimed the slot first.
        const claimed = new Set([...claims].map((claim) => claim.split(' ')[0]))
        for (const { slot } of used) expect(claimed).toContain(slot)
        expect(new Set(used.map(({ slot, name }) => `${slot} ${name}`)).size).toBe(used.length)
      }),
      { numRuns: 300, examples: [[ID_OF_A_SLOT_BEYOND_THE_CAPACITY]] },
    )
  })

  it('R84 belong to one container each, whatever is deleted and freed', async () => {
    const ofOneNode = history.map((steps) => steps.map((step) => ({ ...step, a: step.a * 2 })))
    await fc.assert(
      fc.asyncProperty(ofOneNode, async (steps) => {
        const world = new World()
        const node = nodeOf(world, 0)
        await start(node)
        for (const { what, a, b } of steps) {
          await EVENTS[what]?.(world, a, b)
          const slots = node.used().map(({ slot }) => slot)
          expect(new Set(slots).size).toBe(slots.length)
        }
      }),
      { numRuns: 300 },
    )
  })
})
