import {
  type Configuration,
  type ConfigurationManifest,
  type ConfigurationName,
  type Instance,
  type InstanceName,
  keyOf,
  type NodeName,
  objectKey,
  type SlotName,
} from '@akrijs/kube'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import type { BrokerReports, Cluster } from './cluster.js'

export interface ClusterUnderTest {
  readonly cluster: Cluster
  applyConfiguration(configuration: ConfigurationManifest): Promise<void>
  removeConfiguration(configuration: Pick<ConfigurationManifest, 'namespace' | 'name'>): Promise<void>
  /** Ends the adapter and opens it again on the same objects, where it has anything of its own to lose. */
  restart?(): Promise<Cluster>
  dispose(): Promise<void>
}

const NODE_A = 'node-a' as NodeName
const NODE_B = 'node-b' as NodeName
const NODES = [NODE_A, NODE_B, 'node-c' as NodeName]

let names = 0

/** Long enough for a server that is busy, and for what it does in the background. */
function eventually<T>(look: () => T | Promise<T>): Promise<T> {
  return vi.waitFor(look, { timeout: 20_000, interval: 20 })
}

/** What every adapter of the port does. Observation is by waiting: an API server tells of a write after its answer. */
export function clusterContract(name: string, make: () => Promise<ClusterUnderTest>): void {
  describe(`the contract of a cluster: ${name}`, () => {
    let tested: ClusterUnderTest
    let cluster: Cluster

    beforeEach(async () => {
      tested = await make()
      cluster = tested.cluster
      await Promise.all([cluster.configurations.synced, cluster.instances.synced])
    })
    afterEach(() => tested.dispose())

    async function configuration(): Promise<Configuration> {
      const wanted = manifest()
      await tested.applyConfiguration(wanted)
      return seen(wanted)
    }

    function seen({ namespace, name: own }: ConfigurationManifest): Promise<Configuration> {
      return eventually(() => found(cluster.configurations.get(objectKey(namespace, own))))
    }

    async function instance(capacity: number, nodes: readonly NodeName[] = [NODE_A], device = '8120fe'): Promise<Instance> {
      const owner = await configuration()
      const draft = draftOf(owner, capacity, nodes, device)
      expect(await cluster.createInstance(draft)).toBe('created')
      return eventually(() => found(cluster.instances.get(objectKey(draft.namespace, draft.name))))
    }

    const current = (object: Instance) => cluster.instances.get(keyOf(object))
    const usageOf = (object: Instance) => current(object)?.spec.deviceUsage
    const infoOf = (object: Instance) => current(object)?.status?.brokerInfo
    const slot = (object: Instance, index: number) => `${object.metadata.name}-${index}` as SlotName

    it('R79 gives a new Instance one free slot for each of its capacity', async () => {
      const made = await instance(3)
      const { name: own } = made.metadata
      expect(made.spec.deviceUsage).toEqual({ [`${own}-0`]: '', [`${own}-1`]: '', [`${own}-2`]: '' })
    })

    it('R84 makes an Instance with the claims that it is given, and its other slots are free', async () => {
      const draft = draftOf(await configuration(), 2, [NODE_A], '8120fe')
      const claims = { [`${draft.name}-1`]: `C:0:${NODE_A}` }
      expect(await cluster.createInstance({ ...draft, spec: { ...draft.spec, deviceUsage: claims } })).toBe('created')
      const made = await eventually(() => found(cluster.instances.get(objectKey(draft.namespace, draft.name))))
      expect(made.spec.deviceUsage).toEqual({ [`${draft.name}-0`]: '', ...claims })
    })

    it('R7 R84 says of a slot what a container has, beyond the capacity too, and takes it from nobody', async () => {
      const made = await instance(1)
      const [key, own, beyond] = [keyOf(made), slot(made, 0), slot(made, 4)]
      expect(await cluster.claimSlot(key, own, NODE_B)).toEqual({ outcome: 'claimed' })
      expect(await cluster.restoreSlot(key, own, NODE_A)).toEqual({ outcome: 'taken', by: NODE_B })
      expect(await cluster.restoreSlot(key, beyond, `C:0:${NODE_A}`)).toEqual({ outcome: 'claimed' })
      expect(await cluster.restoreSlot(key, beyond, NODE_B)).toEqual({ outcome: 'taken', by: `C:0:${NODE_A}` })
      expect(usageOf(made)).toEqual({ [own]: NODE_B, [beyond]: `C:0:${NODE_A}` })
      // Nobody gets one before both have ended.
      expect(await cluster.releaseSlot(key, own, NODE_B)).toBe('released')
      expect(await cluster.claimSlot(key, own, NODE_A)).toEqual({ outcome: 'gone' })
      expect(await cluster.releaseSlot(key, beyond, `C:0:${NODE_A}`)).toBe('released')
      expect(usageOf(made)).toEqual({ [own]: '' })
      expect(await cluster.restoreSlot(key, own, NODE_A)).toEqual({ outcome: 'claimed' })
      expect(await cluster.restoreSlot(key, 'nonsense' as SlotName, NODE_A)).toEqual({ outcome: 'gone' })
      expect(await cluster.restoreSlot(objectKey('default', 'none-8120fe'), own, NODE_A)).toEqual({ outcome: 'gone' })
    })

    it('R84 lets a node join with what its containers have, and takes from nobody what they have by now', async () => {
      const made = await instance(2)
      const [key, own, taken, beyond] = [keyOf(made), slot(made, 0), slot(made, 1), slot(made, 2)]
      await cluster.claimSlot(key, taken, NODE_A)
      const claims = { [own]: `C:0:${NODE_B}`, [taken]: NODE_B, [beyond]: NODE_B }
      expect(await cluster.joinInstance(key, NODE_B, claims)).toBe('joined')
      expect(current(made)?.spec.nodes).toEqual([NODE_A, NODE_B])
      expect(usageOf(made)).toEqual({ ...claims, [taken]: NODE_A })
      expect(await cluster.joinInstance(key, NODE_B, { [taken]: NODE_B })).toBe('already-joined')
      expect(usageOf(made)?.[taken]).toBe(NODE_A)
    })

    it('makes the Configuration the owner of its Instance', async () => {
      const made = await instance(1)
      const owner = cluster.configurations
        .list()
        .find(({ metadata }) => metadata.name === (made.spec.configurationName as string))
      expect(made.metadata.ownerReferences).toMatchObject([
        { apiVersion: 'akri.sh/v0', kind: 'Configuration', uid: owner?.metadata.uid, controller: true },
      ])
    })

    it('R98 creates an Instance once, whoever asks', async () => {
      const owner = await configuration()
      const outcomes = await Promise.all(NODES.map((node) => cluster.createInstance(draftOf(owner, 1, [node], '8120fe'))))
      expect(outcomes.toSorted()).toEqual(['created', 'exists', 'exists'])
    })

    it('A10 A12 lets nodes join and leave without a trace on the others', async () => {
      const made = await instance(2)
      expect(await cluster.joinInstance(keyOf(made), NODE_B)).toBe('joined')
      expect(await cluster.joinInstance(keyOf(made), NODE_B)).toBe('already-joined')
      await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)
      await cluster.claimSlot(keyOf(made), slot(made, 1), `C:0:${NODE_B}`)
      expect(await cluster.leaveInstance(keyOf(made), NODE_B)).toBe('left')
      await eventually(() => expect(current(made)?.spec.nodes).toEqual([NODE_A]))
      expect(usageOf(made)).toEqual({ [slot(made, 0)]: NODE_A, [slot(made, 1)]: '' })
      expect(await cluster.releaseSlot(keyOf(made), slot(made, 0), NODE_A)).toBe('released')
      expect(await cluster.claimSlot(keyOf(made), slot(made, 0), `C:1:${NODE_A}`)).toEqual({ outcome: 'claimed' })
    })

    it('deletes an Instance with its last node', async () => {
      const made = await instance(1)
      expect(await cluster.leaveInstance(keyOf(made), NODE_A)).toBe('deleted')
      await eventually(() => expect(current(made)).toBeUndefined())
      expect(await cluster.leaveInstance(keyOf(made), NODE_A)).toBe('gone')
      expect(await cluster.joinInstance(keyOf(made), NODE_B)).toBe('gone')
      expect(await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_B)).toEqual({ outcome: 'gone' })
      expect(await cluster.releaseSlot(keyOf(made), slot(made, 0), NODE_A)).toBe('gone')
      expect(await cluster.updateInstance(keyOf(made), { capacity: 2, brokerProperties: {} })).toBe('gone')
    })

    it('A10 never loses a node that joins while the last one leaves', async () => {
      const made = await instance(1)
      for (let round = 0; round < 10; round++) {
        const [leave, join] = await Promise.all(
          round % 2 === 0
            ? [cluster.leaveInstance(keyOf(made), NODE_A), cluster.joinInstance(keyOf(made), NODE_B)]
            : await Promise.all([cluster.joinInstance(keyOf(made), NODE_B), cluster.leaveInstance(keyOf(made), NODE_A)]).then(
                ([joined, left]) => [left, joined] as const,
              ),
        )
        if (join === 'joined') {
          expect(leave).toBe('left')
          await eventually(() => expect(current(made)?.spec.nodes).toEqual([NODE_B]))
          expect(await cluster.leaveInstance(keyOf(made), NODE_B)).toBe('deleted')
        } else {
          expect([leave, join]).toEqual(['deleted', 'gone'])
        }
        await eventually(() => expect(current(made)).toBeUndefined())
        const owner = found(cluster.configurations.list().find(({ metadata }) => metadata.name === made.spec.configurationName))
        expect(await cluster.createInstance(draftOf(owner, 1, [NODE_A], '8120fe'))).toBe('created')
        await eventually(() => found(current(made)))
      }
    })

    it('A10 is deleted by the last of nodes that leave at the same moment', async () => {
      for (let round = 0; round < 10; round++) {
        const made = await instance(1, round % 2 === 0 ? NODES : NODES.toReversed())
        const outcomes = await Promise.all(NODES.map((node) => cluster.leaveInstance(keyOf(made), node)))
        expect(outcomes.toSorted()).toEqual(['deleted', 'left', 'left'])
        await eventually(() => expect(current(made)).toBeUndefined())
      }
    })

    it('R80 writes who claims a slot, and R85 tells the second who has it', async () => {
      const made = await instance(1)
      expect(await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)).toEqual({ outcome: 'claimed' })
      expect(await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_B)).toEqual({ outcome: 'taken', by: NODE_A })
      await eventually(() => expect(usageOf(made)).toEqual({ [slot(made, 0)]: NODE_A }))
    })

    it.each(['1', '00', '-1', '999999999999', 'x', ''])('has no slot of index %j in an Instance of capacity 1', async (index) => {
      const made = await instance(1)
      const before = current(made)
      const wrong = `${made.metadata.name}-${index}` as SlotName
      expect(await cluster.claimSlot(keyOf(made), wrong, NODE_A)).toEqual({ outcome: 'gone' })
      expect(current(made)).toBe(before)
    })

    it('R84 gives five slots to five of fifty who claim at once', async () => {
      const made = await instance(5)
      const claims = Array.from({ length: 50 }, (_, index) => ({ slot: slot(made, index % 5), usage: `node-${index}` }))
      const outcomes = await Promise.all(claims.map((one) => cluster.claimSlot(keyOf(made), one.slot, one.usage)))
      const winners = claims.filter((_, index) => outcomes[index]?.outcome === 'claimed')
      expect(new Set(winners.map((one) => one.slot)).size).toBe(5)
      expect(winners).toHaveLength(5)
      const held = Object.fromEntries(winners.map((one) => [one.slot, one.usage]))
      await eventually(() => expect(usageOf(made)).toEqual(held))
      for (const [index, outcome] of outcomes.entries()) {
        const claim = found(claims[index])
        if (outcome.outcome === 'taken') expect(outcome.by).toBe(held[claim.slot])
      }
    })

    it('R85 frees a slot only for the usage that holds it', async () => {
      const made = await instance(1)
      await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)
      expect(await cluster.releaseSlot(keyOf(made), slot(made, 0), NODE_B)).toBe('changed')
      await eventually(() => expect(usageOf(made)).toEqual({ [slot(made, 0)]: NODE_A }))
      expect(await cluster.releaseSlot(keyOf(made), slot(made, 0), NODE_A)).toBe('released')
      expect(await cluster.releaseSlot(keyOf(made), slot(made, 0), NODE_A)).toBe('changed')
      await eventually(() => expect(usageOf(made)).toEqual({ [slot(made, 0)]: '' }))
    })

    it('adds slots at once when the capacity is raised, and keeps held ones until they are freed when it is lowered', async () => {
      const made = await instance(2)
      await cluster.updateInstance(keyOf(made), { capacity: 4, brokerProperties: {} })
      await eventually(() => expect(Object.values(usageOf(made) ?? {})).toEqual(['', '', '', '']))
      await cluster.claimSlot(keyOf(made), slot(made, 3), NODE_A)
      await cluster.updateInstance(keyOf(made), { capacity: 1, brokerProperties: {} })
      await eventually(() => expect(usageOf(made)).toEqual({ [slot(made, 0)]: '', [slot(made, 3)]: NODE_A }))
      expect(await cluster.claimSlot(keyOf(made), slot(made, 2), NODE_A)).toEqual({ outcome: 'gone' })
      // As many as the capacity are held, if not those.
      expect(await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)).toEqual({ outcome: 'gone' })
      await cluster.releaseSlot(keyOf(made), slot(made, 3), NODE_A)
      await eventually(() => expect(usageOf(made)).toEqual({ [slot(made, 0)]: '' }))
      expect(await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)).toEqual({ outcome: 'claimed' })
    })

    it('A11 changes properties and capacity of an Instance that several nodes share', async () => {
      const made = await instance(1, [NODE_A, NODE_B])
      expect(await cluster.updateInstance(keyOf(made), { capacity: 2, brokerProperties: { SITE: 'north' } })).toBe('updated')
      expect(await cluster.updateInstance(keyOf(made), { capacity: 3, brokerProperties: { SITE: 'south' } })).toBe('updated')
      await eventually(() => expect(current(made)?.spec).toMatchObject({ capacity: 3, brokerProperties: { SITE: 'south' } }))
      expect(await cluster.updateInstance(keyOf(made), { capacity: 4 })).toBe('updated')
      await eventually(() => expect(current(made)?.spec).toMatchObject({ capacity: 4, brokerProperties: { SITE: 'south' } }))
    })

    it('knows a Configuration as it stands now, and none that is not there', async () => {
      const { metadata, spec } = await configuration()
      expect(await cluster.readConfiguration(keyOf({ metadata }))).toMatchObject({ metadata: { uid: metadata.uid }, spec })
      expect(await cluster.readConfiguration(objectKey(metadata.namespace, 'none'))).toBeUndefined()
    })

    it('writes nothing where nothing changes', async () => {
      const made = await instance(2)
      await cluster.updateInstance(keyOf(made), { capacity: 2, brokerProperties: { A: '1', B: '2' } })
      await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)
      const before = await eventually(() => {
        expect(usageOf(made)?.[slot(made, 0)]).toBe(NODE_A)
        return found(current(made))
      })
      await cluster.updateInstance(keyOf(made), { capacity: 2, brokerProperties: { B: '2', A: '1' } })
      await cluster.joinInstance(keyOf(made), NODE_A)
      await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_B)
      await cluster.releaseSlot(keyOf(made), slot(made, 0), NODE_B)
      // A change behind the others: when it is seen, they would have been.
      await cluster.joinInstance(keyOf(made), NODE_B)
      await eventually(() => expect(current(made)?.spec.nodes).toContain(NODE_B))
      expect(current(made)?.metadata.generation).toBe(before.metadata.generation + 1)
    })

    it('R69 says of an Instance what workloads of a node report, and keeps its slots and its generation as they are', async () => {
      const made = await instance(2)
      await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)
      const before = await eventually(() => {
        expect(usageOf(made)?.[slot(made, 0)]).toBe(NODE_A)
        return found(current(made))
      })
      const report = (files: Record<string, string>) =>
        cluster.reportBrokerInfo(keyOf(made), NODE_A, reported({ [slot(made, 0)]: files }))
      expect(await report({ 'firmware-version': '1.0', constructor: '' })).toBe('reported')
      await eventually(() => expect(infoOf(made)).toEqual({ 'firmware-version': '1.0', constructor: '' }))
      expect(await report({ 'firmware-version': '1.1', state: 'ä\n\0"' })).toBe('reported')
      await eventually(() => expect(infoOf(made)).toEqual({ 'firmware-version': '1.1', state: 'ä\n\0"' }))
      expect(current(made)?.status?.brokerInfoSlots).toEqual({ 'firmware-version': slot(made, 0), state: slot(made, 0) })
      expect(current(made)?.spec).toEqual(before.spec)
      expect(current(made)?.metadata.generation).toBe(before.metadata.generation)
      expect(await report({})).toBe('reported')
      await eventually(() => expect(infoOf(made)).toEqual({}))
    })

    it('R69 keeps what workloads of other nodes report, and nothing of slots that are not held', async () => {
      const made = await instance(3, [NODE_A, NODE_B])
      await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)
      await cluster.claimSlot(keyOf(made), slot(made, 1), `C:0:${NODE_B}`)
      await Promise.all([
        cluster.reportBrokerInfo(keyOf(made), NODE_A, reported({ [slot(made, 0)]: { a: '1' }, [slot(made, 2)]: { c: '1' } })),
        cluster.reportBrokerInfo(keyOf(made), NODE_B, reported({ [slot(made, 1)]: { b: '1' } })),
      ])
      await eventually(() => expect(infoOf(made)).toEqual({ a: '1', b: '1' }))
      await cluster.releaseSlot(keyOf(made), slot(made, 0), NODE_A)
      await cluster.reportBrokerInfo(keyOf(made), NODE_B, reported({ [slot(made, 1)]: { b: '2' } }))
      await eventually(() => expect(infoOf(made)).toEqual({ a: '1', b: '2' }))
      const over = [slot(made, 0), slot(made, 1)]
      await cluster.reportBrokerInfo(keyOf(made), NODE_A, reported({}, over))
      await eventually(() => expect(infoOf(made)).toEqual({ b: '2' }))
    })

    it('R69 writes nothing where a report says nothing new, and knows when there is no Instance', async () => {
      const made = await instance(1)
      await cluster.claimSlot(keyOf(made), slot(made, 0), NODE_A)
      const same = reported({ [slot(made, 0)]: { a: '1' } })
      await cluster.reportBrokerInfo(keyOf(made), NODE_A, same)
      const version = await eventually(() => {
        expect(infoOf(made)).toEqual({ a: '1' })
        return current(made)?.metadata.resourceVersion
      })
      expect(await cluster.reportBrokerInfo(keyOf(made), NODE_A, same)).toBe('reported')
      expect(current(made)?.metadata.resourceVersion).toBe(version)
      const none = objectKey(made.metadata.namespace, 'none-123456')
      expect(await cluster.reportBrokerInfo(none, NODE_A, same)).toBe('gone')
    })

    it('R69 loses no report and no slot where many write at once', async () => {
      const made = await instance(5)
      await Promise.all(
        Array.from({ length: 5 }, async (_, index) => {
          const node = `node-${index}` as NodeName
          await cluster.claimSlot(keyOf(made), slot(made, index), node)
          for (const round of ['1', '2', '3'])
            await cluster.reportBrokerInfo(keyOf(made), node, reported({ [slot(made, index)]: { [`f${index}`]: round } }))
        }),
      )
      await eventually(() => expect(infoOf(made)).toEqual({ f0: '3', f1: '3', f2: '3', f3: '3', f4: '3' }))
      expect(Object.values(usageOf(made) ?? {})).toEqual(['node-0', 'node-1', 'node-2', 'node-3', 'node-4'])
    })

    it('deletes the Instances of a Configuration with it', async () => {
      const made = await instance(1)
      await tested.removeConfiguration({ namespace: made.metadata.namespace, name: made.spec.configurationName })
      await eventually(() => expect(current(made)).toBeUndefined())
      await eventually(() =>
        expect(cluster.configurations.list().map(({ metadata }) => metadata.name)).not.toContain(made.spec.configurationName),
      )
    })

    it('raises the generation of a Configuration with its spec, and not with its status', async () => {
      const wanted = manifest()
      await tested.applyConfiguration(wanted)
      const first = await seen(wanted)
      const condition = { type: 'Ready', status: 'False', reason: 'HandlerLost', message: 'gone' } as const
      const report = { observedGeneration: first.metadata.generation, devices: 4, conditions: [condition] }
      await cluster.reportStatus(keyOf(first), NODE_A, report)
      const second = await eventually(() => {
        const now = found(cluster.configurations.get(keyOf(first)))
        expect(now.status?.nodes).toEqual({ [NODE_A]: report })
        expect(now.status?.conditions).toMatchObject([condition])
        return now
      })
      const { status } = second
      expect(second.metadata.generation).toBe(first.metadata.generation)
      expect(second.metadata.resourceVersion).not.toBe(first.metadata.resourceVersion)
      await tested.applyConfiguration({ ...wanted, spec: { ...wanted.spec, capacity: 7 } })
      await eventually(() => expect(cluster.configurations.get(keyOf(first))?.spec.capacity).toBe(7))
      expect(cluster.configurations.get(keyOf(first))).toMatchObject({
        status,
        metadata: { uid: first.metadata.uid, generation: first.metadata.generation + 1 },
      })
    })

    it('tells listeners which object changed until they have had enough', async () => {
      const made = await instance(1)
      const enough = new AbortController()
      const told: string[] = []
      cluster.instances.onChange((key) => told.push(key), enough.signal)
      await cluster.joinInstance(keyOf(made), NODE_B)
      await eventually(() => expect(told).toContain(keyOf(made)))
      enough.abort()
      const before = told.length
      await cluster.leaveInstance(keyOf(made), NODE_B)
      await eventually(() => expect(current(made)?.spec.nodes).toEqual([NODE_A]))
      expect(told).toHaveLength(before)
    })

    it('keeps Instances and claims over a restart', async (context) => {
      if (tested.restart === undefined) return context.skip('the adapter keeps nothing of its own')
      const made = await instance(2)
      await cluster.claimSlot(keyOf(made), slot(made, 1), NODE_A)
      const before = await eventually(() => {
        expect(usageOf(made)?.[slot(made, 1)]).toBe(NODE_A)
        return current(made)
      })
      const identities = () =>
        cluster.configurations.list().map(({ metadata: { uid, generation }, spec }) => ({ uid, generation, spec }))
      const configurations = identities()
      cluster = await tested.restart()
      await eventually(() => expect(current(made)).toEqual(before))
      await eventually(() => expect(identities()).toEqual(configurations))
    })

    it('R84 never gives a slot twice and never loses one, whatever the nodes do at once', { timeout: 60_000 }, async () => {
      const node = fc.constantFrom(...NODES)
      const index = fc.nat({ max: 4 })
      const step = fc.oneof(
        { weight: 6, arbitrary: fc.record({ do: fc.constant('claim' as const), node, index }) },
        { weight: 4, arbitrary: fc.record({ do: fc.constant('release' as const), node, index }) },
        { weight: 1, arbitrary: fc.record({ do: fc.constant('resize' as const), capacity: fc.integer({ min: 1, max: 5 }) }) },
      )
      await fc.assert(
        fc.asyncProperty(fc.array(fc.array(step, { maxLength: 8 }), { maxLength: 5 }), async (batches) => {
          const made = await instance(3, NODES)
          // What the answers say must be what the object holds.
          const held = new Map<string, string>()
          let claims = 0
          for (const batch of batches) {
            const mine = new Map(held)
            await Promise.all(
              batch.map(async (one) => {
                if (one.do === 'resize') {
                  await cluster.updateInstance(keyOf(made), { capacity: one.capacity, brokerProperties: {} })
                  return
                }
                const wanted = slot(made, one.index)
                if (one.do === 'claim') {
                  // Each claim has a usage of its own, so that it is known whose stands there.
                  const usage = `C:${claims++}:${one.node}`
                  const { outcome } = await cluster.claimSlot(keyOf(made), wanted, usage)
                  if (outcome !== 'claimed') return
                  expect(held.has(wanted)).toBe(false)
                  held.set(wanted, usage)
                  return
                }
                const usage = mine.get(wanted)
                if (usage === undefined) return
                mine.delete(wanted)
                // Forgotten before the answer: somebody may claim it the moment it is free.
                held.delete(wanted)
                expect(await cluster.releaseSlot(keyOf(made), wanted, usage)).toBe('released')
              }),
            )
            await eventually(() => {
              const now = found(current(made)).spec
              const taken = Object.entries(now.deviceUsage).filter(([, usage]) => usage !== '')
              expect(Object.fromEntries(taken)).toEqual(Object.fromEntries(held))
              for (let at = 0; at < now.capacity; at++) expect(Object.hasOwn(now.deviceUsage, slot(made, at))).toBe(true)
            })
          }
          await tested.removeConfiguration({ namespace: made.metadata.namespace, name: made.spec.configurationName })
        }),
        { numRuns: 25, endOnFailure: true },
      )
    })
  })
}

