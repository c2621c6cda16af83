import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type ChangeCost,
  requestsOf,
  SimulatedCluster,
} from '../../bench/src/simulation/simulated-cluster.js'

// From ten nodes on, the controller writes the nodes of shared Instances for all agents.

const nodes = (count: number) => Array.from({ length: count }, (_, index) => `node-${index}`)
const shared = (ids: readonly string[]) => () => ({ shared: ids })

let cluster: SimulatedCluster

beforeEach(() => {
  cluster = new SimulatedCluster()
})

afterEach(() => cluster.close())

/** Starts agents on that many nodes, which all find these devices. */
async function startWith(count: number, ids: readonly string[]): Promise<void> {
  await cluster.cost(() => cluster.start(nodes(count)), {})
  await cluster.cost(() => cluster.find(shared(ids)), { shared: ids.length })
}

const countsOfNodes = () => cluster.shared().map((instance) => instance.nodes.length)

describe('many agents and a controller', () => {
  it('A10 R98 keep all nodes of a device that returns before the controller acts', async () => {
    await startWith(12, ['a'])
    const before = cluster.shared()
    await cluster.step()
    // All agents ask the controller to leave, and wait for it.
    cluster.find(shared([]))
    await cluster.run(2000)
    cluster.find(shared(['a']))
    await cluster.run(1000)
    await cluster.lead()
    await cluster.run(60_000, () => expect(countsOfNodes()).toEqual([12]))
    expect(cluster.shared()).toEqual(before)
  })

  it('A10 R64 leave a node out for good whose agent was taken off', async () => {
    await startWith(12, ['a'])
    await cluster.takeOff('node-3')
    await cluster.runUntil(() => countsOfNodes()[0] === 11)
    await cluster.run(600_000, () => expect(countsOfNodes()).toEqual([11]))
    expect(cluster.shared()[0]?.nodes).not.toContain('node-3')
    expect(cluster.reports().sort()).toEqual(
      nodes(12)
        .filter((name) => name !== 'node-3')
        .sort(),
    )
  })

  it('A10 R98 join more devices than a report has room for, by the controller', async () => {
    // Two Configurations, as one has a bound of its own.
    await cluster.cost(() => cluster.start(nodes(10), ['shared', 'others']), {})
    const ids = Array.from({ length: 505 }, (_, index) => `device-${index}`)
    const { agents } = await cluster.cost(
      () => cluster.find(() => ({ shared: ids, others: ids })),
      { shared: ids.length, others: ids.length },
    )
    // Those of the reports: an agent that joins by itself sends one for each device.
    expect(agents.requests.patch).toBeLessThan(300)
  })

  it('write nothing while nothing changes', async () => {
    await startWith(12, ['a', 'b'])
    // Ten minutes after a join, agents take their wish for it out of their reports.
    await cluster.run(1_200_000)
    const requests = await cluster.idle(600_000)
    const writes = requests.map(({ get: _reads, ...others }) => others)
    expect(writes).toEqual([{}, {}])
  })

  it('R98 cost in proportion to their number for a shared device, else once', async () => {
    const costs: Record<string, readonly [ChangeCost, ChangeCost]> = {}
    const measure = async (count: number) => {
      await cluster.cost(() => cluster.start(nodes(count)), {})
      await cluster.cost(() => cluster.find(shared(['a'])), { shared: 1 })
      const comes = await cluster.cost(() => cluster.find(shared(['a', 'b'])), { shared: 2 })
      const goes = await cluster.cost(() => cluster.find(shared(['a'])), { shared: 1 })
      const local = (_: string, index: number) => ({ local: index === 0 ? ['c'] : [] })
      const own = await cluster.cost(() => cluster.find(local), { local: 1, shared: 1 })
      return { comes, goes, own }
    }
    const few = await measure(10)
    await cluster.close()
    cluster = new SimulatedCluster()
    const many = await measure(40)
    costs.comes = [few.comes, many.comes]
    costs.goes = [few.goes, many.goes]
    for (const [change, [before, after]] of Object.entries(costs)) {
      expect(requestsOf(after.agents), change).toBeLessThanOrEqual(100)
      expect(after.agents.refused, change).toBeLessThanOrEqual(10)
      expect(after.agents.bytes, change).toBeLessThanOrEqual(5_000_000)
      expect(after.rightMs, change).toBeLessThanOrEqual(10_000)
      const growth = requestsOf(after.agents) / requestsOf(before.agents)
      expect(Math.log(growth) / Math.log(4), change).toBeLessThanOrEqual(1.1)
      const bytes = after.agents.bytes / before.agents.bytes
      expect(Math.log(bytes) / Math.log(4), change).toBeLessThanOrEqual(2)
    }
    expect(requestsOf(many.own.agents)).toBe(requestsOf(few.own.agents))
  })
})
