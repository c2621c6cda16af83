// A cluster of many nodes in one process: what its agents and its controller ask of the API server.
// The time is virtual. Kubelets, Pods, Secrets and the network are left out.

import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { NodeName } from '@akrijs/kube'
import { fieldOf, silentLogger, valueAt } from '@akrijs/runtime'
import { KubernetesCluster } from '../../agent/src/cluster/kubernetes-cluster.js'
import type { Kubelet } from '../../agent/src/ports/kubelet.js'
import { startAgent } from '../../agent/src/program/agent.js'
import { ClusterState } from '../../controller/src/cluster-state.js'
import { control } from '../../controller/src/controller.js'
import { agentPod } from './processes/agent-pod.js'
import { CommandedDevices } from './processes/commanded-devices.js'
import { CountedServer, type ServerCounts } from './simulation/counted-server.js'
import { VirtualClock } from './simulation/virtual-clock.js'
import { type Figure, printRows } from './table.mjs'

const NODES = Number(process.env.AKRI_BENCH_NODES ?? 1000)
const LOCAL_DEVICES = 10
const SHARED_SLOTS = 3
/** Without a request of an agent or of the controller for so long, the cluster is quiet. */
const QUIET_MS = 5000
const LIMIT_MS = 600_000
const INSTANCES = '/apis/akri.sh/v0/instances'
const CONFIGURATIONS = '/apis/akri.sh/v0/configurations'

interface Cost {
  readonly change: string
  readonly agents: ServerCounts
  readonly controller: ServerCounts
  readonly rightMs: number
  readonly quietMs: number
}

