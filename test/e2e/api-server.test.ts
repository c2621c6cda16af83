import { readdirSync } from 'node:fs'
import path from 'node:path'
import {
  type AllocateResponse,
  DevicePluginClient,
  type ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { systemClock } from '@akrijs/runtime'
import { credentials, Metadata } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ApiServer } from './support/api-server.js'
import { freePort } from './support/free-port.js'
import { NodeAgent } from './support/node-agent.js'
import { access, missingHere, NODE_1, onNode, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

/** Longer than the 90 s after which the agent replaces a silent watch. */
const SILENT_MS = 100_000
/** Only waits with the longest back-off, half a minute, take longer than half of it. */
const LONG_WAIT_MS = 16_000

interface ConfigurationState {
  readonly metadata: { readonly generation: number }
}

describe.skipIf(missingHere() !== undefined)(`an agent whose API server fails${unlessHere}`, () => {
  const server = new ApiServer()
  let world: World
  let agent: NodeAgent
  let port: number

  beforeAll(async () => {
    world = await World.open()
    port = await freePort()
    agent = await NodeAgent.create(NODE_1, { METRICS_PORT: String(port) })
    await agent.start()
  })

  afterEach(async () => {
    server.thaw()
    await world.clear([NODE_1])
  })

  afterAll(async () => {
    await agent?.dispose()
    await world?.close()
  })

  async function ready(): Promise<void> {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(2))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
    await eventually(async () =>
      expect((await world.pods())[0]?.status).toMatchObject({ phase: 'Running' }),
    )
  }

  const state = async () => ({
    instances: (await world.instances()).map(({ metadata, spec }) => ({ uid: metadata.uid, spec })),
    pods: (await world.pods()).map(({ metadata, status }) => ({
      uid: metadata.uid,
      phase: status.phase,
    })),
  })

  it('Instances, slots and Pods survive a killed API server, and changes go on', async () => {
    await ready()
    const before = await state()
    await server.restart(world, 3000)
    await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2))
    await eventually(async () => expect(await world.instances()).toHaveLength(3))
    const after = await state()
    for (const instance of before.instances) expect(after.instances).toContainEqual(instance)
    expect(after.pods).toEqual(before.pods)
    await world.apply(podYaml('q', { 'akri.sh/cam': 2 }, { node: NODE_1 }))
    await eventually(async () =>
      expect((await world.pods()).map(({ status }) => status.phase)).toEqual([
        'Running',
        'Running',
      ]),
    )
  })

  it('an agent without an API server offers devices, refuses a claim, and catches up', async () => {
    await ready()
    const before = await state()
    const plugin = pluginOf('cam-8120fe')
    server.freeze()
    try {
      expect(await listed(plugin)).toEqual(['cam-8120fe-0', 'cam-8120fe-1'])
      await expect(allocate(plugin, 'cam-8120fe-1')).rejects.toThrow(
        /UNAVAILABLE.*instances\/cam-8120fe: no answer within/,
      )
    } finally {
      plugin.close()
      server.thaw()
    }
    await eventually(async () => expect(await state()).toEqual(before))
    await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2))
    await eventually(async () => expect(await world.instances()).toHaveLength(3))
    await world.apply(podYaml('q', { 'akri.sh/cam': 3 }, { node: NODE_1 }))
    await eventually(() => world.running('p', 'q'))
  })

  it('an agent offers devices while the API server is gone for minutes, and catches up', {
    timeout: 600_000,
  }, async () => {
    const shared = await access.makeDirectory(NODE_1)
    await ready()
    const script = 'until [ -e /shared/end ]; do sleep 1; done'
    await world.apply(
      podYaml('ends', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_1, script, shared }),
    )
    await eventually(() => world.running('p', 'ends'))
    await eventually(async () => expect(await world.holders()).toEqual([`C:0:${NODE_1}`, NODE_1]))
    const before = await state()
    const registered = await world.registrations(NODE_1)
    const given = await access.allocated(NODE_1)
    const outputBefore = (await agent.output()).length
    const free = Object.entries(await world.usage()).find(
      ([slot, usage]) => slot.startsWith('cam-a19705') && usage === '',
    )
    const plugin = pluginOf('cam-a19705')
    const offered = await listed(plugin)
    server.freeze()
    await systemClock.sleep(SILENT_MS)
    const start = server.kill()
    try {
      await onNode(NODE_1, 'touch', path.join(shared, 'end'))
      await eventually(async () => {
        const waits = (await agent.output()).slice(outputBefore).matchAll(/"retryInMs":(\d+)/g)
        expect(Math.max(0, ...Array.from(waits, ([, ms]) => Number(ms)))).toBeGreaterThan(
          LONG_WAIT_MS,
        )
      })
      expect(await listed(plugin)).toEqual(offered)
      await expect(allocate(plugin, free?.[0] ?? '')).rejects.toThrow(
        /UNAVAILABLE.*instances\/cam-a19705.*ECONNREFUSED/,
      )
      expect((await access.allocated(NODE_1)).filter(({ pod }) => pod.endsWith('/p'))).toEqual(
        given.filter(({ pod }) => pod.endsWith('/p')),
      )
    } finally {
      plugin.close()
      await start(world)
    }
    await eventually(async () =>
      expect(await world.phases()).toEqual({ p: 'Running', ends: 'Succeeded' }),
    )
    await eventually(async () => expect(await world.holders()).toEqual([`C:0:${NODE_1}`]))
    await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2))
    await eventually(async () => {
      const { metadata } =
        (await world.get<ConfigurationState>('Configuration', 'cam')) ?? expect.fail('not there')
      expect(await world.reportedStatus('cam', NODE_1)).toMatchObject({
        observedGeneration: metadata.generation,
        devices: 3,
      })
    })
    await world.apply(podYaml('q', { 'akri.sh/cam': 3 }, { node: NODE_1 }))
    await eventually(() => world.running('p', 'q'))
    const after = await state()
    expect(after.instances.map(({ uid }) => uid)).toEqual(
      expect.arrayContaining(before.instances.map(({ uid }) => uid)),
    )
    expect(after.pods).toContainEqual(before.pods[1])
    // Only the Instance of the new device.
    expect(await world.registrations(NODE_1)).toBe(registered + 1)
  })

  it('A2 an agent that starts without an API server offers devices after it', async () => {
    await ready()
    const before = await state()
    const registered = await world.registrations(NODE_1)
    await agent.stop('SIGKILL')
    server.freeze()
    await agent.start()
    await eventually(async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`)
      expect([answer.status, await answer.text()]).toEqual([
        503,
        expect.stringContaining('waiting for the API server'),
      ])
    })
    server.thaw()
    // One registration for each plugin. The status of the node can be older than the restart.
    await eventually(async () => expect(await world.registrations(NODE_1)).toBe(registered + 3))
    expect(await state()).toEqual(before)
    await world.apply(
      podYaml('q', { 'akri.sh/cam-8120fe': 1, 'akri.sh/cam-a19705': 1 }, { node: NODE_1 }),
    )
    await eventually(() => world.running('p', 'q'))
  })
})

/** The plugin's socket, as the kubelet reaches it. */
function pluginOf(instance: string): DevicePluginClient {
  const directory = path.join(access.kubeletDirectory(NODE_1), 'device-plugins')
  const socket =
    readdirSync(directory).find((name) => name.startsWith(`akri-${instance}`)) ??
    expect.fail('no socket')
  return new DevicePluginClient(
    `unix:${path.join(directory, socket)}`,
    credentials.createInsecure(),
  )
}

/** The ids of the first list of a plugin. */
function listed(plugin: DevicePluginClient): Promise<string[]> {
  return new Promise((resolve, reject) => {
    const call = plugin.listAndWatch({})
    call.once('data', ({ devices }: ListAndWatchResponse) => {
      resolve(devices.map(({ ID }) => ID))
      call.cancel()
    })
    call.once('error', reject)
  })
}

function allocate(plugin: DevicePluginClient, id: string): Promise<AllocateResponse> {
  const request = { containerRequests: [{ devicesIDs: [id] }] }
  return new Promise((resolve, reject) => {
    plugin.allocate(request, new Metadata(), (error, response) =>
      error ? reject(error) : resolve(response),
    )
  })
}
