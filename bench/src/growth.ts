// The cost of a device for all agents of a cluster, by the number of agents.

import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import { INSTANCES } from '@akrijs/api'
import { Resource } from '@akrijs/kube'
import { fieldOf, systemClock, valueAt } from '@akrijs/runtime'
import { missingHere } from '../../test/e2e/support/nodes.js'
import { eventually, type InstanceState, World } from '../../test/e2e/support/world.js'
import { BenchNodes } from './bench-nodes.js'
import { exponentOf } from './exponent.js'
import { bundleTypeScript } from './load-typescript.mjs'
import { BenchProcess } from './processes/bench-process.js'
import type { Allocatable, BenchNode, DeviceLists, SlotOfNode } from './processes/protocol.js'
import type { RequestCounts } from './processes/request-meter.js'
import { type Figure, percentile, printRows } from './table.mjs'

const SIZES = [10, 20, 40]
const AGENTS_OF_PROCESS = 5
const ROUNDS = 3
const SHARED_DEVICES = 20
const SHARED_SLOTS = 3
const LOCAL_DEVICES = 10
/** After so long without a request and without an event of a watch, the cluster is quiet. */
const QUIET_MS = 3000
const POLL_MS = 50
const SETTLE_LIMIT_MS = 600_000
const CLAIMING_AGENTS = 10
const CLAIM_ROUNDS = 12
const CONTROLLER = 'controller/dist/akri-controller.js'

const CHANGES = [
  'a shared device appears',
  'a shared device disappears',
  'a local device appears',
] as const

type Change = (typeof CHANGES)[number]

interface Cost {
  readonly agents: RequestCounts
  readonly controller: RequestCounts
  readonly rightSeconds: number
  readonly quietSeconds: number
}

/** Empty if there is no Kubernetes for tests. */
export async function measure(): Promise<Figure[]> {
  const lacks = missingHere()
  if (lacks !== undefined) {
    process.stdout.write(`without the figures of growth: ${lacks}\n`)
    return []
  }
  const growth = await Growth.open()
  const costs = new Map<number, Record<Change, Cost>>()
  let claims: Figure[] = []
  try {
    for (const size of SIZES) {
      await growth.growTo(size)
      if (size === CLAIMING_AGENTS) claims = await growth.measureClaims()
      costs.set(size, await growth.measureChanges())
      printCosts(costs)
    }
  } finally {
    await growth.close()
  }
  return [...figuresOf(costs), ...claims]
}

/** A cluster that grows: nodes, their agents, and a controller. */
class Growth {
  readonly #world: World
  readonly #nodes: BenchNodes
  readonly #directory = mkdtempSync(path.join(os.tmpdir(), 'akri-g'))
  readonly #agents: BenchProcess[] = []
  readonly #controller: BenchProcess
  readonly #bundle: string
  readonly #names: string[] = []
  readonly #shared = Array.from({ length: SHARED_DEVICES }, (_, index) => `camera-${index}`)
  #nextDevice = SHARED_DEVICES

