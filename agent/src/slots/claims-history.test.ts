import {
  type ConfigurationName,
  heldSlots,
  type Instance,
  resizedUsage,
  type SlotName,
  slotIndex,
} from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Cluster, SlotClaim } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { AllocationRefusedError } from '../errors.js'
import type { ServedInstance } from '../instances/served-instance.js'
import type { NodePods, PodAllocation } from '../kubelet/kubelet.js'
import { noopObserver } from '../report/observer.js'
import { instanceWith, servedWith } from '../testing/objects.js'
import { type AllocationLedger, usageOf } from './allocation-ledger.js'
import { configurationResource } from './configuration-resource.js'
import { instanceResource } from './instance-resource.js'
import type { Resource } from './resource.js'
import { SlotBook } from './slot-book.js'
import { SlotClaims } from './slot-claims.js'
import { SlotReconciler } from './slot-reconciler.js'

// Two nodes and two devices, with real plugins and slot reconcilers. Kubelets and the cluster are
// minimal models.

const NODES = ['node-a', 'node-b'] as NodeName[]
const DIGESTS = ['8120fe', 'a19705']
const CONFIGURATION = 'cam' as ConfigurationName

interface Container {
  readonly pod: ObjectKey
  readonly resourceName: string
  readonly id: string
  /** From the annotation of the container. */
  readonly slot: SlotName
}

class World {
  readonly clock = new ManualClock(1_000_000)
  readonly instances = new ObjectStore<Instance>()
  capacity = 2
  #made = 0

  readonly cluster: Pick<
    Cluster,
    | 'configurations'
    | 'instances'
    | 'claimSlot'
    | 'restoreSlot'
    | 'releaseSlot'
    | 'recordEvent'
    | 'reportSlots'
  > = {
    instances: this.instances,
    configurations: new ObjectStore(),
    claimSlot: (key, slot, usage) => this.#claim(key, slot, usage, false),
    restoreSlot: (key, slot, usage) => this.#claim(key, slot, usage, true),
    releaseSlot: async (key, slot, usage) => {
      const instance = this.instances.get(key)
      if (instance?.spec.deviceUsage[slot] !== usage) return 'changed'
      this.write(instance, { [slot]: '' })
      return 'released'
    },
    recordEvent: () => {},
    reportSlots: () => {},
  }

  readonly nodes = NODES.map((name) => new Node(name, this))

  served(digest: string): ServedInstance {
    return servedWith({ capacity: this.capacity }, digest)
  }

  make(digest: string, { name: node, ledger }: Node): void {
    const { key, name, capacity } = this.served(digest)
    if (this.instances.get(key) !== undefined) return
    const deviceUsage = resizedUsage(name, capacity, ledger.claimsIn(name))
    this.instances.put(
      instanceWith(deviceUsage, { capacity, nodes: [node] }, { name, uid: `u${this.#made++}` }),
    )
  }

  join(digest: string, { name: node }: Node): void {
    const instance = this.instances.get(this.served(digest).key)
    if (instance === undefined || instance.spec.nodes.includes(node)) return
    this.instances.put({
      ...instance,
      spec: { ...instance.spec, nodes: [...instance.spec.nodes, node] },
    })
  }

  write(
    instance: Instance,
    changed: Record<string, string>,
    capacity = instance.spec.capacity,
  ): void {
    const deviceUsage = resizedUsage(instance.metadata.name, capacity, {
      ...instance.spec.deviceUsage,
      ...changed,
    })
    this.instances.put({ ...instance, spec: { ...instance.spec, capacity, deviceUsage } })
  }

  usage(slot: SlotName): string {
    return (
      this.instances.list().find(({ metadata }) => slotIndex(metadata.name, slot) !== undefined)
        ?.spec.deviceUsage[slot] ?? ''
    )
  }

  async #claim(key: ObjectKey, slot: SlotName, usage: string, inUse: boolean): Promise<SlotClaim> {
    const instance = this.instances.get(key)
    const index = instance && slotIndex(instance.metadata.name, slot)
    if (instance === undefined || index === undefined) return { outcome: 'gone' }
    const { deviceUsage, capacity } = instance.spec
    const by = deviceUsage[slot] ?? ''
    if (by !== '') return { outcome: 'taken', by }
    if (!inUse && index >= capacity) return { outcome: 'gone' }
    if (!inUse && heldSlots(deviceUsage) >= capacity) return { outcome: 'gone' }
    this.write(instance, { [slot]: usage })
    return { outcome: 'claimed' }
  }
}

