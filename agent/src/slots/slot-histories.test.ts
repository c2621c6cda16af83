import type { Compatibility, ConfigurationName, Instance, SlotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { applyFields, updateFields } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { DeviceUsage } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { AllocationRefusedError } from '../errors.js'
import type { PodAllocation } from '../kubelet/kubelet.js'
import { noopObserver } from '../report/observer.js'
import { ExistingAgentModel } from '../testing/existing-agent.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import {
  configurationWith,
  draftOf,
  podsWith,
  resourcesOf,
  servedWith,
} from '../testing/objects.js'
import { instanceOf, type SlotAllocation, usageOf } from './allocation-ledger.js'
import { SlotBook } from './slot-book.js'
import { SlotClaims } from './slot-claims.js'
import { SlotReconciler } from './slot-reconciler.js'

// Two devices, and nodes with the parts of the agent that know of slots, or with a model of an
// agent of the existing system. Kubelets are minimal models.

const DIGESTS = ['8120fe', 'a19705']
const OWNER = configurationWith({}, { name: 'cam' as ConfigurationName })

/** The Instances of an API server, which keeps the managers of their fields. */
class ManagedInstances extends ObjectStore<Instance> {
  override put(instance: Instance): void {
    const before = { ...this.get(keyOf(instance)) }
    this.#store(updateFields(before, { ...instance }, 'akri-agent'))
  }

  /** @returns whether no other manager owns another value */
  apply(node: NodeName, instance: Instance, deviceUsage: DeviceUsage): boolean {
    const result = applyFields({ ...instance }, { spec: { deviceUsage } }, `dp-${node}`, false)
    if ('object' in result) this.#store(result.object)
    return 'object' in result
  }

  #store(object: object): void {
    super.put(object as Instance)
  }
}

class World {
  readonly compatibility: Compatibility
  readonly clock = new ManualClock(1_000_000)
  readonly instances = new ManagedInstances()
  readonly cluster: MemoryCluster
  readonly nodes: readonly Node[]
  readonly #unhealthy = new Set<string>()
  capacity = 2

  /** Beside the existing system, a node sees changes of Instances when its agent is told. */
  constructor(nodes: number, compatibility: Compatibility = 'off') {
    this.compatibility = compatibility
    this.cluster = new MemoryCluster(compatibility, this.instances)
    this.nodes = ['node-a', 'node-b', 'node-c'].slice(0, nodes).map((name) => {
      const cache = compatibility === 'off' ? this.instances : new ObjectStore<Instance>()
      return new Node(name as NodeName, this, cache)
    })
  }

  served(digest: string) {
    const healthy = !this.#unhealthy.has(digest)
    return servedWith({ capacity: this.capacity, healthy }, digest)
  }

  /** The device becomes unhealthy, or healthy again. */
  toggle(digest: string): void {
    if (!this.#unhealthy.delete(digest)) this.#unhealthy.add(digest)
  }

  async make(digest: string, { name: node, book }: Node): Promise<void> {
    const { name } = this.served(digest)
    const draft = draftOf(OWNER, this.capacity, [node], digest)
    const spec = { ...draft.spec, deviceUsage: book.allocations.claimsIn(name) }
    await this.cluster.createInstance({ ...draft, spec })
  }

  /** All Instances exist, and all nodes are in them. */
  async complete(): Promise<void> {
    for (const digest of DIGESTS)
      for (const node of this.nodes) {
        await this.make(digest, node)
        await this.cluster.joinInstance(this.served(digest).key, node.name)
      }
    for (const node of this.nodes) node.see()
  }

  /** Frees the slot, as a person who edits the Instance. */
  free(at: number, slotAt: number): void {
    const instance = pick(this.instances.list(), at)
    const slot = instance && pick(Object.keys(instance.spec.deviceUsage), slotAt)
    if (instance === undefined || slot === undefined) return
    const deviceUsage = { ...instance.spec.deviceUsage, [slot]: '' }
    this.instances.put({ ...instance, spec: { ...instance.spec, deviceUsage } })
  }

  async resize(capacity: number): Promise<void> {
    this.capacity = capacity
    for (const instance of this.instances.list())
      await this.cluster.updateInstance(keyOf(instance), { capacity, brokerProperties: {} })
    for (const node of this.nodes) node.see()
  }

  ofSlot(slot: SlotName): Instance {
    const instances = this.instances.list()
    return instances.find(({ metadata }) => metadata.name === instanceOf(slot)) ?? expect.fail(slot)
  }

  /** What the Instances record, with free slots if there are any. */
  recorded(): [slot: string, claim: string][] {
    return this.instances.list().flatMap(({ spec }) => Object.entries(spec.deviceUsage))
  }

  /** The slots of all containers, each with the claim of its node. */
  used(): { readonly node: NodeName; readonly slot: SlotName; readonly claim: string }[] {
    return this.nodes.flatMap(({ name: node, allocations }) =>
      allocations.map((each) => ({ node, slot: each.slot, claim: usageOf(each, node) })),
    )
  }
}

class Node {
  readonly name: NodeName
  readonly world: World
  /** The Instances that its agent has seen. */
  readonly cache: ObjectStore<Instance>
  /** Its agent, if that is of the existing system. */
  existing: ExistingAgentModel | undefined
  /** What containers have, by their Pods. */
  readonly containers = new Map<ObjectKey, readonly SlotAllocation[]>()
  /** The list of the kubelet is behind its allocations and behind the end of Pods. */
  listed = new Map<ObjectKey, readonly SlotAllocation[]>()
  book: SlotBook
  claims: SlotClaims
  reconciler: SlotReconciler
  #pods = 0

