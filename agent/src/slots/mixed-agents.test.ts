import {
  type Compatibility,
  type ConfigurationName,
  type Instance,
  possibleOwner,
  type SlotName,
} from '@akrijs/api'
import { keyOf, type NodeName } from '@akrijs/kube/objects'
import { applyFields, updateFields } from '@akrijs/kube/testing'
import { AkriError } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { Cluster, DeviceUsage } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { noopObserver } from '../report/observer.js'
import { ExistingAgentModel } from '../testing/existing-agent.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import { configurationWith, draftOf, servedWith } from '../testing/objects.js'
import { instanceOf } from './allocation-ledger.js'
import { configurationResource } from './configuration-resource.js'
import { instanceResource } from './instance-resource.js'
import { SlotBook } from './slot-book.js'
import { SlotClaims } from './slot-claims.js'

// Agents of this system and models of agents of the existing system, on objects with the owners of
// fields that an API server keeps.

const OWNER = configurationWith({}, { name: 'cam' as ConfigurationName })
const DIGESTS = ['8120fe', 'a19705'] as const
const NODES = ['node-a', 'node-b', 'node-c'] as NodeName[]

interface Container {
  readonly node: NodeName
  readonly slot: SlotName
  readonly usage: string
}

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

/** The agent of this system on a node. */
class Agent {
  /** The Instances that it has seen: the watch can be behind. */
  readonly cache = new ObjectStore<Instance>()
  readonly book: SlotBook
  readonly claims: SlotClaims

  constructor(node: NodeName, cluster: Pick<Cluster, 'claimSlot' | 'releaseSlot'>) {
    const clock = new ManualClock()
    const kubelet = { pods: undefined }
    const instances = { instances: this.cache }
    this.book = new SlotBook({ cluster: instances, node, kubelet, clock, slotHandoverMs: 0 })
    this.claims = new SlotClaims({ cluster, clock, observer: noopObserver, book: this.book })
  }
}

class World {
  readonly compatibility: Compatibility
  readonly instances = new ManagedInstances()
  readonly cluster: MemoryCluster
  readonly containers: Container[] = []
  /** Nodes whose agents are of the existing system. */
  readonly existing = new Map(
    NODES.slice(1).map((node) => [node, new ExistingAgentModel(node)] as const),
  )
  readonly #agents: ReadonlyMap<NodeName, Agent>

  private constructor(compatibility: Compatibility) {
    this.compatibility = compatibility
    const cluster = new MemoryCluster(compatibility, this.instances)
    this.cluster = cluster
    this.#agents = new Map(
      NODES.map((node) => {
        // After its own write, and after a lost race, an agent has the Instance of the server.
        const seen = () => this.watch(node)
        const agent = new Agent(node, {
          claimSlot: (...claim) => cluster.claimSlot(...claim).finally(seen),
          releaseSlot: (...claim) => cluster.releaseSlot(...claim).finally(seen),
        })
        return [node, agent]
      }),
    )
  }

  static async start(compatibility: Compatibility): Promise<World> {
    const world = new World(compatibility)
    for (const digest of DIGESTS)
      await world.cluster.createInstance(draftOf(OWNER, 2, NODES, digest))
    for (const node of NODES) world.watch(node)
    return world
  }

  /** The agent of a node sees the present Instances. */
  watch(node: NodeName): void {
    this.existing.get(node)?.see(this.instances.list())
    for (const each of this.instances.list()) this.#agentOf(node).cache.put(each)
  }

  /** A Pod of a node asks for a device of one Instance, or for any. */
  async run(node: NodeName, digest: string | undefined): Promise<void> {
    const existing = this.existing.get(node)
    if (existing !== undefined) return this.#runBeside(existing, digest)
    const { cache, book, claims } = this.#agentOf(node)
    for (const { metadata, spec } of cache.list())
      book.serve(servedWith({ capacity: spec.capacity }, metadata.name.slice('cam-'.length)))
    const { name, configuration } = servedWith({}, digest)
    const resource =
      digest === undefined
        ? configurationResource(configuration, book, this.compatibility)
        : instanceResource(name, book)
    const used = new Set(book.allocations.list().map(({ id }) => id))
    const offered = resource.advertise().filter(({ id, healthy }) => healthy && !used.has(id))
    const id = offered[0]?.id
    if (id === undefined) return
    const [granted] = await claims.allocate(resource, [[id]]).catch((error: unknown) => {
      if (!AkriError.is(error)) throw error
      return []
    })
    for (const annotation of Object.keys(granted?.annotations ?? {})) {
      const slot = annotation.replace('akri.agent.slot-', '') as SlotName
      this.containers.push({ node, slot, usage: digest === undefined ? `C:${id}:${node}` : node })
    }
  }

  /** A container ends, and the agent of its node releases the slot. */
  async end(at: number): Promise<void> {
    const [ended] = this.containers.splice(at, 1)
    if (ended === undefined) return
    const { node, slot, usage } = ended
    const instance = this.#ofSlot(slot)
    const existing = this.existing.get(node)
    if (existing !== undefined)
      expect(this.instances.apply(node, instance, existing.ownWithout(instance, slot))).toBe(true)
    else {
      const { allocations } = this.#agentOf(node).book
      for (const allocation of allocations.ofSlot(slot)) allocations.remove(allocation)
      expect(await this.cluster.releaseSlot(keyOf(instance), slot, usage)).toBe('released')
    }
    this.watch(node)
  }

  /** An agent of this system takes the place of an agent of the existing system. */
  replace(node: NodeName): void {
    if (!this.existing.delete(node)) return
    this.watch(node)
    for (const { slot, usage } of this.containers.filter((each) => each.node === node)) {
      const [, id] = /^C:([^:]+):/.exec(usage) ?? []
      const resource = id === undefined ? instanceOf(slot) : possibleOwner(instanceOf(slot))
      const resourceName = `akri.sh/${resource}`
      this.#agentOf(node).book.allocations.record({ slot, id: id ?? slot, resourceName })
    }
  }

  /** A node of this system leaves an Instance, or joins it again. */
  async move(node: NodeName, digest: string): Promise<void> {
    const { key } = servedWith({}, digest)
    const nodes = this.instances.get(key)?.spec.nodes ?? []
    const isUsed = this.containers.some((each) => each.node === node)
    if (this.existing.has(node) || isUsed) return
    if (!nodes.includes(node)) await this.cluster.joinInstance(key, node)
    else if (nodes.length > 1) await this.cluster.leaveInstance(key, node)
    this.watch(node)
  }

  /** The first node writes another capacity, which all others see at once. */
  async resize(capacity: number): Promise<void> {
    for (const instance of this.instances.list())
      await this.cluster.updateInstance(keyOf(instance), { capacity, brokerProperties: {} })
    for (const node of NODES) this.watch(node)
  }

  #runBeside(agent: ExistingAgentModel, digest: string | undefined): void {
    const claim = digest === undefined ? agent.claimAny() : agent.claimOf(`cam-${digest}`)
    if (claim === undefined) return
    const { node } = agent
    const { slot, deviceUsage } = claim
    const now = this.#ofSlot(slot)
    const isFree = (now.spec.deviceUsage[slot] ?? '') === ''
    // A free slot must not be refused to the other system.
    expect(this.instances.apply(node, now, deviceUsage)).toBe(isFree)
    if (isFree) this.containers.push({ node, slot, usage: deviceUsage[slot] ?? '' })
    this.watch(node)
  }

  #agentOf(node: NodeName): Agent {
    return this.#agents.get(node) ?? expect.fail(node)
  }

  #ofSlot(slot: SlotName): Instance {
    const instances = this.instances.list()
    return instances.find(({ metadata }) => metadata.name === instanceOf(slot)) ?? expect.fail(slot)
  }
}