class Node {
  readonly name: NodeName
  readonly world: World
  readonly containers = new Map<ObjectKey, Container>()
  /** The list of the kubelet is behind its allocations and behind the end of Pods. */
  listed: readonly Container[] = []
  book: SlotBook
  claims: SlotClaims
  reconciler: SlotReconciler
  #pods = 0

  constructor(name: NodeName, world: World) {
    this.name = name
    this.world = world
    ;({ book: this.book, claims: this.claims, reconciler: this.reconciler } = this.#start())
  }

  get ledger(): AllocationLedger {
    return this.book.allocations
  }

  /** Kills the agent, and starts another agent from the checkpoint. */
  restart(): void {
    const remembered = this.ledger.list()
    this.book.close()
    ;({ book: this.book, claims: this.claims, reconciler: this.reconciler } = this.#start())
    for (const each of remembered) this.ledger.record(each)
  }

  async reconcile(): Promise<void> {
    await this.world.clock.advance(10)
    await this.reconciler.reconcile(new AbortController().signal)
  }

  /** Admits a Pod that requests a device of the resource, as a kubelet does. */
  async run(digest: string | undefined): Promise<void> {
    const resource = this.#resource(digest)
    const { name: resourceName } = resource
    const taken = new Set(
      [...this.containers.values()]
        .filter((each) => each.resourceName === resourceName)
        .map(({ id }) => id),
    )
    const [id] = resource
      .advertise()
      .flatMap((each) => (each.healthy && !taken.has(each.id) ? each.id : []))
    if (id === undefined) return
    const isKnown = this.ledger.slotOf(resourceName, id) !== undefined
    const [response] = await this.claims.allocate(resource, [[id]]).catch((error: unknown) => {
      // Its Pod has ended, which this node does not know yet, and its device cannot be used. What
      // else is offered is never refused: the cluster is as this node sees it.
      if (!isKnown || !AllocationRefusedError.is(error)) throw error
      return []
    })
    if (response === undefined) return
    const [annotation = ''] = Object.keys(response?.annotations ?? {})
    const pod = objectKey('default', `${this.name}-${this.#pods++}`)
    const slot = annotation.replace('akri.agent.slot-', '') as SlotName
    this.containers.set(pod, { pod, resourceName, id, slot })
  }

  #resource(digest: string | undefined): Resource {
    const { world, book } = this
    for (const each of DIGESTS) book.serve(world.served(each))
    return digest === undefined
      ? configurationResource(CONFIGURATION, book)
      : instanceResource(world.served(digest).name, book)
  }

  #start() {
    const { world, containers, name: node } = this
    const { cluster, clock } = world
    const pods: NodePods = {
      synced: true,
      lagMs: 0,
      users: (resource) =>
        new Map(
          [...containers.values()]
            .filter(({ resourceName }) => resourceName === resource)
            .map(({ pod }) => [pod, 1]),
        ),
      hasEnded: () => false,
      uidOf: () => undefined,
      startedAt: () => undefined,
      onChange: () => {},
    }
    const kubelet = {
      pods,
      listAllocated: async () => {
        const allocated = new Map<string, PodAllocation[]>()
        for (const { resourceName, pod, id } of this.listed)
          allocated.set(resourceName, [
            ...(allocated.get(resourceName) ?? []),
            { pod, ids: new Set([id]) },
          ])
        return allocated
      },
    }
    const book = new SlotBook({ cluster, node, kubelet, clock, slotHandoverMs: 0 })
    const claims = new SlotClaims({
      cluster,
      clock,
      observer: noopObserver,
      book,
    })
    return {
      book,
      claims,
      reconciler: new SlotReconciler({
        cluster,
        kubelet,
        node,
        clock,
        log: silentLogger,
        claims,
        book,
        observer: noopObserver,
      }),
    }
  }
}

const pick = <T>(all: readonly T[], at: number): T | undefined => all[at % Math.max(1, all.length)]
const nodeOf = (world: World, at: number): Node => pick(world.nodes, at) ?? expect.fail()

/** The events of a history. Two numbers choose the node and the device or container. */
const EVENTS: Readonly<
  Record<string, (world: World, a: number, b: number) => void | Promise<void>>
