import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { silentLogger } from '@akrijs/runtime'
import { type Device, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { type HandlerServer, serve } from '@akrijs/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, setAvailable, unlessHere } from './support/nodes.js'
import { eventually, podYaml, World } from './support/world.js'

// A handler that wants the node, and a real kubelet that would give it.

const hostile: Device = {
  id: 'foo0',
  properties: { LD_PRELOAD: '/host/x.so', SENSOR_URL: 'http://s/' },
  mounts: [{ hostPath: '/', containerPath: '/host', readOnly: false }],
  deviceSpecs: [{ hostPath: '/dev/mem', containerPath: '/dev/mem', permissions: 'rwm' }],
}
const INSTANCE = 'akri.sh/cam-8120fe'

describe.skipIf(missingHere() !== undefined)(`a hostile handler${unlessHere}`, () => {
  let world: World
  let agent: NodeAgent
  const serving: HandlerServer[] = []

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    agent = await NodeAgent.create(NODE_1)
    await agent.start()
  })

  afterAll(async () => {
    for (const server of serving) await server.close()
    await agent?.dispose()
    await world?.close()
  })

  async function serveDevice(name: string, device: Device): Promise<void> {
    const handler = defineDiscoveryHandler({
      name,
      shared: true,
      details: z.unknown(),
      async *discover() {
        yield [device]
      },
    })
    const directory = path.join(agent.directory, 'h')
    serving.push(await serve(handler, { directory, log: silentLogger, environment: {} }))
  }

  const configurationOf = (handler: string) =>
    JSON.stringify({
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'cam' },
      spec: { discoveryHandler: { name: handler, discoveryDetails: '' } },
    })
  const ready = () => world.reportedCondition('cam', 'Ready')

  it('gives no Pod root, memory or a library of the node, and names the rule', async () => {
    await world.apply(configurationOf('sensor'))
    await serveDevice('sensor', hostile)
    await eventually(async () => expect((await ready())?.reason).toBe('DeviceRefused'))
    expect((await ready())?.message).toContain(
      'add sensor=*,sensor=LD_PRELOAD to AKRI_HANDLER_ENVIRONMENT ' +
        '(chart: agent.handlerAccess.environment)',
    )
    await eventually(async () => expect(await world.allocatable(NODE_1, INSTANCE)).toBe(0))
    const [instance] = await world.instances()
    expect(instance?.spec.brokerProperties).toEqual({ SENSOR_URL: 'http://s/' })
    await world.apply(podYaml('victim', { [INSTANCE]: 1 }))
    await eventually(async () => expect(await world.phases()).toEqual({ victim: 'Pending' }))
    // It would take the device as soon as there is one.
    await world.remove('Pod', 'victim')
    await eventually(async () => expect(await world.phases()).toEqual({}))
  })

  it('does not pose as a handler that the agent loads', async () => {
    await serveDevice('debugEcho', { id: 'evil' })
    await eventually(async () =>
      expect(await agent.output()).toMatch(/the agent loads a handler debugEcho itself/),
    )
    expect(await agent.output()).not.toMatch(/"handler":"debugEcho","endpoint"/)
  })

  it('gives what the rules of the operator allow, and the mount is read-only', async () => {
    const data = path.join(agent.directory, 'data')
    await mkdir(data)
    await writeFile(path.join(data, 'value'), 'from the node')
    await agent.stop()
    const rules = {
      AKRI_HANDLER_MOUNTS: `sensor2=${data}:/data`,
      AKRI_HANDLER_DEVICES: 'sensor2=/dev/nul*:rw',
    }
    const trusting = NodeAgent.beside(agent, rules)
    await trusting.start()
    try {
      const node = { hostPath: '/dev/null', containerPath: '/dev/null', permissions: 'rw' }
      await serveDevice('sensor2', {
        id: 'foo0',
        mounts: [{ hostPath: data, containerPath: '/data', readOnly: true }],
        deviceSpecs: [node],
      })
      await world.apply(configurationOf('sensor2'))
      await eventually(async () => expect(await world.allocatable(NODE_1, INSTANCE)).toBe(1))
      const script = 'cat /data/value; touch /data/x || echo; echo read-only; exec sleep 100000'
      await world.apply(podYaml('user', { 'akri.sh/cam': 1 }, { script, node: NODE_1 }))
      // The output and the errors of a container come in any order.
      await eventually(async () => {
        const logs = await world.logs('user')
        expect(logs).toMatch(/from the node/)
        expect(logs).toMatch(/x: Read-only file system/)
      })
      await world.remove('Pod', 'user')
    } finally {
      await trusting.stop()
      await rm(data, { recursive: true })
    }
  })
})