const pick = <T>(all: readonly T[], at: number): T => all[at % all.length] ?? expect.fail('none')

/** The events of a history. Two numbers choose the node and the device or container. */
const EVENTS: Readonly<Record<string, (world: World, a: number, b: number) => unknown>> = {
  'a Pod requests a device': (world, a, b) => world.run(pick(NODES, a), pick(DIGESTS, b)),
  'a Pod requests any device': (world, a) => world.run(pick(NODES, a), undefined),
  'a container ends': (world, a) => world.end(a % Math.max(1, world.containers.length)),
  'an agent sees the changes': (world, a) => world.watch(pick(NODES, a)),
  'a node leaves or joins': (world, a, b) => world.move(pick(NODES, a), pick(DIGESTS, b)),
  'the capacity changes': (world, a) => world.resize(1 + (a % 3)),
  'an agent of this system takes a node': (world, a) => world.replace(pick(NODES, a)),
}

describe('agents of both systems in one cluster, after any history', () => {
  const event = fc.record({
    what: fc.constantFrom(...Object.keys(EVENTS)),
    a: fc.nat({ max: 11 }),
    b: fc.nat({ max: 5 }),
  })

  it('R38 claim each slot once, lose no claim, and write what both can read', async () => {
    let claimed = 0
    await fc.assert(
      fc.asyncProperty(fc.array(event, { maxLength: 40 }), async (steps) => {
        const world = await World.start('akri-0.13')
        for (const { what, a, b } of steps) {
          await EVENTS[what]?.(world, a, b)
          const { containers } = world
          claimed += containers.length
          const slots = new Map(containers.map(({ slot, usage }) => [slot, usage] as const))
          expect(slots.size).toBe(containers.length)
          const written = world.instances
            .list()
            .flatMap(({ spec }) => Object.entries(spec.deviceUsage))
          // Each claim of a container stands there, and nothing else: no free slot either.
          expect(new Map<string, string>(written)).toEqual(slots)
          for (const node of NODES) new ExistingAgentModel(node).see(world.instances.list())
        }
      }),
      { numRuns: 100 },
    )
    // Histories are random: hundreds of claims.
    expect(claimed).toBeGreaterThan(50)
  })

  it('cannot work side by side without the option', async () => {
    const world = await World.start('off')
    await expect(world.run(pick(NODES, 1), '8120fe')).rejects.toThrow()
    await world.run(pick(NODES, 0), undefined)
    const reader = new ExistingAgentModel(pick(NODES, 0))
    expect(() => reader.see(world.instances.list())).toThrow('the id 0 has no number')
  })
})
