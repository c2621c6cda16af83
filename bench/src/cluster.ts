// The agent on a real Kubernetes, beside the API server's and the kubelet's own share.

import { readdirSync, statSync } from 'node:fs'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { type AllocateResponse, DevicePluginClient } from '@akrijs/proto/device-plugin'
import { systemClock } from '@akrijs/runtime'
import { credentials, Metadata } from '@grpc/grpc-js'
import { NodeAgent } from '../../test/e2e/support/node-agent.js'
import { access, missingHere, NODE_1 } from '../../test/e2e/support/nodes.js'
import { container, echoYaml, eventually, podYaml, World } from '../../test/e2e/support/world.js'
import { openBarePlugins, pluginDirectory } from './bare-plugins.js'
import { nodeAlone } from './node-alone.mjs'
import { type Figure, percentile } from './table.mjs'

const NODE = NODE_1
const PORT = 19_391
const ALLOCATED_DEVICES = 50
/** The number of rounds, each with new Instances. */
const BATCHES = 4
/** The figures of all rounds. */
const ROUNDS_PER_DEVICE = 12
const WARM_UP_ROUNDS = 2
const SETTLE_MS = 30
const PODS = 10
const WARM_STARTS = 7

/** Empty if there is no Kubernetes for tests. */
export async function measure(): Promise<Figure[]> {
  const lacks = missingHere()
  if (lacks !== undefined) {
    process.stdout.write(`without the figures of a cluster: ${lacks}\n`)
    return []
  }
  const world = await World.open()
  const agent = await NodeAgent.create(NODE, {
    METRICS_PORT: String(PORT),
    NODE_OPTIONS: '--max-semi-space-size=2',
    LOG_LEVEL: 'warn',
  })
  await agent.start()
  try {
    return [
      ...(await measureAllocate(world)),
      ...(await measureRelease(world)),
      ...(await measureRestarts(world, agent)),
      ...(await measureWrites(world)),
    ]
  } finally {
    await world.close()
    await agent.dispose()
  }
}

/** Allocate of one slot, beside one bare PATCH to the same API server. */
async function measureAllocate(world: World): Promise<Figure[]> {
  const bare: number[] = []
  const ours: number[] = []
  for (let batch = 0; batch < BATCHES; batch++) await allocateBatch(world, batch, { bare, ours })
  const figure = (what: string, share: number, times: number): Figure => {
    const peer = percentile(bare, share)
    return {
      what,
      value: percentile(ours, share),
      unit: 'ms',
      budget: Math.round(peer * times * 10) / 10,
      peer: { name: 'a bare PATCH', value: peer },
    }
  }
  return [
    figure('Allocate of one slot, median', 0.5, 2),
    figure('Allocate of one slot, p99', 0.99, 1.5),
  ]
}

/** In turns, each with a slot of its own: an agent restores a claim that another writer removed. */
async function allocateBatch(
  world: World,
  batch: number,
  { bare, ours }: { bare: number[]; ours: number[] },
): Promise<void> {
  // One more container, which is not measured.
  const capacity = 2 * ROUNDS_PER_DEVICE + 1
  // New slots: for a slot that it has allocated before, the agent writes nothing.
  const descriptions = Array.from(
    { length: ALLOCATED_DEVICES },
    (_, index) => `device-${batch}-${index}`,
  )
  await world.apply(echoYaml('bench', descriptions, capacity))
  await eventually(async () =>
    equal(await world.allocatable(NODE, 'akri.sh/bench'), ALLOCATED_DEVICES),
  )
  const names = (await world.instances()).map(({ metadata }) => metadata.name)
  // The kubelet does not list the devices of an init container. While it runs, the agent releases
  // nothing that it could hold.
  await world.apply(
    initPodYaml('holder', Object.fromEntries(names.map((name) => [`akri.sh/${name}`, 1]))),
  )
  await eventually(async () => equal((await world.holders()).length, names.length))
  const usage = await world.usage()
  const free = names.map((name) =>
    Array.from({ length: capacity }, (_, index) => `${name}-${index}`).filter(
      (slot) => usage[slot] === '',
    ),
  )
  const directory = pluginDirectory(NODE)
  const clients = names.map((name) => {
    const socket = readdirSync(directory).find((file) => file.startsWith(`akri-${name}`)) ?? ''
    return new DevicePluginClient(
      `unix:${path.join(directory, socket)}`,
      credentials.createInsecure(),
    )
  })
  const allocate = (device: number, slot: number) =>
    new Promise<AllocateResponse>((resolve, reject) => {
      const request = { containerRequests: [{ devicesIDs: [free[device]?.[slot] ?? ''] }] }
      clients[device]?.allocate(request, new Metadata(), (error, response) =>
        error ? reject(error) : resolve(response),
      )
    })
  const patch = (device: number, slot: number) => {
    const path = `/spec/deviceUsage/${free[device]?.[slot]}`
    return world.api('Instance').patch(world.key(names[device] ?? ''), 'json', [
      { op: 'test', path, value: '' },
      { op: 'replace', path, value: 'somebody' },
    ])
  }
  for (let round = 0; round < ROUNDS_PER_DEVICE; round++) {
    // The first requests open connections and warm up. They are of another kind.
    const [bareOf, oursOf] = round < WARM_UP_ROUNDS ? [[], []] : [bare, ours]
    for (const device of names.keys()) {
      bareOf.push(await timed(() => patch(device, ROUNDS_PER_DEVICE + round)))
      // Everything that one request triggers in agent and kubelet is over before the next request.
      await systemClock.sleep(SETTLE_MS)
      oursOf.push(await timed(() => allocate(device, round)))
      await systemClock.sleep(SETTLE_MS)
    }
  }
  for (const client of clients) client.close()
  await world.clear()
}

