import { GROUP, type Instance, slotName } from '@akrijs/api'
import { keyOf, type NodeName, type ObjectKey, objectKey } from '@akrijs/kube/objects'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { AcceptedConfigurations } from '../discovery/accepted-configurations.js'
import type { DeviceSet } from '../discovery/device-set.js'
import { AllocationLedger, instanceOf, usageOf } from '../slots/allocation-ledger.js'
import { collidingIds } from '../testing/colliding-ids.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import { checked, draftOf, manifest } from '../testing/objects.js'
import { deviceIdAnnotation, deviceIdOf } from './existing-instances.js'
import { InstanceIndex } from './instance-index.js'
import { deviceDigest } from './instance-name.js'
import { InstanceReconciler } from './instance-reconciler.js'
import type { InstancePlugins, ServedInstance } from './served-instance.js'

/** The first three have one short digest. */
const IDS = ['camera-16258', 'camera-26847', 'camera-60728', 'camera-1']
const NODES = ['node-a', 'node-b', 'node-c'] as NodeName[]

/** One node of a cluster: the part of its agent that plans and writes Instances. */
class TestNode {
  readonly name: NodeName
  readonly ledger: AllocationLedger
  readonly served = new Map<string, ServedInstance>()
  readonly #reconciler: InstanceReconciler
  #devices: DeviceSet = { devices: new Map(), complete: true, leftOut: undefined }