  constructor(name: NodeName, world: World, cache: ObjectStore<Instance>) {
    this.name = name
    this.world = world
    this.cache = cache
    ;({ book: this.book, claims: this.claims, reconciler: this.reconciler } = this.#start())
  }

  get allocations(): readonly SlotAllocation[] {
    return [...this.containers.values()].flat()
  }

  see(): void {
    const instances = this.world.instances.list()
    this.existing?.see(instances)
    if (this.cache !== this.world.instances) for (const each of instances) this.cache.put(each)
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
    const { world, book, allocations } = this
    if (this.existing !== undefined) return this.#runBeside(this.existing, digest)
    for (const each of DIGESTS) book.serve(world.served(each))
    const { one, any } = resourcesOf(world.served(digest ?? ''))
    const resource = digest === undefined ? any : one
    const { name: resourceName } = resource
    const mine = (each: { readonly resourceName: string }) => each.resourceName === resourceName
    const taken = new Set(allocations.filter(mine).map(({ id }) => id))
    const available = book
      .advertise(resource)
      .flatMap(({ id, healthy }) => (healthy && !taken.has(id) ? id : []))
    const ids = book.prefer(resource, { available, mustInclude: [], size })
    if (ids.length < size) return
    // Its Pod may have ended, which this node does not know yet, and its device cannot be used.
    const isKnown = book.allocations.list().some((each) => mine(each) && ids.includes(each.id))
    const [response] = await this.claims.allocate(resource, [ids]).catch((error: unknown) => {
      // What else is offered is never refused, if the cluster is as this node sees it.
      const mayRefuse = isKnown || this.cache !== world.instances
      if (!mayRefuse || !AllocationRefusedError.is(error)) throw error
      return []
    })
    const slots = Object.keys(response?.annotations ?? {}).map(
      (each) => each.replace('akri.agent.slot-', '') as SlotName,
    )
    if (digest === undefined) expect(new Set(slots.map(instanceOf)).size).toBe(slots.length)
    if (slots.length > 0)
      this.#admit(slots.map((slot, at) => ({ slot, resourceName, id: ids[at] ?? '' })))
  }

  /** Ends a container, whose slot the agent of the node releases. */
  async end(pod: ObjectKey): Promise<void> {
    const { world, existing, name } = this
    const allocations = this.containers.get(pod) ?? []
    this.containers.delete(pod)
    this.listed = new Map(this.containers)
    if (existing === undefined) await this.reconcile()
    else
      for (const { slot } of allocations) {
        const instance = world.ofSlot(slot)
        expect(world.instances.apply(name, instance, existing.ownWithout(instance, slot))).toBe(
          true,
        )
      }
    this.see()
  }

  /** An agent of this system takes the place of an agent of the existing system. */
  replace(): void {
    if (this.existing === undefined) return
    this.existing = undefined
    this.see()
    for (const each of this.allocations) this.book.allocations.record(each)
  }

  /** Leaves an Instance without a container, or joins it again. */
  async move(digest: string): Promise<void> {
    const { key } = this.world.served(digest)
    const nodes = this.world.instances.get(key)?.spec.nodes ?? []
    if (this.existing !== undefined || this.containers.size > 0) return
    if (!nodes.includes(this.name)) await this.world.cluster.joinInstance(key, this.name)
    else if (nodes.length > 1) await this.world.cluster.leaveInstance(key, this.name)
    this.see()
  }

  #runBeside(agent: ExistingAgentModel, digest: string | undefined): void {
    const { world } = this
    const claim = digest === undefined ? agent.claimAny() : agent.claimOf(`cam-${digest}`)
    if (claim === undefined) return
    const { slot, deviceUsage, id } = claim
    const now = world.ofSlot(slot)
    const isFree = (now.spec.deviceUsage[slot] ?? '') === ''
    // A free slot must not be refused to the other system.
    expect(world.instances.apply(this.name, now, deviceUsage)).toBe(isFree)
    const resourceName = `akri.sh/${digest === undefined ? 'cam' : instanceOf(slot)}`
    if (isFree) this.#admit([{ slot, resourceName, id }])
    this.see()
  }

