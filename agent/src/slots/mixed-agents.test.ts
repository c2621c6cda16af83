import {
  type Compatibility,
  type ConfigurationName,
  type Instance,
  type InstanceName,
  parseInstanceObject,
  type SlotName,
} from '@akrijs/api'
import { type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { applyFields, applyJsonPatch, updateFields } from '@akrijs/kube/testing'
import { AkriError, isRecord } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { SlotClaim } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import {
  claimStep,
  type InstanceStep,
  joinStep,
  leaveStep,
  newInstance,
  releaseStep,
  updateStep,
} from '../instances/instance-steps.js'
import { noopObserver } from '../report/observer.js'
import { ExistingAgentModel } from '../testing/existing-agent.js'
import { configurationWith, draftOf, servedWith } from '../testing/objects.js'
import { configurationResource } from './configuration-resource.js'
import { instanceResource } from './instance-resource.js'
import type { Resource } from './resource.js'
import { SlotBook } from './slot-book.js'
import { SlotClaims } from './slot-claims.js'

// Agents of this system and models of agents of the existing system, on objects with the owners of
// fields that an API server keeps.

const CONFIGURATION = 'cam' as ConfigurationName
const DIGESTS = ['8120fe', 'a19705'] as const
const NODES = ['node-a', 'node-b', 'node-c'] as NodeName[]

interface Container {
  readonly node: NodeName
  readonly slot: SlotName
  readonly usage: string
}

class World {
  readonly compatibility: Compatibility
  readonly clock = new ManualClock()
  readonly containers: Container[] = []
  /** Nodes whose agents are of the existing system. */
  readonly existing = new Map(
    NODES.slice(1).map((node) => [node, new ExistingAgentModel(node)] as const),
  )
  /** What the agents of this system have seen: the watch can be behind. */
  readonly #caches = new Map(NODES.map((node) => [node, new ObjectStore<Instance>()] as const))
  readonly #books: ReadonlyMap<NodeName, SlotBook>
  readonly #objects = new Map<ObjectKey, Readonly<Record<string, unknown>>>()
  #version = 0

  constructor(compatibility: Compatibility) {
    this.compatibility = compatibility
    const owner = configurationWith({}, { name: CONFIGURATION })
    for (const digest of DIGESTS) {
      const draft = draftOf(owner, 2, NODES, digest)
      const object = newInstance(draft, compatibility)
      const rest = { uid: digest, generation: 1, creationTimestamp: '' }
      this.#put(keyOf(digest), {}, { ...object, metadata: { ...object.metadata, ...rest } })
    }
    this.#books = new Map(
      NODES.map((node) => {
        const cluster = { instances: this.#cacheOf(node) }
        const kubelet = { pods: undefined }
        const { clock } = this
        return [node, new SlotBook({ cluster, node, kubelet, clock, slotHandoverMs: 0 })]
      }),
    )
    for (const node of NODES) this.watch(node)
    for (const agent of this.existing.values()) agent.see(this.instances())
  }

  instances(): Instance[] {
    return [...this.#objects.values()].map(
      (object) => parseInstanceObject(object) ?? expect.fail('no Instance'),
    )
  }

  /** The agent of a node sees the present Instances. */
  watch(node: NodeName): void {
    const agent = this.existing.get(node)
    if (agent !== undefined) {
      agent.see(this.instances())
      return
    }
    for (const each of this.instances()) this.#cacheOf(node).put(each)
  }

  /** A Pod of a node asks for a device of one Instance, or for any. */
  async run(node: NodeName, digest: string | undefined): Promise<void> {
    const agent = this.existing.get(node)
    if (agent !== undefined) return this.#runBeside(agent, digest)
    const { resource, claims } = this.#resource(node, digest)
    const used = new Set(
      this.#bookOf(node)
        .allocations.list()
        .map(({ id }) => id),
    )
    const [id] = resource
      .advertise()
      .flatMap((each) => (each.healthy && !used.has(each.id) ? each.id : []))
    if (id === undefined) return
    try {
      const [granted] = await claims.allocate(resource, [[id]])
      const [annotation = ''] = Object.keys(granted?.annotations ?? {})
      const slot = annotation.replace('akri.agent.slot-', '') as SlotName
      const usage = digest === undefined ? `C:${id}:${node}` : node
      this.containers.push({ node, slot, usage })
    } catch (error) {
      if (!AkriError.is(error)) throw error
    }
  }

  /** A container ends, and the agent of its node releases the slot. */
  end(at: number): void {
    const [ended] = this.containers.splice(at, 1)
    if (ended === undefined) return
    const { node, slot, usage } = ended
    const instance = this.#ofSlot(slot)
    const agent = this.existing.get(node)
    if (agent !== undefined) {
      expect(this.#apply(node, instance, agent.ownWithout(instance, slot))).toBe(true)
      this.watch(node)
      return
    }
    const { allocations } = this.#bookOf(node)
    for (const allocation of allocations.ofSlot(slot)) allocations.remove(allocation)
    const released = this.#change(node, instance, (now) =>
      releaseStep(now, slot, usage, this.compatibility),
    )
    expect(released).toBe('released')
  }

  /** An agent of this system takes the place of an agent of the existing system. */
  replace(node: NodeName): void {
    if (!this.existing.delete(node)) return
    this.watch(node)
    for (const { slot, usage } of this.containers.filter((each) => each.node === node)) {
      const id = usage.startsWith('C:') ? (usage.split(':')[1] ?? '') : slot
      const resource = usage.startsWith('C:') ? CONFIGURATION : slot.replace(/-\d+$/, '')
      const resourceName = `akri.sh/${resource}`
      this.#bookOf(node).allocations.record({ slot, id, resourceName })
    }
  }

  /** A node of this system leaves an Instance, or joins it again. */
  move(node: NodeName, digest: string): void {
    if (this.existing.has(node)) return
    const instance = this.instances().find((each) => digestOf(each) === digest)
    const isUsed = this.containers.some((each) => each.node === node)
    if (instance === undefined || isUsed) return
    this.#change(
      node,
      instance,
      (now): InstanceStep<unknown> =>
        now?.spec.nodes.includes(node)
          ? leaveStep(now, node, this.compatibility)
          : joinStep(now, node, {}, this.compatibility),
    )
  }

  /** The first node writes another capacity, which all others see at once. */
  resize(capacity: number): void {
    for (const instance of this.instances())
      this.#change(NODES[0] as NodeName, instance, (now) =>
        updateStep(now, { capacity }, this.compatibility),
      )
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
    expect(this.#apply(node, now, deviceUsage)).toBe(isFree)
    if (isFree) this.containers.push({ node, slot, usage: deviceUsage[slot] ?? '' })
    this.watch(node)
  }

  #resource(
    node: NodeName,
    digest: string | undefined,
  ): { resource: Resource; claims: SlotClaims } {
    const { clock, compatibility } = this
    const book = this.#bookOf(node)
    for (const { metadata, spec } of this.#cacheOf(node).list())
      book.serve(servedWith({ capacity: spec.capacity }, metadata.name.slice('cam-'.length)))
    const cluster = {
      claimSlot: async (key: ObjectKey, slot: SlotName, usage: string): Promise<SlotClaim> => {
        const result = this.#change(node, this.#ofSlot(slot), (now) =>
          claimStep(now, slot, usage, { inUse: false, compatibility }),
        )
        expect(this.#cacheOf(node).get(key)).toBeDefined()
        return result
      },
      releaseSlot: async (_key: ObjectKey, slot: SlotName, usage: string) =>
        this.#change(node, this.#ofSlot(slot), (now) =>
          releaseStep(now, slot, usage, compatibility),
        ),
    }
    const claims = new SlotClaims({
      cluster,
      clock,
      observer: noopObserver,
      book,
    })
    const resource =
      digest === undefined
        ? configurationResource(CONFIGURATION, book, compatibility)
        : instanceResource(servedWith({}, digest).name, book)
    return { resource, claims }
  }

  #bookOf(node: NodeName): SlotBook {
    return this.#books.get(node) ?? expect.fail(node)
  }

  #cacheOf(node: NodeName): ObjectStore<Instance> {
    return this.#caches.get(node) ?? expect.fail(node)
  }

  /** As the agent does: first with the Instance that it has seen, then with that of the server. */
  #change<T>(
    node: NodeName,
    instance: Instance,
    decide: (instance: Instance | undefined) => InstanceStep<T>,
  ): T {
    const key = keyOf(digestOf(instance))
    let seen = this.#cacheOf(node).get(key)
    for (let attempt = 0; attempt < 3; attempt++) {
      const step = decide(seen)
      if ('patch' in step) {
        const before = this.#objects.get(key) ?? expect.fail(key)
        const result = applyJsonPatch(before, step.patch)
        if ('value' in result && isRecord(result.value)) {
          this.#put(key, before, result.value)
          this.watch(node)
          return step.result
        }
      } else if ('remove' in step) expect.fail('the last node left')
      else if (attempt > 0) return step.done
      this.watch(node)
      seen = this.#cacheOf(node).get(key)
    }
    return expect.fail('each attempt was refused')
  }

  /** @returns whether no other manager owns another value */
  #apply(node: NodeName, instance: Instance, deviceUsage: Readonly<Record<string, string>>) {
    const key = keyOf(digestOf(instance))
    const before = this.#objects.get(key)
    const result = applyFields(before, { spec: { deviceUsage } }, `dp-${node}`, false)
    if ('object' in result) this.#store(key, result.object)
    return 'object' in result
  }

  #put(key: ObjectKey, before: object, after: Readonly<Record<string, unknown>>): void {
    this.#store(key, updateFields({ ...before }, after, 'akri-agent'))
  }

  #store(key: ObjectKey, object: Readonly<Record<string, unknown>>): void {
    const metadata = isRecord(object.metadata) ? object.metadata : {}
    const resourceVersion = String(++this.#version)
    this.#objects.set(key, { ...object, metadata: { ...metadata, resourceVersion } })
  }

  #ofSlot(slot: SlotName): Instance {
    return (
      this.instances().find(({ metadata }) => slot.startsWith(`${metadata.name}-`)) ??
      expect.fail(slot)
    )
  }
}

