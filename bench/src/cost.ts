// What an agent, a controller and a webhook cost on a real Kubernetes: memory, CPU and requests.

import { readdirSync, readFileSync } from 'node:fs'
import { Agent, request } from 'node:https'
import path from 'node:path'
import { performance } from 'node:perf_hooks'
import { DevicePluginClient } from '@akrijs/proto/device-plugin'
import { systemClock } from '@akrijs/runtime'
import { credentials, Metadata } from '@grpc/grpc-js'
import { accessOfCluster } from '../../test/cluster/support/client.js'
import { Account } from '../../test/e2e/support/account.js'
import { HostController } from '../../test/e2e/support/host-controller.js'
import { NodeAgent } from '../../test/e2e/support/node-agent.js'
import { access, missingHere, NODE_1 } from '../../test/e2e/support/nodes.js'
import { echoYaml, eventually, World } from '../../test/e2e/support/world.js'
import { HostWebhook } from '../../test/e2e/webhook/host-webhook.js'
import { AuditLog } from './audit-log.js'
import { BarePlugin } from './bare-plugin.js'
import { type Memory, memoryOf } from './memory.mjs'
import { nodeAlone } from './node-alone.mjs'
import { type Figure, percentile, printRows } from './table.mjs'

const NODE = NODE_1
const IDLE_MS = 300_000
const SLOTS = 120
const ALLOCATIONS = 100
const SETTLE_MS = 30
const CONFIGURATIONS = 20
const REVIEWS = 200
/** The flags for V8 in deploy/manifests. */
const NODE_OPTIONS = '--max-semi-space-size=2 --max-old-space-size=224'
/** The variables of the image. */
const IMAGE = { MALLOC_TRIM_THRESHOLD_: '131072' }
/** The figures of the existing system in the same cluster, measured once beside ours. */
const EXISTING = 'the existing system'

/** Empty if there is no Kubernetes for tests. */
export async function measure(): Promise<Figure[]> {
  const lacks = missingHere()
  if (lacks !== undefined) {
    process.stdout.write(`without the figures of a cluster: ${lacks}\n`)
    return []
  }
  const world = await World.open()
  // As in a Pod: a kubeconfig takes memory that an agent of a node does not need.
  const account = await Account.create(world.client, 'agent', world.namespace)
  const { hostname, port } = (await accessOfCluster()).server
  const audit = await AuditLog.start(world)
  const agent = await NodeAgent.create(
    NODE,
    {
      ...IMAGE,
      LOG_LEVEL: 'warn',
      // No Pod has the slots: on a slow machine their releases would count as costs of Allocate.
      AKRI_SLOT_GRACE: '3600',
      NODE_OPTIONS,
      KUBECONFIG: '',
      KUBERNETES_SERVICE_HOST: hostname,
      KUBERNETES_SERVICE_PORT: port || '443',
    },
    { account: account.directory },
  )
  await agent.start()
  try {
    return [
      ...(await measureMemory(world, agent)),
      ...(await measureIdle(world, agent, audit)),
      ...(await measureAllocate(world, agent)),
      ...(await measureConfigurations(world)),
      ...(await measureReviews(world)),
    ]
  } finally {
    await agent.dispose()
    await account.dispose()
    await audit.end()
    await world.close()
  }
}

async function measureMemory(world: World, agent: NodeAgent): Promise<Figure[]> {
  const figures: Figure[] = []
  const rows = [['devices', 'RSS MB', 'PSS MB', 'not shared MB', 'dirty MB']]
  const row = (name: string, { resident, proportional, unshared, dirty }: Memory) =>
    rows.push([name, ...[resident, proportional, unshared, dirty].map((value) => value.toFixed(0))])
  row('Node alone', (await nodeAlone()).memory)
  for (const [count, budget, existing] of [
    [0, 20, 11],
    [100, 25, 19],
    [1000, 50, 81],
  ] as const) {
    await applyDevices(world, count)
    // Memory that only the start needed is free by now, and statuses are written.
    await systemClock.sleep(10_000)
    const memory = memoryOf(agent.pid)
    row(String(count), memory)
    figures.push({
      what: `memory of the agent (PSS) with ${count} devices`,
      value: memory.proportional,
      unit: 'MB',
      budget,
      peer: { name: EXISTING, value: existing },
    })
  }
  await world.clear()
  printRows(rows)
  return figures
}