/** By slot the files that its workload has. */
function reported(files: Readonly<Record<string, Readonly<Record<string, string>>>>, abandoned: SlotName[] = []): BrokerReports {
  const workloads = Object.entries(files).map(
    ([name, own]) => [name as SlotName, { files: new Map(Object.entries(own)), fresh: new Set<string>() }] as const,
  )
  return { workloads: new Map(workloads), abandoned: new Set(abandoned) }
}

/** A Configuration of a name that no other test has. */
export function manifest(spec: Partial<ConfigurationManifest['spec']> = {}): ConfigurationManifest {
  return {
    name: `lab-${process.pid}-${++names}` as ConfigurationName,
    namespace: 'default',
    labels: {},
    annotations: {},
    spec: {
      discoveryHandler: { name: 'debugEcho', discoveryDetails: '', discoveryProperties: [] },
      capacity: 1,
      brokerProperties: {},
      ...spec,
    },
  }
}

export function draftOf(owner: Configuration, capacity: number, nodes: readonly NodeName[], digest: string) {
  const { name, namespace } = owner.metadata
  return {
    name: `${name}-${digest}` as InstanceName,
    namespace,
    annotations: {},
    owner,
    spec: {
      configurationName: name,
      cdiName: `akri.sh/${name}=${digest}`,
      capacity,
      brokerProperties: {},
      shared: true,
      nodes,
      deviceUsage: {},
    },
  }
}

function found<T>(value: T | undefined): T {
  expect(value).toBeDefined()
  if (value === undefined) throw new TypeError('nothing is there')
  return value
}