  #admit(allocations: readonly SlotAllocation[]): void {
    this.containers.set(objectKey('default', `${this.name}-${this.#pods++}`), allocations)
  }

  #start() {
    const { world, containers, name: node, cache: instances } = this
    const { cluster, clock } = world
    const pods = podsWith({
      users: (resource) =>
        new Map(
          [...containers].flatMap(([pod, allocations]) =>
            allocations[0]?.resourceName === resource ? [[pod, allocations.length] as const] : [],
          ),
        ),
    })
    const listAllocated = async () => {
      const allocated = new Map<string, PodAllocation[]>()
      for (const [pod, allocations] of this.listed) {
        const { resourceName = '' } = allocations[0] ?? {}
        const ids = new Set(allocations.map(({ id }) => id))
        allocated.set(resourceName, [...(allocated.get(resourceName) ?? []), { pod, ids }])
      }
      return allocated
    }
    // After its own write, and after a lost race, an agent has the Instance of the server.
    const seeing =
      <Claim extends unknown[], T>(write: (...claim: Claim) => Promise<T>) =>
      (...claim: Claim) =>
        write(...claim).finally(() => this.see())
    const common = {
      ...{ node, clock, log: silentLogger, observer: noopObserver },
      kubelet: { pods, listAllocated },
      cluster: {
        instances,
        configurations: cluster.configurations,
        recordEvent: () => {},
        reportSlots: () => {},
        claimSlot: seeing(cluster.claimSlot.bind(cluster)),
        restoreSlot: seeing(cluster.restoreSlot.bind(cluster)),
        releaseSlot: seeing(cluster.releaseSlot.bind(cluster)),
      },
    }
    const { compatibility } = world
    const book = new SlotBook({ ...common, compatibility, slotHandoverMs: 0 })
    const claims = new SlotClaims({ ...common, book })
    return { book, claims, reconciler: new SlotReconciler({ ...common, book, claims }) }
  }
}

const pick = <T>(all: readonly T[], at: number): T | undefined => all[at % Math.max(1, all.length)]
const nodeOf = (world: World, at: number): Node => pick(world.nodes, at) ?? expect.fail()
const digestAt = (at: number) => pick(DIGESTS, at) ?? ''

/** The events of a history. Two numbers choose the node and the device or container. */
type Events = Readonly<Record<string, (world: World, a: number, b: number) => unknown>>

const REQUESTS: Events = {
  'a Pod requests slots of a device': (world, a, b) =>
    nodeOf(world, a).run(digestAt(b), 1 + (b >> 2)),
  'a Pod requests any devices': (world, a, b) => nodeOf(world, a).run(undefined, 1 + (b % 2)),
  'a device is unhealthy, or healthy again': (world, _, b) => world.toggle(digestAt(b)),
  'the capacity changes': (world, a) => world.resize(1 + (a % 3)),
}

const EVENTS: Events = {
  ...REQUESTS,
  'a Pod ends': (world, a, b) => {
    const { containers } = nodeOf(world, a)
    const each = pick([...containers.keys()], b)
    if (each !== undefined) containers.delete(each)
  },
  'the kubelet updates its list': (world, a) => {
    const node = nodeOf(world, a)
    node.listed = new Map(node.containers)
  },
  'an Instance is deleted': (world, _, b) => world.instances.remove(world.served(digestAt(b)).key),
  'an Instance is created': (world, a, b) => world.make(digestAt(b), nodeOf(world, a)),
  'a node joins': (world, a, b) =>
    world.cluster.joinInstance(world.served(digestAt(b)).key, nodeOf(world, a).name),
  'another program frees a slot': (world, a, b) => world.free(a, b),
  'an agent is killed': (world, a) => nodeOf(world, a).restart(),
  'a slot reconciler runs': (world, a) => nodeOf(world, a).reconcile(),
}

