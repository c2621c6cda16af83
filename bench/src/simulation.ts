// A cluster of many nodes in one process: what its agents and its controller ask of the API server.
// The time is virtual. Kubelets, Pods, Secrets and the network are left out.

import {
  type ChangeCost,
  type InstanceCount,
  requestsOf,
  SimulatedCluster,
} from './simulation/simulated-cluster.js'
import { type Figure, printRows } from './table.mjs'

const NODES = Number(process.env.AKRI_BENCH_NODES ?? 1000)
const LOCAL_DEVICES = 10

interface Cost extends ChangeCost {
  readonly change: string
}

export async function measure(): Promise<Figure[]> {
  const simulation = new SimulatedCluster()
  const names = Array.from({ length: NODES }, (_, index) => `node-${index}`)
  const local = (more: number) => (name: string, index: number) => ({
    local: Array.from(
      { length: LOCAL_DEVICES + (index === 0 ? more : 0) },
      (_, device) => `${name}-${device}`,
    ),
  })
  const shared = (ids: readonly string[]) => () => ({ shared: ids })
  const costs: Cost[] = []
  const measured = async (change: string, work: () => Promise<void> | void, count: InstanceCount) =>
    costs.push({ change, ...(await simulation.cost(work, count)) })
  try {
    await measured(`${NODES} agents start`, () => simulation.start(names), { local: 0, shared: 0 })
    const all = NODES * LOCAL_DEVICES
    await measured(
      `${LOCAL_DEVICES} local devices of each node appear`,
      () => simulation.find(local(0)),
      { local: all, shared: 0 },
    )
    const before = { local: all, shared: 1 }
    await measured('a shared device appears', () => simulation.find(shared(['a'])), before)
    await measured('another shared device appears', () => simulation.find(shared(['a', 'b'])), {
      local: all,
      shared: 2,
    })
    await measured('a shared device disappears', () => simulation.find(shared(['a'])), before)
    await measured('a local device appears', () => simulation.find(local(1)), {
      local: all + 1,
      shared: 1,
    })
  } finally {
    printCosts(costs)
    await simulation.close()
  }
  return figuresOf(costs)
}

function printCosts(costs: readonly Cost[]): void {
  const verbs = ['get', 'create', 'update', 'patch', 'delete']
  printRows([
    [
      'change',
      'requests',
      ...verbs,
      'refused',
      'events',
      'MB',
      'controller: requests',
      'events',
      'MB',
      'right s',
      'quiet s',
    ],
    ...costs.map(({ change, agents, controller, rightMs, quietMs }) => [
      change,
      String(requestsOf(agents)),
      ...verbs.map((verb) => String(agents.requests[verb] ?? 0)),
      String(agents.refused),
      String(agents.events),
      (agents.bytes / 1e6).toFixed(1),
      String(requestsOf(controller)),
      String(controller.events),
      (controller.bytes / 1e6).toFixed(1),
      (rightMs / 1000).toFixed(1),
      (quietMs / 1000).toFixed(1),
    ]),
  ])
}

/** The budgets of 40 agents, in proportion. */
function figuresOf(costs: readonly Cost[]): Figure[] {
  const figures: Figure[] = []
  for (const { change, agents } of costs) {
    const figure = (what: string, value: number, budget: number) =>
      figures.push({ what: `${NODES} nodes, ${change}: ${what}`, value, unit: '', budget })
    if (/shared device (dis)?appears$/.test(change)) {
      figure('requests of agents', requestsOf(agents), 2.5 * NODES)
      figure('refused requests of agents', agents.refused, 0.25 * NODES)
    }
    if (change === 'a local device appears') figure('requests of agents', requestsOf(agents), 5)
  }
  return figures
}