async function measureIdle(world: World, agent: NodeAgent, audit: AuditLog): Promise<Figure[]> {
  const account = await Account.create(world.client, 'controller', world.namespace)
  const controller = new HostController('bench', world.namespace, {
    KUBECONFIG: account.kubeconfig,
  })
  await controller.lead()
  try {
    await applyDevices(world, 100)
    await systemClock.sleep(30_000)
    const [begun, cpuBefore] = [Date.now(), cpuSeconds(agent.pid)]
    await systemClock.sleep(IDLE_MS)
    const cpu = cpuSeconds(agent.pid) - cpuBefore
    const requests = audit.requestsBetween(begun, begun + IDLE_MS)
    printRows([['idle requests', 'number'], ...requests.map(([what, count]) => [what, `${count}`])])
    return [
      {
        what: 'CPU of the agent in 5 idle minutes, 100 devices',
        value: cpu,
        unit: 's',
        budget: 0.1,
        peer: { name: EXISTING, value: 0.05 },
      },
      {
        what: 'requests of agent and controller in 5 idle minutes',
        value: requests.reduce((sum, [, count]) => sum + count, 0),
        unit: '',
        budget: 60,
        peer: { name: EXISTING, value: 5 },
      },
    ]
  } finally {
    await controller.stop()
    await account.dispose()
    await world.clear()
  }
}

/**
 * One Instance with many slots, and beside it equal ones for bare patches and for a plugin that
 * does nothing else.
 */
async function measureAllocate(world: World, agent: NodeAgent): Promise<Figure[]> {
  await world.apply(echoYaml('bench', ['ours', 'bare', 'least'], SLOTS))
  await eventually(async () => equal(await world.allocatable(NODE, 'akri.sh/bench'), 3))
  const names = (await world.instances()).map(({ metadata }) => metadata.name)
  const [ours = '', bare = '', least = ''] = names
  const directory = path.join(access.kubeletDirectory(NODE), 'device-plugins')
  const socket = readdirSync(directory).find((file) => file.startsWith(`akri-${ours}`)) ?? ''
  const plugin = await BarePlugin.start(
    path.join(agent.directory, 'bare.sock'),
    `/apis/akri.sh/v0/namespaces/${world.namespace}/instances/${least}`,
  )
  const clientOf = (file: string) =>
    new DevicePluginClient(`unix:${file}`, credentials.createInsecure())
  const clients = { ours: clientOf(path.join(directory, socket)), least: clientOf(plugin.socket) }
  const allocate = (client: DevicePluginClient, id: string) =>
    new Promise((resolve, reject) => {
      client.allocate(
        { containerRequests: [{ devicesIDs: [id] }] },
        new Metadata(),
        (error, response) => (error ? reject(error) : resolve(response)),
      )
    })
  const patch = (slot: number) => {
    const pointer = `/spec/deviceUsage/${bare}-${slot}`
    return world.api('Instance').patch(world.key(bare), 'json', [
      { op: 'test', path: pointer, value: '' },
      { op: 'replace', path: pointer, value: 'somebody' },
    ])
  }
  const times: { ours: number[]; bare: number[] } = { ours: [], bare: [] }
  const cpu = { ours: 0, least: 0 }
  try {
    for (let slot = 0; slot < ALLOCATIONS; slot++) {
      times.bare.push(await timed(() => patch(slot)))
      await systemClock.sleep(SETTLE_MS)
      const before = cpuSeconds(agent.pid)
      times.ours.push(await timed(() => allocate(clients.ours, `${ours}-${slot}`)))
      // Everything that one request triggers in the agent is over before the next request.
      await systemClock.sleep(SETTLE_MS)
      cpu.ours += cpuSeconds(agent.pid) - before
      const leastBefore = cpuSeconds(plugin.pid)
      await allocate(clients.least, `${least}-${slot}`)
      await systemClock.sleep(SETTLE_MS)
      cpu.least += cpuSeconds(plugin.pid) - leastBefore
    }
  } finally {
    for (const client of Object.values(clients)) client.close()
    await plugin.stop()
    await world.clear()
  }
  const peer = percentile(times.bare, 0.5)
  return [
    {
      what: `Allocate, 1 Instance with ${SLOTS} slots, median`,
      value: percentile(times.ours, 0.5),
      unit: 'ms',
      budget: Math.round(peer * 13) / 10,
      peer: { name: 'a bare PATCH', value: peer },
    },
    {
      what: `CPU of the agent per ${ALLOCATIONS} Allocates`,
      value: cpu.ours,
      unit: 's',
      budget: 0.2,
      peer: { name: 'a plugin that only sends the PATCH', value: cpu.least },
    },
  ]
}

