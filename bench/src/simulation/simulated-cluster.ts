import { mkdirSync, mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { NodeName } from '@akrijs/kube'
import { fieldOf, silentLogger, valueAt } from '@akrijs/runtime'
import { KubernetesCluster } from '../../../agent/src/cluster/kubernetes-cluster.js'
import type { Kubelet } from '../../../agent/src/kubelet/kubelet.js'
import { startAgent } from '../../../agent/src/program/agent.js'
import { ClusterState } from '../../../controller/src/cluster-state.js'
import { control } from '../../../controller/src/controller.js'
import type { StoredObject } from '../../../kube/src/testing/object-store.js'
import { agentPod } from '../processes/agent-pod.js'
import { CommandedDevices } from '../processes/commanded-devices.js'
import type { DeviceLists } from '../processes/protocol.js'
import { CountedServer, type ServerCounts } from './counted-server.js'
import { VirtualClock } from './virtual-clock.js'

/** What a change of the cluster costs, until it is right and quiet. */
export interface ChangeCost {
  readonly agents: ServerCounts
  readonly controller: ServerCounts
  readonly rightMs: number
  readonly quietMs: number
}

/** The number of Instances of each Configuration. */
export type InstanceCount = Readonly<Record<string, number>>

interface SimulatedNode {
  readonly name: string
  readonly devices: CommandedDevices
  end(): Promise<void>
}

const SHARED_SLOTS = 3
/** Without a request of an agent or of the controller for so long, the cluster is quiet. */
const QUIET_MS = 5000
const LIMIT_MS = 600_000
/** The default of the controller. */
const NODE_GRACE_MS = 300_000
const NAMESPACE = 'akri'
/** All Configurations are in one namespace, which has half of a node. */
const BOUNDS = { perConfiguration: 1000, perNode: 4000, slots: 40_000 }
const INSTANCES = '/apis/akri.sh/v0/instances'
const CONFIGURATIONS = '/apis/akri.sh/v0/configurations'
const REPORTS = '/apis/akri.sh/v0/nodereports'

/**
 * Agents and a controller in one process, with an API server that counts. The time is virtual.
 * Kubelets, Pods, Secrets and the network are left out.
 */
export class SimulatedCluster {
  readonly #clock = new VirtualClock()
  readonly #server = new CountedServer(this.#clock)
  readonly #directory = mkdtempSync(path.join(os.tmpdir(), 'akri-s'))
  readonly #stop = new AbortController()
  readonly #nodes: SimulatedNode[] = []
  #turn: { readonly end: () => Promise<void> } | undefined
  #agents = noCounts()
  #controller = noCounts()
  #size = 0

  /**
   * Starts the controller, and an agent on each of these nodes. To be called by {@link cost}.
   * @param configurations the devices of `local` are of one node each, and all others are shared
   */
  async start(names: readonly string[], configurations = ['local', 'shared']): Promise<void> {
    this.#size = names.length
    for (const name of configurations)
      this.#server.store.put(`/apis/akri.sh/v0/namespaces/default/configurations/${name}`, {
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        spec: {
          discoveryHandler: {
            name: name === 'local' ? 'benchLocal' : 'benchShared',
            discoveryDetails: name,
          },
          capacity: name === 'local' ? 1 : SHARED_SLOTS,
          offer: 'configuration',
        },
      })
    for (const name of names) this.#putNode(name)
    await this.#lead()
    await Promise.all(names.map((name) => this.#startAgent(name)))
    void this.#server.sendBookmarks(this.#stop.signal)
  }

  /** Begins a turn of the controller. */
  lead(): Promise<void> {
    return this.#finish(this.#lead())
  }

  async #lead(): Promise<void> {
    const client = this.#server.client(this.#controller)
    const shared = { client, clock: this.#clock, log: silentLogger }
    const state = new ClusterState({ ...shared, agentNamespace: NAMESPACE })
    state.start()
    await state.synced
    const turn = new AbortController()
    const events = { record: () => {} }
    const options = { ...shared, state, events, nodeGraceMs: NODE_GRACE_MS }
    const ended = control(options, turn.signal)
    this.#turn = {
      end: async () => {
        turn.abort()
        await Promise.all([ended, state.close()])
      },
    }
  }

  /** Ends the turn of the controller. */
  async step(): Promise<void> {
    const turn = this.#turn
    this.#turn = undefined
    if (turn !== undefined) await this.#finish(turn.end())
  }

  find(devicesOf: (name: string, index: number) => DeviceLists): void {
    for (const [index, { name, devices }] of this.#nodes.entries())
      devices.find(devicesOf(name, index))
  }

  /** Takes the agent off a node, which stays. */
  async takeOff(name: string): Promise<void> {
    const index = this.#nodes.findIndex((node) => node.name === name)
    for (const node of this.#nodes.splice(index, 1)) await this.#finish(node.end())
    this.#server.store.remove(podPath(name))
  }

  /** The shared Instances, with their nodes. */
  shared(): { readonly uid: string; readonly nodes: readonly string[] }[] {
    return [...this.#server.objects(INSTANCES).values()]
      .filter(isShared)
      .map((object) => ({ uid: object.metadata.uid, nodes: nodesOf(object) }))
  }

  /** The nodes that have a report. */
  reports(): string[] {
    return [...this.#server.objects(REPORTS).values()].map(({ metadata }) => String(metadata.name))
  }

  /** @throws if the condition does not hold within ten minutes, or within the limit */
  runUntil(isOver: () => boolean, limitMs = LIMIT_MS): Promise<number> {
    return this.#clock.runUntil(isOver, limitMs)
  }

  /** Lets time pass. @param look called at each step */
  async run(ms: number, look: () => void = () => {}): Promise<void> {
    const end = this.#clock.monotonicMs() + ms
    void this.#clock.sleep(ms)
    await this.#clock.runUntil(() => {
      look()
      return this.#clock.monotonicMs() >= end
    }, ms)
  }

  /** What a change costs until these Instances are there, with all their nodes. */
  async cost(work: () => Promise<void> | void, count: InstanceCount): Promise<ChangeCost> {
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
    const rightMs = await this.runUntil(isRight)
    let requests = -1
    let lastAt = this.#clock.monotonicMs()
    await this.runUntil(() => {
      const now = this.#clock.monotonicMs()
      const total = requestsOf(this.#agents) + requestsOf(this.#controller)
      if (total !== requests) lastAt = now
      requests = total
      return now - lastAt >= QUIET_MS
    })
    return {
      agents: structuredClone(this.#agents),
      controller: structuredClone(this.#controller),
      rightMs,
      quietMs: lastAt - begun,
    }
  }

  /** What agents and the controller ask for while nothing changes. */
  async idle(ms: number): Promise<Readonly<Record<string, number>>[]> {
    for (const counts of [this.#agents, this.#controller]) Object.assign(counts, noCounts())
    await this.run(ms)
    return [this.#agents, this.#controller].map(({ requests }) => requests)
  }

  async close(): Promise<void> {
    this.#stop.abort()
    await this.step()
    await this.#finish(Promise.all(this.#nodes.map((node) => node.end())))
    rmSync(this.#directory, { recursive: true, force: true })
  }

  /** Lets time pass until the work is done. */
  async #finish(work: Promise<unknown>): Promise<void> {
    let isDone = false
    const done = () => {
      isDone = true
    }
    work.then(done, done)
    await this.runUntil(() => isDone)
    await work
  }

  #isRight(count: InstanceCount): boolean {
    const total = Object.values(count).reduce((sum, number) => sum + number, 0)
    if (this.#server.objects(INSTANCES).size !== total) return false
    if (this.#nodes.length !== this.#size) return false
    // At each step of the clock: the first Instance that lacks a node is enough.
    for (const object of this.#server.objects(INSTANCES).values())
      if (isShared(object) && nodesOf(object).length !== this.#size) return false
    return [...this.#server.objects(CONFIGURATIONS).values()].every((object) => {
      const status = fieldOf(object, 'status')
      return (
        fieldOf(status, 'devices') === (count[String(object.metadata.name)] ?? 0) &&
        valueAt(status, 'nodeCounts', 'ready') === this.#size
      )
    })
  }

  #putNode(name: string): void {
    const ready = { type: 'Ready', status: 'True' }
    this.#server.store.put(`/api/v1/nodes/${name}`, { status: { conditions: [ready] } })
    this.#server.store.put(podPath(name), {
      metadata: { labels: { 'app.kubernetes.io/name': 'akri-agent' } },
      spec: { nodeName: name },
      status: { phase: 'Running', conditions: [ready] },
    })
  }

  async #startAgent(name: string): Promise<void> {
    const directory = path.join(this.#directory, name)
    mkdirSync(directory)
    const node = name as NodeName
    const shared = { clock: this.#clock, log: silentLogger, node }
    const client = this.#server.client(this.#agents)
    const cluster = new KubernetesCluster({
      ...shared,
      client,
      agentPod: agentPod(name),
      agentNamespace: NAMESPACE,
    })
    cluster.start()
    const devices = new CommandedDevices()
    const agent = await startAgent({
      ...shared,
      cluster,
      kubelet: silentKubelet(path.join(directory, 'p')),
      handlersDirectory: path.join(directory, 'h'),
      checkpointFile: path.join(directory, 'c.json'),
      bounds: BOUNDS,
      embedded: (['benchLocal', 'benchShared'] as const).map((handler) => ({
        name: handler,
        load: async () => devices.handler(handler),
      })),
    })
    const end = async () => {
      await agent.close()
      await cluster.close()
    }
    this.#nodes.push({ name, devices, end })
  }
}

const podPath = (node: string) => `/api/v1/namespaces/${NAMESPACE}/pods/${agentPod(node)}`

const isShared = (instance: StoredObject) => valueAt(instance, 'spec', 'shared') === true

function nodesOf(instance: StoredObject): string[] {
  const nodes = valueAt(instance, 'spec', 'nodes')
  return Array.isArray(nodes) ? nodes.map(String) : []
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

export function requestsOf({ requests }: ServerCounts): number {
  return Object.values(requests).reduce((total, count) => total + count, 0)
}