  private constructor(world: World, controllerBundle: string, bundle: string) {
    this.#world = world
    this.#nodes = new BenchNodes(world)
    this.#bundle = bundle
    const flags = ['--identity=bench', `--lease-namespace=${world.namespace}`]
    this.#controller = new BenchProcess(controllerBundle, [path.resolve(CONTROLLER), ...flags], {
      METRICS_PORT: '0',
    })
  }

  static async open(): Promise<Growth> {
    const [controller, agents] = await Promise.all([
      bundleTypeScript('bench/src/processes/controller-process.ts'),
      bundleTypeScript('bench/src/processes/agents-process.ts'),
    ])
    const world = await World.open()
    const growth = new Growth(world, controller, agents)
    await eventually(() => {
      if (!growth.#controller.log.includes('this replica leads'))
        throw new Error(`the controller does not lead: ${growth.#controller.log}`)
    })
    await growth.#apply('shared', 'benchShared', SHARED_SLOTS)
    await growth.#apply('local', 'benchLocal', 1)
    return growth
  }

  async close(): Promise<void> {
    await Promise.all(this.#agents.map((agents) => agents.stop()))
    await this.#world.close()
    await this.#nodes.close()
    await this.#controller.stop()
    rmSync(this.#directory, { recursive: true, force: true })
  }

  /** Adds agents, five at a time, and waits until all is right and quiet. */
  async growTo(size: number): Promise<void> {
    const begun = Date.now()
    while (this.#names.length < size) {
      const names = Array.from(
        { length: AGENTS_OF_PROCESS },
        (_, index) => `bench-node-${String(this.#names.length + index).padStart(2, '0')}`,
      )
      await this.#nodes.add(names)
      const agents = new BenchProcess(this.#bundle)
      this.#agents.push(agents)
      this.#names.push(...names)
      await agents.ask(
        'start',
        names.map((name) => this.#benchNode(name)),
      )
    }
    await this.#untilRight(() => this.#problemOfShared('shared', this.#shared, SHARED_SLOTS))
    await this.#untilRight(() => this.#problemOfLocal(0))
    await this.#untilQuiet()
    const seconds = ((Date.now() - begun) / 1000).toFixed(0)
    process.stdout.write(`${size} agents are right and quiet after ${seconds} s\n`)
  }

  async measureChanges(): Promise<Record<Change, Cost>> {
    const rounds: Record<Change, Cost>[] = []
    for (let round = 0; round < ROUNDS; round++) {
      const added = `camera-${this.#nextDevice++}`
      const before = this.#shared
      const more = [...before, added]
      const appears = await this.#cost(
        () => this.#find(this.#names, { shared: more }),
        () => this.#problemOfShared('shared', more, SHARED_SLOTS),
      )
      const disappears = await this.#cost(
        () => this.#find(this.#names, { shared: before }),
        () => this.#problemOfShared('shared', before, SHARED_SLOTS),
      )
      rounds.push({
        'a shared device appears': appears,
        'a shared device disappears': disappears,
        'a local device appears': await this.#costOfLocal(),
      })
    }
    return Object.fromEntries(
      CHANGES.map((change) => [change, medianCost(rounds.map((round) => round[change]))]),
    ) as Record<Change, Cost>
  }

  /** Many agents claim slots of one Instance at once, in turns with bare patches of another. */
  async measureClaims(): Promise<Figure[]> {
    const capacity = CLAIM_ROUNDS * CLAIMING_AGENTS
    const cameras = ['ours', 'bare']
    await this.#apply('claims', 'benchShared', capacity)
    await this.#find(this.#names, { claims: cameras })
    await this.#untilRight(() => this.#problemOfShared('claims', cameras, capacity))
    await this.#untilQuiet()
    const [ours = '', bare = ''] = (await this.#instances('claims')).map(
      ({ metadata }) => metadata.name,
    )
    const times: { ours: number[]; bare: number[] } = { ours: [], bare: [] }
    for (let round = 0; round < CLAIM_ROUNDS; round++) {
      times.bare.push(...(await this.#claim('patch', bare, round)))
      await this.#untilSilent(200)
      times.ours.push(...(await this.#claim('allocate', ours, round)))
      await this.#untilSilent(200)
    }
    await this.#world.remove('Configuration', 'claims')
    await this.#untilRight(async () => {
      const left = (await this.#instances('claims')).length
      return left > 0 ? `${left} Instances are left` : undefined
    })
    await this.#untilQuiet()
    const peer = percentile(times.bare, 0.99)
    return [
      {
        what: `Allocate, ${CLAIMING_AGENTS} agents claim slots of 1 Instance at once, p99`,
        value: percentile(times.ours, 0.99),
        unit: 'ms',
        budget: Math.round(peer * 30) / 10,
        peer: { name: 'a bare PATCH', value: peer },
      },
    ]
  }

  #apply(name: string, handler: string, capacity: number): Promise<void> {
    return this.#world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name },
        spec: { discoveryHandler: { name: handler, discoveryDetails: name }, capacity },
      }),
    )
  }

  #benchNode(name: string): BenchNode {
    const local = Array.from({ length: LOCAL_DEVICES }, (_, index) => `${name}-disk-${index}`)
    const directory = path.join(this.#directory, name.slice(-2))
    return { name, directory, devices: { shared: this.#shared, local } }
  }

  async #find(nodes: readonly string[], devices: DeviceLists): Promise<void> {
    await Promise.all(this.#agents.map((agents) => agents.ask('find', { nodes, devices })))
  }

  /** One device more on the first node. */
  async #costOfLocal(): Promise<Cost> {
    const name = this.#names[0] ?? ''
    const { local = [] } = this.#benchNode(name).devices
    const cost = await this.#cost(
      () => this.#find([name], { local: [...local, `${name}-new`] }),
      () => this.#problemOfLocal(1),
    )
    await this.#find([name], { local })
    await this.#untilRight(() => this.#problemOfLocal(0))
    await this.#untilQuiet()
    return cost
  }

  async #claim(how: 'patch' | 'allocate', instance: string, round: number): Promise<number[]> {
    const slots = this.#names.slice(0, CLAIMING_AGENTS).map((node, index): SlotOfNode => {
      const slot = `${instance}-${round * CLAIMING_AGENTS + index}`
      return { node, namespace: this.#world.namespace, instance, slot }
    })
    const times = await Promise.all(
      this.#agents.map((agents, index) => {
        const first = index * AGENTS_OF_PROCESS
        return agents.ask(how, slots.slice(first, first + AGENTS_OF_PROCESS))
      }),
    )
    return times.flat()
  }

  /** Changes the cluster, and counts what that costs until the cluster is quiet. */
  async #cost(
    change: () => Promise<void>,
    findProblem: () => Promise<string | undefined>,
  ): Promise<Cost> {
    const [agents, controller] = await this.#counts()
    const begun = Date.now()
    await change()
    await this.#untilRight(findProblem)
    const rightSeconds = (Date.now() - begun) / 1000
    await this.#untilQuiet()
    const [agentsAfter, controllerAfter] = await this.#counts()
    const lastAt = Math.max(agentsAfter.lastAt, controllerAfter.lastAt)
    return {
      agents: difference(agentsAfter, agents),
      controller: difference(controllerAfter, controller),
      rightSeconds,
      quietSeconds: Math.max(lastAt - begun, 0) / 1000,
    }
  }

  /** @returns the sum of all agents, and the controller */
  async #counts(): Promise<[RequestCounts, RequestCounts]> {
    const counts = Promise.all(this.#agents.map((agents) => agents.ask('counts')))
    return [(await counts).reduce(sum), await this.#controller.ask('counts')]
  }

  async #untilRight(findProblem: () => Promise<string | undefined>): Promise<void> {
    await eventually(async () => {
      const problem = await findProblem()
      if (problem !== undefined) throw new Error(`${problem}\n${this.#agents[0]?.log}`)
    }, SETTLE_LIMIT_MS)
  }

  #untilQuiet(): Promise<void> {
    return this.#untilSilent(QUIET_MS)
  }

  async #untilSilent(ms: number): Promise<void> {
    const end = Date.now() + SETTLE_LIMIT_MS
    while (Date.now() < end) {
      const [agents, controller] = await this.#counts()
      if (Date.now() - Math.max(agents.lastAt, controller.lastAt) >= ms) return
      await systemClock.sleep(POLL_MS)
    }
    throw new Error('the cluster is never quiet')
  }

  /** Each node must be in each Instance and offer it, and the status must count it. */
  async #problemOfShared(
    name: string,
    ids: readonly string[],
    slots: number,
  ): Promise<string | undefined> {
    const devices = ids.length
    const problem =
      (await this.#problemOfStatus(name, devices, devices * slots, () => devices)) ??
      (await this.#problemOfOffers(name, () => devices, slots))
    if (problem !== undefined) return problem
    const instances = await this.#instances(name)
    if (instances.length !== devices) return `${name} has ${instances.length} Instances`
    const few = instances.find(({ spec }) => spec.nodes.length !== this.#names.length)
    return few && `${few.metadata.name} has ${few.spec.nodes.length} nodes`
  }

  /** @param more how many local devices the first node has besides those of its start */
  async #problemOfLocal(more: number): Promise<string | undefined> {
    const devices = this.#names.length * LOCAL_DEVICES + more
    const devicesOf = (node: string) => LOCAL_DEVICES + (node === this.#names[0] ? more : 0)
    return (
      (await this.#problemOfStatus('local', devices, devices, devicesOf)) ??
      (await this.#problemOfOffers('local', devicesOf, 1))
    )
  }

  async #problemOfStatus(
    name: string,
    devices: number,
    slots: number,
    devicesOf: (node: string) => number,
  ): Promise<string | undefined> {
    const status = fieldOf(await this.#world.get('Configuration', name), 'status')
    const problem = (what: string, value: unknown) =>
      `${what} in the status of ${name}: ${JSON.stringify(value)}`
    const conditions = fieldOf(status, 'conditions')
    const isReady =
      Array.isArray(conditions) &&
      conditions.some((of) => fieldOf(of, 'type') === 'Ready' && fieldOf(of, 'status') === 'True')
    if (!isReady) return problem('conditions', conditions)
    if (fieldOf(status, 'devices') !== devices)
      return problem('devices', fieldOf(status, 'devices'))
    const total = valueAt(status, 'slots', 'total')
    if (total !== slots) return problem('slots', total)
    const counts = fieldOf(status, 'nodeCounts')
    if (counts !== undefined)
      return fieldOf(counts, 'ready') === this.#names.length ? undefined : problem('nodes', counts)
    const nodes = fieldOf(status, 'nodes')
    const wrong = this.#names.find((node) => valueAt(nodes, node, 'devices') !== devicesOf(node))
    return wrong && problem(wrong, fieldOf(nodes, wrong))
  }

  async #problemOfOffers(
    name: string,
    devicesOf: (node: string) => number,
    slots: number,
  ): Promise<string | undefined> {
    for (const [node, offered] of Object.entries(await this.#allocatable())) {
      const devices = devicesOf(node)
      const ofInstances = Object.entries(offered).filter(
        ([resource, ids]) => resource.startsWith(`akri.sh/${name}-`) && ids > 0,
      )
      if (offered[`akri.sh/${name}`] !== devices || ofInstances.length !== devices)
        return `offers of ${node}: ${JSON.stringify(offered)}`
      const wrong = ofInstances.find(([, ids]) => ids !== slots)
      if (wrong !== undefined) return `offer of ${node}: ${wrong.join(' ')}`
    }
    return undefined
  }

  async #allocatable(): Promise<Allocatable> {
    const parts = await Promise.all(this.#agents.map((agents) => agents.ask('allocatable')))
    return Object.assign({}, ...parts)
  }

  async #instances(configuration: string): Promise<InstanceState[]> {
    const all = await this.#world.client.request({
      method: 'GET',
      path: new Resource(this.#world.client, INSTANCES).path(this.#world.namespace),
    })
    const items = fieldOf(all, 'items') as InstanceState[]
    return items.filter(({ spec }) => spec.configurationName === configuration)
  }
}

function sum(a: RequestCounts, b: RequestCounts): RequestCounts {
  return { ...combine(a, b, (x, y) => x + y), lastAt: Math.max(a.lastAt, b.lastAt) }
}

function difference(after: RequestCounts, before: RequestCounts): RequestCounts {
  return combine(after, before, (x, y) => x - y)
}

function combine(
  a: RequestCounts,
  b: RequestCounts,
  of: (x: number, y: number) => number,
): RequestCounts {
  const verbs = [...new Set([...Object.keys(a.verbs), ...Object.keys(b.verbs)])]
  return {
    verbs: Object.fromEntries(
      verbs.map((verb) => [verb, of(a.verbs[verb] ?? 0, b.verbs[verb] ?? 0)]),
    ),
    refused: of(a.refused, b.refused),
    events: of(a.events, b.events),
    received: of(a.received, b.received),
    sent: of(a.sent, b.sent),
    lastAt: a.lastAt,
    cpu: of(a.cpu, b.cpu),
  }
}

const requestsOf = ({ verbs }: RequestCounts) =>
  Object.values(verbs).reduce((total, count) => total + count, 0)
const megabytesOf = ({ received, sent }: RequestCounts) => (received + sent) / 1e6

/** The round in the middle by its requests, with the medians of the times. */
function medianCost(costs: readonly Cost[]): Cost {
  const sorted = costs.toSorted((a, b) => requestsOf(a.agents) - requestsOf(b.agents))
  const middle = sorted[Math.floor(sorted.length / 2)]
  if (middle === undefined) throw new TypeError('there are no rounds')
  const median = (of: (cost: Cost) => number) => percentile(costs.map(of), 0.5)
  return {
    ...middle,
    rightSeconds: median(({ rightSeconds }) => rightSeconds),
    quietSeconds: median(({ quietSeconds }) => quietSeconds),
  }
}

function printCosts(costs: ReadonlyMap<number, Record<Change, Cost>>): void {
  const verbs = ['get', 'create', 'update', 'patch', 'delete']
  const header = ['agents', 'change', 'requests', ...verbs, 'refused', 'events', 'MB', 'CPU s']
  const ofController = ['controller: requests', 'MB', 'CPU s']
  const rows = [...costs].flatMap(([size, changes]) =>
    CHANGES.map((change) => {
      const { agents, controller, rightSeconds, quietSeconds } = changes[change]
      return [
        size,
        change,
        requestsOf(agents),
        ...verbs.map((verb) => agents.verbs[verb] ?? 0),
        agents.refused,
        agents.events,
        megabytesOf(agents).toFixed(2),
        agents.cpu.toFixed(2),
        requestsOf(controller),
        megabytesOf(controller).toFixed(2),
        controller.cpu.toFixed(2),
        rightSeconds.toFixed(1),
        quietSeconds.toFixed(1),
      ].map(String)
    }),
  )
  printRows([[...header, ...ofController, 'right s', 'quiet s'], ...rows])
}

function figuresOf(costs: ReadonlyMap<number, Record<Change, Cost>>): Figure[] {
  const figures: Figure[] = []
  const [least = 0] = SIZES
  const most = SIZES.at(-1) ?? 0
  for (const change of ['a shared device appears', 'a shared device disappears'] as const) {
    const cost = costs.get(most)?.[change]
    if (cost === undefined) continue
    const { agents, rightSeconds } = cost
    const figure = (what: string, value: number, unit: string, budget: number) =>
      figures.push({ what: `${change}, ${what}`, value, unit, budget })
    const exponent = (of: (counts: RequestCounts) => number) =>
      exponentOf([...costs].map(([size, changes]) => [size, of(changes[change].agents)]))
    figure(`requests of ${most} agents`, requestsOf(agents), '', 100)
    figure(`requests of ${most} agents that were refused`, agents.refused, '', 10)
    figure(`traffic of ${most} agents`, megabytesOf(agents), 'MB', 5)
    figure(`${most} agents: time until all is right`, rightSeconds, 's', 5)
    figure('growth of requests: exponent', exponent(requestsOf), '', 1.1)
    figure('growth of traffic: exponent', exponent(megabytesOf), '', 2)
  }
  const local = (size: number) => costs.get(size)?.['a local device appears'].agents
  const [few, many] = [local(least), local(most)]
  if (few === undefined || many === undefined) return figures
  figures.push({
    what: `a local device appears, requests of ${most} agents`,
    value: requestsOf(many),
    unit: '',
    budget: requestsOf(few) + 1,
    peer: { name: `with ${least} agents`, value: requestsOf(few) },
  })
  figures.push({
    what: `a local device appears, traffic of each of ${most} agents`,
    value: (megabytesOf(many) * 1000) / most,
    unit: 'kB',
    budget: (megabytesOf(few) * 1100) / least,
    peer: { name: `with ${least} agents`, value: (megabytesOf(few) * 1000) / least },
  })
  return figures
}
