import path from 'node:path'
import type { ConfigurationName } from '@akrijs/api'
import type { SimulatedKubelet } from '@akrijs/kube/kubelet'
import { type NodeName, objectKey } from '@akrijs/kube/objects'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { type Device, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { type HandlerServer, serve } from '@akrijs/sdk'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import type { KubeletSockets } from '../kubelet/kubelet-sockets.js'
import type { MemoryCluster } from '../testing/memory-cluster.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { manifest } from '../testing/objects.js'
import { type Agent, startAgent } from './agent.js'
import { handlerAccess } from './agent-options.js'

// Attacks of a handler in a Pod of its own: it has the directory of sockets, and nothing else.

const NODE = 'node-a' as NodeName
const NO_RULES = { handlerMounts: [], handlerDevices: [], handlerEnvironment: [] }

let home: NodeEnvironment
let directory: string
let cluster: MemoryCluster
let kubelet: SimulatedKubelet
let sockets: KubeletSockets
let agent: Agent | undefined
const serving: HandlerServer[] = []

beforeEach(async () => {
  home = await NodeEnvironment.open()
  ;({ directory, cluster, kubelet, sockets } = home)
})

afterEach(async () => {
  await agent?.close()
  agent = undefined
  for (const server of serving.splice(0)) await server.close()
  await home.close()
})

async function startWith(
  rules: Partial<Parameters<typeof handlerAccess>[0]> = {},
  isolated?: { readonly names: readonly string[]; readonly directory: string },
): Promise<void> {
  agent = await startAgent({
    cluster,
    kubelet: sockets,
    clock: systemClock,
    log: silentLogger,
    node: NODE,
    handlersDirectory: directory,
    checkpointFile: path.join(directory, 'checkpoint.json'),
    access: handlerAccess({ ...NO_RULES, ...rules }, new KernelDeviceNodes()),
    embedded: [],
    ...(isolated && { isolated }),
  })
}

/** Serves a handler that reports these devices. */
async function serveDevices(
  name: string,
  devices: readonly Device[],
  at = directory,
): Promise<void> {
  const handler = defineDiscoveryHandler({
    name,
    shared: true,
    details: z.unknown(),
    async *discover() {
      yield devices
    },
  })
  serving.push(await serve(handler, { directory: at, log: silentLogger, environment: {} }))
}

async function configure(name: string): Promise<void> {
  const discoveryHandler = { name, discoveryDetails: '{}', discoveryProperties: [] }
  const configuration = { ...manifest({ discoveryHandler }), name: CONFIGURATION }
  await cluster.apply(configuration)
}

const CONFIGURATION = 'lab' as ConfigurationName
const condition = (type: string) =>
  cluster.statuses
    .get(objectKey('default', CONFIGURATION))
    ?.conditions.find((condition) => condition.type === type)
const resource = `akri.sh/${CONFIGURATION}`
const pod = {
  uid: 'p',
  name: 'p',
  namespace: 'default',
  containers: [{ name: 'c', resources: { [resource]: 1 } }],
}

const hostile: Device = {
  id: 'foo0',
  properties: { SENSOR_URL: 'http://s/', LD_PRELOAD: '/host/x.so', NODE_OPTIONS: '-r /host/x.js' },
  mounts: [{ hostPath: '/', containerPath: '/host', readOnly: false }],
  deviceSpecs: [{ hostPath: '/dev/mem', containerPath: '/dev/mem', permissions: 'rwm' }],
}

describe('a hostile handler', () => {
  it('gets no root and no memory of the node, and the condition names the rule', async () => {
    await startWith()
    await configure('sensor')
    await serveDevices('sensor', [hostile])
    await eventually(() => expect(condition('Ready')?.reason).toBe('DeviceRefused'))
    expect(condition('Ready')?.message).toMatch(
      '1 of 1 devices are not offered; device "foo0": handler sensor may not give containers ' +
        'the property "LD_PRELOAD", because the dynamic loader and the C library read it ' +
        '(and 3 more); only if you trust the handler with it, add sensor=*,sensor=LD_PRELOAD ' +
        'to AKRI_HANDLER_ENVIRONMENT (chart: agent.handlerAccess.environment)',
    )
    await eventually(() => expect(kubelet.resource(`${resource}-8120fe`).capacity).toBe(1))
    expect(kubelet.resource(`${resource}-8120fe`).allocatable).toBe(0)
    await expect(kubelet.admit(pod)).rejects.toThrow()
    const [instance] = cluster.instances.list()
    expect(instance?.spec.brokerProperties).toEqual({ SENSOR_URL: 'http://s/' })
  })

  it('gets nothing into a container by the checkpoint of an agent with other rules', async () => {
    const allowed = {
      handlerMounts: ['sensor=/:/host:rw'],
      handlerDevices: ['sensor=/dev/mem'],
      handlerEnvironment: ['sensor=*', 'sensor=LD_PRELOAD', 'sensor=NODE_OPTIONS'],
    }
    await startWith(allowed)
    await configure('sensor')
    await serveDevices('sensor', [hostile])
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
    const given = (await kubelet.admit(pod)).get('c')
    expect(given).toMatchObject({ envs: { LD_PRELOAD: '/host/x.so' } })
    expect(given?.mounts).toMatchObject([{ hostPath: '/', containerPath: '/host' }])
    kubelet.remove('p')
    await agent?.close()
    for (const server of serving.splice(0)) await server.close()

    await startWith()
    await eventually(() => expect(kubelet.resource(`${resource}-8120fe`).capacity).toBe(1))
    expect(kubelet.resource(`${resource}-8120fe`).allocatable).toBe(0)
    await eventually(() => expect(condition('Ready')?.reason).toBe('DeviceRefused'))
    await agent?.close()

    // The checkpoint keeps the report: with the rules, the device is offered at once.
    await startWith(allowed)
    await eventually(() => expect(kubelet.resource(`${resource}-8120fe`).allocatable).toBe(1))
  })

  it('does not keep the other devices of its list from being offered', async () => {
    await startWith({ handlerDevices: ['sensor=/dev/null:rw'] })
    await configure('sensor')
    const node = { hostPath: '/dev/null', containerPath: '/dev/null', permissions: 'rw' }
    await serveDevices('sensor', [hostile, { id: 'foo1', deviceSpecs: [node] }])
    await eventually(() => expect(kubelet.resource(`${resource}-a19705`).allocatable).toBe(1))
    await eventually(() => expect(kubelet.resource(resource).allocatable).toBe(1))
    await eventually(() =>
      expect(condition('Ready')?.message).toMatch(/^1 of 2 devices are not offered; device "foo0"/),
    )
    expect((await kubelet.admit(pod)).get('c')?.devices).toMatchObject([node])
  })

  it('does not pose as a handler that the agent runs in a process of its own', async () => {
    const own = path.join(directory, 'isolated')
    await startWith({}, { names: ['sensor'], directory: own })
    await configure('sensor')
    await serveDevices('sensor', [{ id: 'foo0', properties: { SENSOR_URL: 'http://evil/' } }])
    await serveDevices('other', [])
    await eventually(() => expect(agent?.registry.names).toEqual(['other']))
    await serveDevices('sensor', [{ id: 'foo0', properties: { SENSOR_URL: 'http://s/' } }], own)
    await serveDevices('another', [], own)
    await eventually(() => expect(cluster.instances.list()).toHaveLength(1))
    const [instance] = cluster.instances.list()
    expect(instance?.spec.brokerProperties).toEqual({ SENSOR_URL: 'http://s/' })
    expect(agent?.registry.endpoints('sensor').map(({ uid }) => uid)).toEqual([
      `sensor@${own}/sensor.sock`,
    ])
    expect(agent?.registry.names).toEqual(['other', 'sensor'])
  })
})
