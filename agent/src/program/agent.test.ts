import { once } from 'node:events'
import { link, readdir, rename, rm } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import type { ConfigurationName } from '@akrijs/api'
import type { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { type Clock, silentLogger, systemClock } from '@akrijs/runtime'
import { defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { serveHealth } from '@akrijs/runtime/program'
import { type HandlerServer, serve } from '@akrijs/sdk'
import { afterEach, beforeEach, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import { listenerWarnings } from '../../../test/support/listener-warnings.js'
import type { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import type { MemoryCluster } from '../testing/memory-cluster.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { manifest } from '../testing/objects.js'
import { type Agent, startAgent } from './agent.js'
import { AgentMetrics } from './metrics.js'

const NODE = 'node-a' as NodeName

let home: NodeEnvironment
let directory: string
let cluster: MemoryCluster
let kubelet: SimulatedKubelet
let sockets: KubeletSockets
let metrics: AgentMetrics
let agent: Agent | undefined

beforeEach(async () => {
  home = await NodeEnvironment.open()
  ;({ directory, cluster, kubelet, sockets } = home)
  metrics = new AgentMetrics({
    node: NODE,
    configurations: () => cluster.configurations.list(),
    instances: () => cluster.instances.list(),
    queued: () => 0,
    endpoints: () => agent?.registry.size ?? 0,
    apiSilenceMs: () => 0,
  })
})

afterEach(async () => {
  await agent?.close()
  agent = undefined
  await home.close()
})

/**
 * Lists two devices or none if the details ask for that, and otherwise one device; throws a
 * TypeError if `found` is false.
 */
const handler = defineDiscoveryHandler({
  name: 'told',
  shared: true,
  details: z.object({
    found: z.boolean(),
    two: z.boolean().default(false),
    none: z.boolean().default(false),
  }),
  async *discover({ details }) {
    if (!details.found) throw new TypeError('no such bus')
    if (details.none) yield []
    else yield details.two ? [{ id: 'foo0' }, { id: 'foo1' }] : [{ id: 'foo0' }]
  },
})

const discoveryHandler = (found: boolean) => ({
  name: 'told',
  discoveryDetails: `found: ${found}`,
  discoveryProperties: [],
})

async function start(load = async () => handler, clock: Clock = systemClock): Promise<void> {
  agent = await startAgent({
    cluster,
    kubelet: sockets,
    clock,
    log: silentLogger,
    node: NODE,
    observer: metrics,
    handlersDirectory: directory,
    checkpointFile: path.join(directory, 'checkpoint.json'),
    embedded: [{ name: 'told', load }],
  })
}

/** The values of the metrics with these names and labels, in the Prometheus format. */
async function measured(...lines: readonly string[]): Promise<(number | undefined)[]> {
  const text = await metrics.registry.metrics()
  return lines.map((line) => {
    const found = text.split('\n').find((metric) => metric.startsWith(`${line} `))
    return found === undefined ? undefined : Number(found.slice(line.length + 1))
  })
}

it('A23 an agent counts what happens, from the first list to the last release', async () => {
  const [good, bad] = [
    manifest({ discoveryHandler: discoveryHandler(true) }),
    manifest({ discoveryHandler: discoveryHandler(false) }),
  ]
  await start()
  await cluster.apply(good, bad)
  const resource = `akri.sh/${good.name}-8120fe`
  await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
  await eventually(async () =>
    expect(
      await measured(
        `akri_instance_count{configuration="${good.name}",is_shared="true"}`,
        `akri_discovery_response_time_count{configuration="${good.name}"}`,
        'akri_discovery_response_result{discovery_handler_name="told",result="Success"}',
        'akri_plugin_registrations_total{result="accepted"}',
        'akri_handler_endpoints',
      ),
    ).toEqual([1, 1, 1, 3, 1]),
  )
  await eventually(async () => {
    const [failures] = await measured(
      'akri_discovery_response_result{discovery_handler_name="told",result="Fail"}',
    )
    expect(failures).toBeGreaterThan(0)
  })

  const container = { name: 'main', resources: { [resource]: 1 } }
  await kubelet.admit({ uid: 'p', name: 'p', namespace: 'default', containers: [container] })
  const held = `akri_slots{configuration="${good.name}",holder="this_node"}`
  expect(
    await measured(
      'akri_allocations_total{level="instance",result="granted"}',
      'akri_slot_claims_total{level="instance",outcome="claimed"}',
      held,
      'akri_slot_reclaims_total',
    ),
  ).toEqual([1, 1, 1, 0])
  kubelet.remove('p')
  await eventually(async () =>
    expect(await measured(held, 'akri_slot_reclaims_total')).toEqual([0, 1]),
  )
})

it('an agent with many Configurations adds few listeners to each signal', async () => {
  const remote = defineDiscoveryHandler({
    name: 'remote',
    shared: true,
    details: z.unknown(),
    async *discover() {
      yield [{ id: 'foo0' }]
    },
  })
  const many = Array.from({ length: 30 }, (_, index) => {
    const name = index % 2 === 0 ? 'told' : 'remote'
    return manifest({ discoveryHandler: { ...discoveryHandler(true), name } })
  })
  let server: HandlerServer | undefined
  const warnings = await listenerWarnings(async () => {
    await start()
    server = await serve(remote, { directory, environment: {}, log: silentLogger })
    await cluster.apply(...many)
    for (const { name } of many)
      await eventually(() => expect(kubelet.resource(`akri.sh/${name}`).allocatable).toBe(1))
    await cluster.apply(...many.slice(0, 3))
    await eventually(() => expect(cluster.instances.list()).toHaveLength(3))
    await agent?.close()
    await server.close()
  })
  expect(warnings).toEqual([])
})

it('an agent shows a bug of one object as InternalError, and serves all others', async () => {
  const named = (name: string, discoveryDetails: string) => ({
    ...manifest({ discoveryHandler: { ...discoveryHandler(true), discoveryDetails } }),
    name: name as ConfigurationName,
  })
  const [good, broken, poisoned] = [
    named('good', 'found: true'),
    named('broken', 'found: false'),
    named('poisoned', '{ found: true, two: true }'),
  ]
  const create = cluster.createInstance.bind(cluster)
  const creating = vi.spyOn(cluster, 'createInstance').mockImplementation(async (draft) => {
    if (draft.name === 'poisoned-8120fe') throw new TypeError('poisoned device')
    return create(draft)
  })
  const conditions = (name: string) =>
    cluster.statuses
      .get(objectKey('default', name))
      ?.conditions.map(({ type, status, reason, message }) => [
        `${type} ${status}`,
        `${reason}: ${message}`,
      ])
  await start()
  await cluster.apply(broken, poisoned, good)
  await eventually(() => {
    expect(conditions('broken')).toContainEqual([
      'Discovering False',
      expect.stringMatching(/^InternalError: .*no such bus/),
    ])
    expect(conditions('poisoned')).toContainEqual([
      'Ready False',
      expect.stringMatching(/^InternalError: .*poisoned device/),
    ])
    expect(conditions('good')).toContainEqual([
      'Ready True',
      expect.stringContaining('AllDevicesServed'),
    ])
    for (const resource of ['akri.sh/good-8120fe', 'akri.sh/poisoned-a19705'])
      expect(kubelet.resource(resource).allocatable).toBe(1)
  })
  creating.mockRestore()
  await eventually(() =>
    expect(conditions('poisoned')).toContainEqual([
      'Ready True',
      expect.stringContaining('AllDevicesServed'),
    ]),
  )
})

it('a restarted agent offers its checkpoint while the import of a handler hangs', async () => {
  const configuration = manifest({ discoveryHandler: discoveryHandler(true) })
  const resource = `akri.sh/${configuration.name}-8120fe`
  const registrations = () => measured('akri_plugin_registrations_total{result="accepted"}')
  await start()
  await cluster.apply(configuration)
  await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
  expect(await registrations()).toEqual([2])
  await agent?.close()
  await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(0))

  let atImport: ReturnType<typeof registrations> | undefined
  await start(() => {
    atImport = registrations()
    return new Promise(() => {})
  })
  await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
  await eventually(async () => expect(await atImport).toEqual([4]))
})

it('a restarted agent lists the id of a lost device before its handler answers', async () => {
  const found = manifest({ discoveryHandler: discoveryHandler(true) })
  const apply = (configuration: typeof found) => cluster.apply(configuration)
  await start()
  await apply(found)
  const resource = `akri.sh/${found.name}`
  await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
  const container = { name: 'main', resources: { [resource]: 1 } }
  await kubelet.admit({ uid: 'p', name: 'p', namespace: 'default', containers: [container] })
  const [id = expect.fail('no id')] = kubelet.devices(resource).keys()
  const details = 'found: true\nnone: true'
  const none = { ...discoveryHandler(true), discoveryDetails: details }
  await apply({ ...found, spec: { ...found.spec, discoveryHandler: none } })
  await eventually(() =>
    expect(Object.fromEntries(kubelet.devices(resource))).toEqual({ [id]: false }),
  )
  await agent?.close()
  kubelet.giveUp(resource)
  await start(() => new Promise(() => {}))
  await eventually(() =>
    expect(Object.fromEntries(kubelet.devices(resource))).toEqual({ [id]: false }),
  )
})

it('an agent is healthy while it replaces lost sockets, and names silent plugins', async () => {
  let ahead = 0
  const configuration = manifest({ discoveryHandler: discoveryHandler(true) })
  const resource = `akri.sh/${configuration.name}-8120fe`
  await start(undefined, { ...systemClock, monotonicMs: () => ahead })
  const health = await serveHealth(
    {
      port: 0,
      host: '127.0.0.1',
      ready: () => undefined,
      healthy: async () => agent?.healthy(),
      metrics: async () => '',
    },
    { log: silentLogger },
  )
  const probe = async () => {
    const answer = await fetch(`http://127.0.0.1:${health.port}/healthz`)
    return [answer.status, (await answer.text()).trim()]
  }
  // A probe can have the verdict of the probe before.
  const isHealthy = async () => {
    expect(await agent?.healthy()).toBeUndefined()
    expect(await probe()).toEqual([200, 'ok'])
  }
  const socketOf = async () => {
    const names = await readdir(kubelet.pluginDirectory)
    return names
      .filter((name) => name.startsWith(`akri-${resource.slice(8)}-`))
      .map((name) => path.join(kubelet.pluginDirectory, name))
  }
  const settled = async () => {
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
    ahead += 15_000
  }
  try {
    await cluster.apply(configuration)
    await settled()
    await isHealthy()

    await isHealthy()
    await settled()
    await isHealthy()

    const [removed = ''] = await socketOf()
    await rm(removed)
    await isHealthy()
    await eventually(async () => expect(await socketOf()).toHaveLength(1))
    ahead += 15_000
    await isHealthy()

    // The socket file exists, but has no listener.
    const [lost = ''] = await socketOf()
    const dying = net.createServer()
    await once(dying.listen(path.join(directory, 'dying.sock')), 'listening')
    await link(path.join(directory, 'dying.sock'), path.join(directory, 'dead.sock'))
    await new Promise((resolve) => dying.close(resolve))
    await rename(path.join(directory, 'dead.sock'), lost)
    await isHealthy()
    ahead += 15_000
    await eventually(async () =>
      expect(await probe()).toEqual([
        503,
        `the device plugin of ${resource} does not answer on ${lost}`,
      ]),
    )
  } finally {
    await health.close()
  }
})

it('A2 an agent leaves a running agent of the same node alone, and ends', async () => {
  const configuration = manifest({ discoveryHandler: discoveryHandler(true) })
  await cluster.apply(configuration)
  await start()
  const resource = `akri.sh/${configuration.name}-8120fe`
  await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
  const running = agent
  const register = vi.spyOn(sockets, 'register')
  const discovered = vi.fn(async () => handler)
  await expect(start(discovered)).rejects.toThrow('is served by another process already')
  expect([register.mock.calls, discovered.mock.calls]).toEqual([[], []])
  expect(kubelet.resource(resource).allocatable).toBe(1)
  agent = running
})