/** A Pod whose init container asks for resources and sleeps. */
function initPodYaml(name: string, limits: Readonly<Record<string, number>>): string {
  const pod = JSON.parse(podYaml(name, {}, { node: NODE }))
  return JSON.stringify({ ...pod, spec: { ...pod.spec, initContainers: [container('i', limits)] } })
}

/** The time between the end of a Pod's object and its free slot. */
async function measureRelease(world: World): Promise<Figure[]> {
  await world.apply(echoYaml('bench', ['foo0'], 1))
  await eventually(async () => equal(await world.allocatable(NODE, 'akri.sh/bench-8120fe'), 1))
  const times: number[] = []
  for (let round = 0; round < PODS; round++) {
    const name = `p${round}`
    await world.apply(podYaml(name, { 'akri.sh/bench-8120fe': 1 }, { node: NODE }))
    await eventually(async () =>
      equal(
        (await world.pods()).find(({ metadata }) => metadata.name === name)?.status.phase,
        'Running',
      ),
    )
    await world.remove('Pod', name)
    while ((await world.get('Pod', name)) !== undefined) await systemClock.sleep(10)
    const gone = performance.now()
    while ((await world.usage())['bench-8120fe-0'] !== '') await systemClock.sleep(10)
    times.push(performance.now() - gone)
  }
  await world.clear()
  const peer = { name: 'the existing system, at best', value: 20_000 }
  return [
    {
      what: 'Pod gone to slot free, slowest of ten',
      value: Math.max(...times),
      unit: 'ms',
      budget: 2000,
      peer,
    },
  ]
}

/**
 * The time between the kubelet's new socket and the registration of all plugins, and the same after
 * the start of a killed agent.
 */
async function measureRestarts(world: World, agent: NodeAgent): Promise<Figure[]> {
  const descriptions = Array.from({ length: 20 }, (_, index) => `device-${index}`)
  await world.apply(echoYaml('bench', descriptions, 1))
  await eventually(async () => equal(await world.allocatable(NODE, 'akri.sh/bench'), 20))
  const plugins = 21
  // First, because a newly started kubelet is busy, and the figure would include that.
  const starts: number[] = []
  for (let round = 0; round < WARM_STARTS; round++) {
    await agent.stop('SIGKILL')
    const begun = performance.now()
    await agent.start()
    // A client that polls more often takes CPU time from the kubelet.
    while ((await registrations()) < plugins) await systemClock.sleep(25)
    starts.push(performance.now() - begun)
  }

  const registered = await registrations()
  await restartKubelet()
  const again = await timed(async () => {
    while ((await registrations()) < registered + plugins) await systemClock.sleep(5)
  })
  await agent.stop()
  // The peer has done so once before, as the agent has.
  const registerBare = async () => (await openBarePlugins(NODE, plugins)).close()
  await registerBare()
  await restartKubelet()
  const bare = await timed(registerBare)
  await agent.start()
  await world.clear()
  const { startMs } = await nodeAlone()
  return [
    {
      what: 'kubelet restart to 21 plugins registered',
      value: again,
      unit: 'ms',
      budget: 2000,
      peer: { name: '21 bare plugins', value: bare },
    },
    {
      what: 'agent start, warm, to 20 devices offered in a cluster, median',
      value: percentile(starts, 0.5),
      unit: 'ms',
      budget: 1000,
      peer: { name: 'Node alone', value: startMs },
    },
  ]
}

/** Resolves when the new kubelet has created its socket. */
async function restartKubelet(): Promise<void> {
  const identity = () => {
    try {
      const { ino, ctimeMs } = statSync(path.join(pluginDirectory(NODE), 'kubelet.sock'))
      return `${ino} ${ctimeMs}`
    } catch {
      return undefined
    }
  }
  const before = identity()
  await access.killKubelet(NODE)
  while (identity() === undefined || identity() === before) await systemClock.sleep(5)
}

/** What the agent writes while nothing changes. */
async function measureWrites(world: World): Promise<Figure[]> {
  const devices = 1000
  const descriptions = Array.from({ length: devices }, (_, index) => `device-${index}`)
  await world.apply(echoYaml('bench', descriptions, 1))
  const areOffered = async () => equal(await world.allocatable(NODE, 'akri.sh/bench'), devices)
  await eventually(areOffered, 300_000)
  // Statuses are written by now.
  await systemClock.sleep(10_000)
  const before = await requests()
  await systemClock.sleep(60_000)
  return [
    {
      what: `API writes in a minute with ${devices} devices`,
      value: (await requests()) - before,
      unit: '',
      budget: 0,
      peer: { name: 'the existing system, every 600 s all', value: (devices * 2) / 10 },
    },
  ]
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

const registrations = () =>
  counter(/^akri_plugin_registrations_total\{result="accepted"\} (\d+)$/gm)
const requests = () =>
  counter(/^akri_api_requests_total\{method="(?:POST|PUT|PATCH|DELETE)",status="\d+"\} (\d+)$/gm)

/** The sum of the agent's metrics with these names; 0 while the agent does not answer. */
async function counter(pattern: RegExp): Promise<number> {
  try {
    const text = await (await fetch(`http://127.0.0.1:${PORT}/metrics`)).text()
    return [...text.matchAll(pattern)].reduce((sum, [, value]) => sum + Number(value), 0)
  } catch {
    return 0
  }
}

function equal(a: unknown, b: unknown): void {
  if (a !== b) throw new TypeError(`${String(a)} is not ${String(b)}`)
}