  constructor(name: NodeName, cluster: MemoryCluster, signal: AbortSignal) {
    this.name = name
    this.ledger = new AllocationLedger({ node: name, pods: undefined })
    const plugins: InstancePlugins = {
      serveConfiguration: async () => ({ registered: Promise.resolve() }),
      withdrawConfiguration: async () => {},
      serve: async (instance) => {
        this.served.set(instance.name, instance)
        return { registered: Promise.resolve() }
      },
      withdraw: async (instance) => void this.served.delete(instance),
    }
    this.#reconciler = new InstanceReconciler({
      cluster,
      instances: new InstanceIndex(cluster.instances, name, signal),
      configurations: new AcceptedConfigurations(cluster.configurations, signal),
      plugins,
      book: { lose: () => {} },
      ledger: this.ledger,
      node: name,
      clock: new ManualClock(),
      log: silentLogger,
      signal,
      deviceSet: () => this.#devices,
    })
  }

  get ids(): string[] {
    return [...this.#devices.devices.keys()]
  }

  find(...ids: string[]): void {
    const found = ids.map((id) => {
      return [id, { device: checked({ id }), shared: true, healthy: true, endpoint: 'e' }] as const
    })
    const devices = new Map([...this.#devices.devices, ...found])
    this.#devices = { ...this.#devices, devices }
  }

  async reconcile(key: ObjectKey): Promise<void> {
    await this.#reconciler.reconcile(key)
  }
}

async function openCluster() {
  const cluster = new MemoryCluster()
  await cluster.apply(manifest({ capacity: 2 }))
  const [configuration = expect.fail()] = cluster.configurations.list()
  return { cluster, configuration, key: keyOf(configuration) }
}

it('a node leaves the second Instance of a device when its containers have ended', async () => {
  const { cluster, configuration, key } = await openCluster()
  const stop = new AbortController()
  const [a, b] = ['node-a', 'node-b'].map(
    (name) => new TestNode(name as NodeName, cluster, stop.signal),
  )
  if (a === undefined || b === undefined) return expect.fail()
  const [first, second] = collidingIds()
  b.find(second)
  await b.reconcile(key)
  const [short = expect.fail()] = cluster.instances.list()
  const slot = slotName(short.metadata.name, 0)
  await cluster.claimSlot(keyOf(short), slot, b.name)
  // What the other node wrote at the same moment.
  const digest = deviceDigest(second, { shared: true }, 'long')
  const draft = draftOf(configuration, 2, [a.name], digest)
  await cluster.createInstance({ ...draft, annotations: deviceIdAnnotation(second) })
  await cluster.claimSlot(objectKey('default', draft.name), slotName(draft.name, 0), a.name)
  a.find(first, second)
  const settle = async () => {
    for (let pass = 0; pass < 3; pass++) for (const node of [a, b]) await node.reconcile(key)
    return Object.fromEntries(
      cluster.instances.list().map(({ metadata, spec }) => [metadata.name, spec.nodes]),
    )
  }
  const long = `${configuration.metadata.name}-${deviceDigest(first, { shared: true }, 'long')}`
  expect(await settle()).toEqual({
    [short.metadata.name]: [b.name],
    [draft.name]: [a.name, b.name],
    [long]: [a.name],
  })
  expect([...b.served.keys()]).toEqual([draft.name])
  await cluster.releaseSlot(keyOf(short), slot, b.name)
  expect(await settle()).toEqual({ [draft.name]: [a.name, b.name], [long]: [a.name] })
  stop.abort()
})

const step = fc.record({
  node: fc.nat(NODES.length - 1),
  finds: fc.subarray(IDS),
  claims: fc.option(fc.constantFrom(...IDS)),
  /** Whether the agent of the node runs on before the next step. */
  waits: fc.boolean(),
})

it('nodes that find devices in any order agree on one Instance for each, with claims', async () => {
  const run = async (steps: (typeof step extends fc.Arbitrary<infer Step> ? Step : never)[]) => {
    const stop = new AbortController()
    const { cluster, key } = await openCluster()
    const nodes = NODES.map((name) => new TestNode(name, cluster, stop.signal))
    const claim = async ({ name, ledger, served }: TestNode, id: string) => {
      const instance = [...served.values()].find(({ device }) => device.id === id)
      if (instance === undefined) return
      const slot = slotName(instance.name, 0)
      const { outcome } = await cluster.claimSlot(instance.key, slot, name, id)
      // The kubelet gets no answer of a plugin that was withdrawn meanwhile.
      if (outcome !== 'claimed' || !served.has(instance.name)) return
      ledger.record({ slot, resourceName: `${GROUP}/${instance.name}`, id: slot })
    }
    const work: Promise<void>[] = []
    for (const { node: index, finds, claims, waits } of steps) {
      const node = nodes[index] ?? expect.fail()
      node.find(...finds)
      const pass = node.reconcile(key)
      work.push(pass)
      if (waits) await pass
      if (claims !== null) work.push(claim(node, claims))
    }
    await Promise.all(work)
    const state = () => JSON.stringify(cluster.instances.list())
    for (let before = '', passes = 0; before !== state(); passes++) {
      expect(passes).toBeLessThan(20)
      before = state()
      await Promise.all(nodes.map((node) => node.reconcile(key)))
    }

    const claimsOf = ({ spec }: Instance) => Object.values(spec.deviceUsage)
    for (const id of IDS) {
      const seers = nodes.filter((node) => node.ids.includes(id)).map(({ name }) => name)
      const all = cluster.instances.list().filter((each) => deviceIdOf(each) === id)
      // A node stays in the Instance that its containers use.
      const kept = all.filter(({ spec }) => spec.nodes.length === seers.length)
      expect(kept.map(({ spec }) => [...spec.nodes].sort())).toEqual(
        seers.length === 0 ? [] : [seers],
      )
      for (const other of all.filter((each) => !kept.includes(each)))
        for (const node of other.spec.nodes) expect(claimsOf(other)).toContain(node)
      for (const node of nodes.filter(({ ids }) => ids.includes(id))) {
        const names = [...node.served.values()].filter(({ device }) => device.id === id)
        expect(names.map(({ name }) => name)).toEqual(kept.map(({ metadata }) => metadata.name))
      }
    }
    for (const { name, ledger } of nodes)
      for (const allocation of ledger.list()) {
        const instance = cluster.instances
          .list()
          .find(({ metadata }) => metadata.name === instanceOf(allocation.slot))
        expect(instance?.spec.deviceUsage[allocation.slot]).toBe(usageOf(allocation, name))
      }
    stop.abort()
  }
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), run), {
    numRuns: 25,
  })
})