> = {
  'a Pod requests a device': (world, a, b) => nodeOf(world, a).run(pick(DIGESTS, b)),
  'a Pod requests any device': (world, a) => nodeOf(world, a).run(undefined),
  'a Pod ends': (world, a, b) => {
    const { containers } = nodeOf(world, a)
    const each = pick([...containers.keys()], b)
    if (each !== undefined) containers.delete(each)
  },
  'the kubelet updates its list': (world, a) => {
    const node = nodeOf(world, a)
    node.listed = [...node.containers.values()]
  },
  'an Instance is deleted': (world, _, b) =>
    world.instances.remove(world.served(pick(DIGESTS, b) ?? '').key),
  'an Instance is created': (world, a, b) => world.make(pick(DIGESTS, b) ?? '', nodeOf(world, a)),
  'a node joins': (world, a, b) => world.join(pick(DIGESTS, b) ?? '', nodeOf(world, a)),
  'another program frees a slot': (world, a, b) => {
    const instance = pick(world.instances.list(), a)
    const slot = instance && pick(Object.keys(instance.spec.deviceUsage), b)
    if (instance !== undefined && slot !== undefined) world.write(instance, { [slot]: '' })
  },
  'the capacity changes': (world, a) => {
    world.capacity = 1 + (a % 3)
    for (const instance of world.instances.list()) world.write(instance, {}, world.capacity)
  },
  'an agent is killed': (world, a) => nodeOf(world, a).restart(),
  'a slot reconciler runs': (world, a) => nodeOf(world, a).reconcile(),
}

/** A Pod gets the id of a Pod that has ended, whose slot the capacity does not have any more. */
const ID_OF_A_SLOT_BEYOND_THE_CAPACITY = [
  { what: 'a Pod requests any device', a: 1, b: 0 },
  { what: 'the capacity changes', a: 0, b: 0 },
  { what: 'a Pod ends', a: 1, b: 0 },
  { what: 'a Pod requests any device', a: 3, b: 0 },
]

async function settle(world: World): Promise<void> {
  for (const node of world.nodes) node.listed = [...node.containers.values()]
  for (const digest of DIGESTS) {
    for (const node of world.nodes) world.make(digest, node)
    for (const node of world.nodes) world.join(digest, node)
  }
  for (let round = 0; round < 4; round++) {
    // Longer than the longest back-off.
    await world.clock.advance(30_000)
    for (const node of world.nodes) await node.reconcile()
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
        for (const digest of DIGESTS)
          for (const node of world.nodes) [world.make(digest, node), world.join(digest, node)]
        for (const { what, a, b } of steps) await EVENTS[what]?.(world, a, b)
        await settle(world)

        const used = world.nodes.flatMap(({ name, containers }) =>
          [...containers.values()].map((each) => ({
            slot: each.slot,
            name,
            claim: `${each.slot} ${usageOf(each, name)}`,
          })),
        )
        const claims = new Set(used.map(({ claim }) => claim))
        // The claim of the node, or of another node that claimed the slot first.
        for (const { slot } of used) expect(claims).toContain(`${slot} ${world.usage(slot)}`)
        expect(new Set(used.map(({ slot, name }) => `${slot} ${name}`)).size).toBe(used.length)
        for (const { spec } of world.instances.list())
          for (const [slot, said] of Object.entries(spec.deviceUsage))
            if (said !== '') expect(claims).toContain(`${slot} ${said}`)
      }),
      { numRuns: 300, examples: [[ID_OF_A_SLOT_BEYOND_THE_CAPACITY]] },
    )
  })

  it('R84 belong to one container each, whatever is deleted and freed', async () => {
    const scaled = history.map((steps) => steps.map((step) => ({ ...step, a: step.a * 2 })))
    await fc.assert(
      fc.asyncProperty(scaled, async (steps) => {
        const world = new World()
        for (const digest of DIGESTS) world.make(digest, nodeOf(world, 0))
        for (const { what, a, b } of steps) {
          await EVENTS[what]?.(world, a, b)
          const slots = [...nodeOf(world, 0).containers.values()].map(({ slot }) => slot)
          expect(new Set(slots).size).toBe(slots.length)
        }
      }),
      { numRuns: 300 },
    )
  })
})