function keyOf(digest: string): ObjectKey {
  return objectKey('default', `${CONFIGURATION}-${digest}` as InstanceName)
}

function digestOf({ metadata }: Instance): string {
  return metadata.name.slice(CONFIGURATION.length + 1)
}

const pick = <T>(all: readonly T[], at: number): T => all[at % all.length] ?? expect.fail('none')

/** The events of a history. Two numbers choose the node and the device or container. */
const EVENTS: Readonly<
  Record<string, (world: World, a: number, b: number) => void | Promise<void>>
> = {
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
        const world = new World('akri-0.13')
        for (const { what, a, b } of steps) {
          await EVENTS[what]?.(world, a, b)
          const { containers } = world
          claimed += containers.length
          const slots = new Map(containers.map(({ slot, usage }) => [slot, usage] as const))
          expect(slots.size).toBe(containers.length)
          const written = world.instances().flatMap(({ spec }) => Object.entries(spec.deviceUsage))
          // Each claim of a container stands there, and nothing else: no free slot either.
          expect(new Map<string, string>(written)).toEqual(slots)
          for (const node of NODES) new ExistingAgentModel(node).see(world.instances())
        }
      }),
      { numRuns: 100 },
    )
    // Histories are random: hundreds of claims.
    expect(claimed).toBeGreaterThan(50)
  })

  it('cannot work side by side without the option', async () => {
    const world = new World('off')
    await expect(world.run(pick(NODES, 1), '8120fe')).rejects.toThrow()
    await world.run(pick(NODES, 0), undefined)
    const reader = new ExistingAgentModel(pick(NODES, 0))
    expect(() => reader.see(world.instances())).toThrow('the id 0 has no number')
  })
})