const EVENTS_OF_BOTH: Events = {
  ...REQUESTS,
  'a container ends': (world, a, b) => {
    const pod = pick([...nodeOf(world, a).containers.keys()], b)
    return pod && nodeOf(world, a).end(pod)
  },
  'an agent sees the changes': (world, a) => nodeOf(world, a).see(),
  'a node leaves or joins': (world, a, b) => nodeOf(world, a).move(digestAt(b)),
  'an agent of this system takes a node': (world, a) => nodeOf(world, a).replace(),
}

const historyOf = (events: Events, maxLength: number) => {
  const what = fc.constantFrom(...Object.keys(events))
  return fc.array(fc.record({ what, a: fc.nat({ max: 11 }), b: fc.nat({ max: 5 }) }), { maxLength })
}

/** A Pod gets the id of a Pod that has ended, whose slot the capacity does not have any more. */
const ID_OF_A_SLOT_BEYOND_THE_CAPACITY = [
  { what: 'a Pod requests any devices', a: 1, b: 0 },
  { what: 'the capacity changes', a: 0, b: 0 },
  { what: 'a Pod ends', a: 1, b: 0 },
  { what: 'a Pod requests any devices', a: 3, b: 0 },
]

describe('the slots of containers, after any history', () => {
  it('R7 R84 R90 are claimed, no other slot is, and no node allocates one twice', async () => {
    await fc.assert(
      fc.asyncProperty(historyOf(EVENTS, 60), async (steps) => {
        const world = new World(2)
        await world.complete()
        for (const { what, a, b } of steps) {
          await EVENTS[what]?.(world, a, b)
          const used = world.used().map(({ slot, node }) => `${slot} ${node}`)
          expect(new Set(used).size).toBe(used.length)
        }
        for (const node of world.nodes) node.listed = new Map(node.containers)
        await world.complete()
        for (let round = 0; round < 4; round++) {
          // Longer than the longest back-off.
          await world.clock.advance(30_000)
          for (const node of world.nodes) await node.reconcile()
        }

        const used = world.used()
        const expected = new Set(used.map(({ slot, claim }) => `${slot} ${claim}`))
        const claims = world.recorded().filter(([, claim]) => claim !== '')
        for (const [slot, claim] of claims) expect(expected).toContain(`${slot} ${claim}`)
        // The claim of the node, or of another node that claimed the slot first.
        const claimed = new Set(claims.map(([slot]) => slot))
        for (const { slot } of used) expect(claimed).toContain(slot)
        const known = world.nodes.flatMap(({ book }) => book.allocations.list())
        expect(known).toHaveLength(used.length)
      }),
      { numRuns: 300, examples: [[ID_OF_A_SLOT_BEYOND_THE_CAPACITY]] },
    )
  })
})

describe('agents of both systems in one cluster, after any history', () => {
  it('R38 claim each slot once, lose no claim, and write what both can read', async () => {
    let claimed = 0
    await fc.assert(
      fc.asyncProperty(historyOf(EVENTS_OF_BOTH, 40), async (steps) => {
        const world = new World(3, 'akri-0.13')
        await world.complete()
        // Only the first node has an agent of this system, at first.
        for (const node of world.nodes.slice(1)) node.existing = new ExistingAgentModel(node.name)
        for (const node of world.nodes) node.see()
        for (const { what, a, b } of steps) {
          await EVENTS_OF_BOTH[what]?.(world, a, b)
          const used = world.used()
          claimed += used.length
          const slots = new Map<string, string>(used.map(({ slot, claim }) => [slot, claim]))
          expect(slots.size).toBe(used.length)
          // Each claim of a container stands there, and nothing else: no free slot either.
          expect(new Map(world.recorded())).toEqual(slots)
          for (const { name } of world.nodes)
            new ExistingAgentModel(name).see(world.instances.list())
        }
      }),
      { numRuns: 100 },
    )
    // Histories are random: hundreds of claims.
    expect(claimed).toBeGreaterThan(50)
  })
})