/** The time from the answer for a new Configuration to its Instance. */
async function measureConfigurations(world: World): Promise<Figure[]> {
  const times: number[] = []
  for (let round = 0; round < CONFIGURATIONS; round++) {
    const name = `new${round}`
    await world.apply(echoYaml(name, ['foo'], 1))
    const begun = performance.now()
    while (!(await world.instances()).some(({ metadata }) => metadata.name.startsWith(`${name}-`)))
      await systemClock.sleep(2)
    times.push(performance.now() - begun)
    await systemClock.sleep(SETTLE_MS)
  }
  await world.clear()
  return [
    {
      what: 'new Configuration to Instance, median',
      value: percentile(times, 0.5),
      unit: 'ms',
      budget: 20,
      peer: { name: EXISTING, value: 16 },
    },
  ]
}

/** Reviews as an API server sends them: in turn, on one connection. */
async function measureReviews(world: World): Promise<Figure[]> {
  const secret = 'bench-webhook'
  await world.api('Secret').create(world.namespace, { metadata: { name: secret } })
  const webhook = await HostWebhook.create({
    POD_NAMESPACE: world.namespace,
    AKRI_CERTIFICATE_SECRET: secret,
    NODE_OPTIONS,
  })
  await webhook.start()
  const agent = new Agent({ keepAlive: true, maxSockets: 1, rejectUnauthorized: false })
  const object = JSON.parse(echoYaml('bench', ['foo'], 1))
  const review = () => {
    const uid = '0f0e0d0c-0000-4000-8000-000000000000'
    const resource = { group: 'akri.sh', version: 'v0', resource: 'configurations' }
    const kind = { group: 'akri.sh', version: 'v0', kind: 'Configuration' }
    return JSON.stringify({
      apiVersion: 'admission.k8s.io/v1',
      kind: 'AdmissionReview',
      request: { uid, kind, resource, operation: 'CREATE', namespace: 'default', object },
    })
  }
  const ask = () =>
    new Promise<void>((resolve, reject) => {
      const asked = request(webhook.url, { method: 'POST', agent }, (response) => {
        response
          .resume()
          .on('end', () => resolve())
          .on('error', reject)
      })
      asked.on('error', reject)
      asked.setHeader('Content-Type', 'application/json')
      asked.end(review())
    })
  try {
    for (let count = 0; count < 20; count++) await ask()
    const before = cpuSeconds(webhook.pid)
    const times: number[] = []
    for (let count = 0; count < REVIEWS; count++) times.push(await timed(ask))
    return [
      {
        what: `CPU of the webhook per ${REVIEWS} reviews`,
        value: cpuSeconds(webhook.pid) - before,
        unit: 's',
        budget: 0.1,
        peer: { name: EXISTING, value: 0.04 },
      },
      {
        what: 'review, median',
        value: percentile(times, 0.5),
        unit: 'ms',
        budget: 1,
        peer: { name: EXISTING, value: 0.5 },
      },
    ]
  } finally {
    agent.destroy()
    await webhook.stop()
  }
}

async function applyDevices(world: World, count: number): Promise<void> {
  const descriptions = Array.from({ length: count }, (_, index) => `device-${index}`)
  await world.apply(echoYaml('bench', descriptions, 1))
  await eventually(
    async () => equal(await world.allocatable(NODE, 'akri.sh/bench'), count),
    300_000,
  )
}

/** The time on a processor since the start of the process, in steps of 10 ms or finer. */
function cpuSeconds(pid: number | undefined): number {
  let nanoseconds = 0
  for (const thread of readdirSync(`/proc/${pid}/task`))
    nanoseconds += Number(
      readFileSync(`/proc/${pid}/task/${thread}/schedstat`, 'utf8').split(' ')[0],
    )
  return nanoseconds / 1e9
}

async function timed(work: () => Promise<unknown>): Promise<number> {
  const begun = performance.now()
  await work()
  return performance.now() - begun
}

function equal(a: unknown, b: unknown): void {
  if (a !== b) throw new TypeError(`${String(a)} is not ${String(b)}`)
}
