import { readdirSync } from 'node:fs'
import path from 'node:path'
import { type AllocateResponse, DevicePluginClient } from '@akrijs/proto/device-plugin'
import { credentials, Metadata } from '@grpc/grpc-js'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ApiServer } from './support/api-server.js'
import { freePort } from './support/free-port.js'
import { NodeAgent } from './support/node-agent.js'
import { access, missingHere, NODE_1, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

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
    await world.clear()
  })

  afterAll(async () => {
    await agent?.dispose()
    await world?.close()
  })

  async function ready(): Promise<void> {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(2))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
    await eventually(async () => expect((await world.pods())[0]?.status).toMatchObject({ phase: 'Running' }))
  }

  const state = async () => ({
    instances: (await world.instances()).map(({ metadata, spec }) => ({ uid: metadata.uid, spec })),
    pods: (await world.pods()).map(({ metadata, status }) => ({ uid: metadata.uid, phase: status.phase })),
  })

  it('keeps Instances, slots and Pods when the API server is killed and comes back, and follows what is changed then', async () => {
    await ready()
    const before = await state()
    await server.restart(world, 3000)
    await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2))
    await eventually(async () => expect(await world.instances()).toHaveLength(3))
    const after = await state()
    for (const instance of before.instances) expect(after.instances).toContainEqual(instance)
    expect(after.pods).toEqual(before.pods)
    await world.apply(podYaml('q', { 'akri.sh/cam': 2 }, { node: NODE_1 }))
    await eventually(async () => expect((await world.pods()).map(({ status }) => status.phase)).toEqual(['Running', 'Running']))
  })

  it('goes on offering devices while the API server answers nobody, refuses a claim with a clear error, and catches up after', async () => {
    await ready()
    const before = await state()
    const directory = path.join(access.kubeletDirectory(NODE_1), 'device-plugins')
    const socket = readdirSync(directory).find((name) => name.startsWith('akri-cam-8120fe')) ?? expect.fail('no socket')
    server.freeze()
    const client = new DevicePluginClient(`unix:${path.join(directory, socket)}`, credentials.createInsecure())
    try {
      const list = await new Promise<string[]>((resolve, reject) => {
        const call = client.listAndWatch({})
        call.once('data', ({ devices }: { devices: { ID: string }[] }) => {
          resolve(devices.map(({ ID }) => ID))
          call.cancel()
        })
        call.once('error', reject)
      })
      expect(list).toEqual(['cam-8120fe-0', 'cam-8120fe-1'])
      const request = { containerRequests: [{ devicesIDs: ['cam-8120fe-1'] }] }
      const allocation = new Promise<AllocateResponse>((resolve, reject) => {
        client.allocate(request, new Metadata(), (error, response) => (error ? reject(error) : resolve(response)))
      })
      await expect(allocation).rejects.toThrow(/UNAVAILABLE.*instances\/cam-8120fe: no answer within/)
    } finally {
      client.close()
      server.thaw()
    }
    await eventually(async () => expect(await state()).toEqual(before))
    await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2))
    await eventually(async () => expect(await world.instances()).toHaveLength(3))
    await world.apply(podYaml('q', { 'akri.sh/cam': 3 }, { node: NODE_1 }))
    await eventually(() => world.running('p', 'q'))
  })

  it('A2 starts while the API server is away, and offers what it knew once it answers', async () => {
    await ready()
    const before = await state()
    await agent.stop('SIGKILL')
    server.freeze()
    await agent.start()
    await eventually(async () => {
      const answer = await fetch(`http://127.0.0.1:${port}/readyz`)
      expect([answer.status, await answer.text()]).toEqual([503, expect.stringContaining('waiting for the API server')])
    })
    server.thaw()
    await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam-a19705')).toBeGreaterThan(0))
    expect(await state()).toEqual(before)
  })
})