export async function measure(): Promise<Figure[]> {
  const simulation = new Simulation()
  const names = Array.from({ length: NODES }, (_, index) => `node-${index}`)
  const local = (more: number) => (name: string, index: number) => ({
    local: Array.from(
      { length: LOCAL_DEVICES + (index === 0 ? more : 0) },
      (_, device) => `${name}-${device}`,
    ),
  })
  const shared = (ids: readonly string[]) => () => ({ shared: ids })
  const costs: Cost[] = []
  const measured = async (change: string, work: () => Promise<void> | void, count: Count) =>
    costs.push(await simulation.cost(change, work, count))
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

/** The number of Instances of each Configuration. */
interface Count {
  readonly local: number
  readonly shared: number
}

class Simulation {
  readonly #clock = new VirtualClock()
  readonly #server = new CountedServer(this.#clock)
  readonly #directory = mkdtempSync(path.join(os.tmpdir(), 'akri-s'))
  readonly #stop = new AbortController()
  readonly #nodes: { readonly name: string; readonly devices: CommandedDevices }[] = []
  #agents = noCounts()
  #controller = noCounts()

  async start(names: readonly string[]): Promise<void> {
    for (const [name, handler, capacity] of [
      ['local', 'benchLocal', 1],
      ['shared', 'benchShared', SHARED_SLOTS],
    ] as const)
      this.#server.store.put(`/apis/akri.sh/v0/namespaces/default/configurations/${name}`, {
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        spec: {
          discoveryHandler: { name: handler, discoveryDetails: name },
          capacity,
          offer: 'configuration',
        },
      })
    for (const name of names) this.#putNode(name)
    await this.#control()
    await Promise.all(names.map((name) => this.#startAgent(name)))
    void this.#server.sendBookmarks(this.#stop.signal)
  }

  find(devicesOf: (name: string, index: number) => Record<string, readonly string[]>): void {
    for (const [index, { name, devices }] of this.#nodes.entries())
      devices.find(devicesOf(name, index))
  }

  async cost(change: string, work: () => Promise<void> | void, count: Count): Promise<Cost> {
    for (const counts of [this.#agents, this.#controller]) Object.assign(counts, noCounts())
    const begun = this.#clock.monotonicMs()
    let failure: unknown
    // Agents start only as virtual time passes.
    void Promise.resolve(work()).catch((error: unknown) => {
      failure = error
    })
    const isRight = () => {
      if (failure !== undefined) throw failure
      return this.#isRight(count)
    }
    const rightMs = await this.#clock.runUntil(isRight, LIMIT_MS)
    let requests = -1
    let lastAt = this.#clock.monotonicMs()
    await this.#clock.runUntil(() => {
      const now = this.#clock.monotonicMs()
      const total = requestsOf(this.#agents) + requestsOf(this.#controller)
      if (total !== requests) lastAt = now
      requests = total
      return now - lastAt >= QUIET_MS
    }, LIMIT_MS)
    const [agents, controller] = [this.#agents, this.#controller].map((of) => structuredClone(of))
    if (agents === undefined || controller === undefined) throw new TypeError('no counts')
    return { change, agents, controller, rightMs, quietMs: lastAt - begun }
  }

  async close(): Promise<void> {
    this.#stop.abort()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  #isRight({ local, shared }: Count): boolean {
    if (this.#server.objects(INSTANCES).size !== local + shared) return false
    if (this.#nodes.length !== NODES) return false
    for (const object of this.#server.objects(INSTANCES).values()) {
      const nodes = valueAt(object, 'spec', 'nodes')
      if (valueAt(object, 'spec', 'shared') !== true) continue
      if (!Array.isArray(nodes) || nodes.length !== NODES) return false
    }
    return [...this.#server.objects(CONFIGURATIONS).values()].every((object) => {
      const status = fieldOf(object, 'status')
      const devices = object.metadata.name === 'local' ? local : shared
      return (
        fieldOf(status, 'devices') === devices && valueAt(status, 'nodeCounts', 'ready') === NODES
      )
    })
  }

  #putNode(name: string): void {
    const ready = { type: 'Ready', status: 'True' }
    this.#server.store.put(`/api/v1/nodes/${name}`, { status: { conditions: [ready] } })
    this.#server.store.put(`/api/v1/namespaces/akri/pods/${agentPod(name)}`, {
      metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
      spec: { nodeName: name },
      status: { phase: 'Running', conditions: [ready] },
    })
  }

  async #control(): Promise<void> {
    const client = this.#server.client(this.#controller)
    const shared = { client, clock: this.#clock, log: silentLogger }
    const state = new ClusterState({ ...shared, agentNamespace: 'akri' })
    state.start()
    await state.synced
    const events = { record: () => {} }
    void control({ ...shared, state, events, nodeGraceMs: 300_000 }, this.#stop.signal)
  }

  async #startAgent(name: string): Promise<void> {
    const directory = path.join(this.#directory, name)
    mkdirSync(directory)
    const node = name as NodeName
    const shared = { clock: this.#clock, log: silentLogger, node }
    const client = this.#server.client(this.#agents)
    const cluster = new KubernetesCluster({ ...shared, client, agentPod: agentPod(name) })
    cluster.start()
    const devices = new CommandedDevices()
    devices.find({ local: [], shared: [] })
    await startAgent({
      ...shared,
      cluster,
      kubelet: silentKubelet(path.join(directory, 'p')),
      handlersDirectory: path.join(directory, 'h'),
      checkpointFile: path.join(directory, 'c.json'),
      embedded: (['benchLocal', 'benchShared'] as const).map((handler) => ({
        name: handler,
        load: async () => devices.handler(handler),
      })),
    })
    this.#nodes.push({ name, devices })
  }
}

/** A kubelet without Pods that takes each plugin and never looks at it. */
function silentKubelet(pluginDirectory: string): Kubelet {
  mkdirSync(pluginDirectory)
  return {
    pluginDirectory,
    pods: undefined,
    register: async () => {},
    listAllocated: async () => new Map(),
    onRestart: () => {},
    onDirectoryRead: () => {},
  }
}

const noCounts = (): ServerCounts => ({ requests: {}, refused: 0, events: 0, bytes: 0 })

function requestsOf({ requests }: ServerCounts): number {
  return Object.values(requests).reduce((total, count) => total + count, 0)
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
