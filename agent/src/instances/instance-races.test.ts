import { GROUP, type Instance, slotName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { instanceOf, usageOf } from '../slots/allocation-ledger.js'
import { MemoryCluster } from '../testing/memory-cluster.js'
import { COLLIDING, found, manifest, setOf } from '../testing/objects.js'
import { ReconcilerHarness } from '../testing/reconciler-harness.js'
import { deviceIdOf } from './existing-instances.js'

const IDS = [...COLLIDING, 'camera-1']
const NODES = ['node-a', 'node-b', 'node-c'] as NodeName[]

/** The device of each id, also of those that the node has found before. */
function find(node: ReconcilerHarness, ...ids: string[]): void {
  const before = node.devices.devices.values()
  node.devices = setOf(...before, ...ids.map((id) => found({ id })))
}

async function openCluster() {
  const cluster = new MemoryCluster()
  const wanted = manifest({ capacity: 2 })
  await cluster.apply(wanted)
  const [configuration = expect.fail()] = cluster.configurations.list()
  const nodes = NODES.map((name) => {
    const node = new ReconcilerHarness(cluster, wanted, name)
    node.devices = setOf()
    return node
  })
  return { cluster, configuration, nodes }
}

const step = fc.record({
  node: fc.nat(NODES.length - 1),
  finds: fc.subarray(IDS),
  claims: fc.option(fc.constantFrom(...IDS)),
  /** Whether the agent of the node runs on before the next step. */
  waits: fc.boolean(),
})

it('nodes that find devices in any order agree on one Instance for each, with claims', async () => {
  const run = async (steps: (typeof step extends fc.Arbitrary<infer Step> ? Step : never)[]) => {
    const { cluster, nodes } = await openCluster()
    const claim = async ({ node: name, ledger, served }: ReconcilerHarness, id: string) => {
      const instance = [...served.values()].find(({ device }) => device.id === id)
      if (instance === undefined) return
      const slot = slotName(instance.name, 0)
      const { outcome } = await cluster.claimSlot(instance.key, slot, name, id)
      // The kubelet gets no answer of a plugin that was withdrawn meanwhile.
      if (outcome !== 'claimed' || !served.has(instance.name)) return
      ledger.record({ slot, resourceName: `${GROUP}/${instance.name}`, id: slot })
    }
    const work: Promise<unknown>[] = []
    for (const { node: index, finds, claims, waits } of steps) {
      const node = nodes[index] ?? expect.fail()
      find(node, ...finds)
      const pass = node.reconcile()
      work.push(pass)
      if (waits) await pass
      if (claims !== null) work.push(claim(node, claims))
    }
    await Promise.all(work)
    const state = () => JSON.stringify(cluster.instances.list())
    for (let before = '', passes = 0; before !== state(); passes++) {
      expect(passes).toBeLessThan(20)
      before = state()
      await Promise.all(nodes.map((node) => node.reconcile()))
    }

    const claimsOf = ({ spec }: Instance) => Object.values(spec.deviceUsage)
    for (const id of IDS) {
      const seers = nodes.filter(({ devices }) => devices.devices.has(id)).map(({ node }) => node)
      const all = cluster.instances.list().filter((each) => deviceIdOf(each) === id)
      // A node stays in the Instance that its containers use.
      const kept = all.filter(({ spec }) => spec.nodes.length === seers.length)
      expect(kept.map(({ spec }) => [...spec.nodes].sort())).toEqual(
        seers.length === 0 ? [] : [seers],
      )
      for (const other of all.filter((each) => !kept.includes(each)))
        for (const node of other.spec.nodes) expect(claimsOf(other)).toContain(node)
      for (const node of nodes.filter(({ devices }) => devices.devices.has(id))) {
        const names = [...node.served.values()].filter(({ device }) => device.id === id)
        expect(names.map(({ name }) => name)).toEqual(kept.map(({ metadata }) => metadata.name))
      }
    }
    for (const { node: name, ledger } of nodes)
      for (const allocation of ledger.list()) {
        const instance = cluster.instances
          .list()
          .find(({ metadata }) => metadata.name === instanceOf(allocation.slot))
        expect(instance?.spec.deviceUsage[allocation.slot]).toBe(usageOf(allocation, name))
      }
  }
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), run), {
    numRuns: 25,
  })
})
