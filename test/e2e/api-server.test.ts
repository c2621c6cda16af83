import { readdirSync } from 'node:fs'
import path from 'node:path'
import {
  type AllocateResponse,
  DevicePluginClient,
  type ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { credentials, Metadata } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ApiServer } from './support/api-server.js'
import { freePort } from './support/free-port.js'
import { NodeAgent } from './support/node-agent.js'
import { access, missingHere, NODE_1, onNode, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

// Each test goes on with what the tests before it left.

describe.skipIf(missingHere() !== undefined)(`an agent whose API server fails${unlessHere}`, () => {
  const server = new ApiServer()
  let world: World
  let agent: NodeAgent
  let port: number
  /** A directory of the node that Pods see. */
  let shared: string
  let before: Awaited<ReturnType<typeof state>>

  const state = async () => ({
    instances: (await world.instances()).map(({ metadata, spec }) => ({ uid: metadata.uid, spec })),
    pods: (await world.pods()).map(({ metadata, status }) => [metadata.uid, status.phase]),
  })

  beforeAll(async () => {
    world = await World.open()
    port = await freePort()
    shared = await access.makeDirectory(NODE_1)
    agent = await NodeAgent.create(NODE_1, { METRICS_PORT: String(port) })
    await agent.start()
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(2))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
    const script = 'until [ -e /shared/end ]; do sleep 1; done'
    await world.apply(
      podYaml('ends', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_1, script, shared }),
    )
    await eventually(() => world.running('p', 'ends'))
    await eventually(async () => expect(await world.holders()).toEqual([`C:0:${NODE_1}`, NODE_1]))
    before = await state()
  })

  afterEach(() => server.thaw())

  afterAll(async () => {
    await world?.clear([NODE_1])
    await agent?.dispose()
    await world?.close()
  })

  /** A slot that no container has, of the device whose slots only `p` may have. */
  const freeSlot = async () =>
    Object.entries(await world.usage()).find(
      ([slot, usage]) => slot.startsWith('cam-a19705') && usage === '',
    )?.[0] ?? expect.fail('no slot is free')

  it('A2 offers devices and refuses claims without an answer, also after a restart', async () => {
    const registered = await world.registrations(NODE_1)
    const slot = await freeSlot()
    const plugin = pluginOf('cam-a19705')
    const offered = await listed(plugin)
    server.freeze()
    try {
      expect(await listed(plugin)).toEqual(offered)
      await expect(allocate(plugin, slot)).rejects.toThrow(
        /UNAVAILABLE.*instances\/cam-a19705: no answer within/,
      )
      await agent.stop('SIGKILL')
      await agent.start()
      await eventually(async () => {
        const answer = await fetch(`http://127.0.0.1:${port}/readyz`)
        expect([answer.status, await answer.text()]).toEqual([
          503,
          expect.stringContaining('waiting for the API server'),
        ])
      })
    } finally {
      plugin.close()
      server.thaw()
    }
    // One registration for each plugin. The status of the node can be older than the restart.
    await eventually(async () => expect(await world.registrations(NODE_1)).toBe(registered + 3))
    expect(await state()).toEqual(before)
  })

  it('keeps Instances, slots and Pods while the API server is dead, and catches up', async () => {
    const registered = await world.registrations(NODE_1)
    const given = await access.allocated(NODE_1)
    const slot = await freeSlot()
    const plugin = pluginOf('cam-a19705')
    const offered = await listed(plugin)
    const start = server.kill()
    try {
      await onNode(NODE_1, 'touch', path.join(shared, 'end'))
      expect(await listed(plugin)).toEqual(offered)
      // The first request can be on a connection that the end of the server cuts.
      await eventually(() =>
        expect(allocate(plugin, slot)).rejects.toThrow(
          /UNAVAILABLE.*instances\/cam-a19705.*ECONNREFUSED/,
        ),
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
    await eventually(async () =>
      expect(await world.reportedStatus('cam', NODE_1)).toMatchObject({ devices: 3 }),
    )
    await world.apply(podYaml('q', { 'akri.sh/cam': 3 }, { node: NODE_1 }))
    await eventually(() => world.running('p', 'q'))
    const after = await state()
    expect(after.instances.map(({ uid }) => uid)).toEqual(
      expect.arrayContaining(before.instances.map(({ uid }) => uid)),
    )
    // Only the Instance of the new device.
    expect(await world.registrations(NODE_1)).toBe(registered + 1)
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
