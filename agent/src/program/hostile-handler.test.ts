import path from 'node:path'
import type { ConfigurationName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import type { Device } from '@akrijs/sdk/handler'
import { beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { KernelDeviceNodes } from '../kubelet/kernel-device-nodes.js'
import { NodeEnvironment } from '../testing/node-environment.js'
import { manifest } from '../testing/objects.js'
import { programOptions } from '../testing/program-options.js'
import { serveHandler } from '../testing/served-handler.js'
import type { AgentOptions } from './agent.js'
import { handlerAccess } from './agent-options.js'

// Attacks of a handler in a Pod of its own: it has the directory of sockets, and nothing else.

let home: NodeEnvironment

beforeEach(async () => {
  home = await NodeEnvironment.open()
})

/** Starts an agent with a Configuration of the handler `sensor`, and rules of its options. */
async function startWith(rules: readonly string[] = [], isolated?: AgentOptions['isolated']) {
  const access = handlerAccess(programOptions(...rules), new KernelDeviceNodes())
  await home.start({ access, ...(isolated && { isolated }) })
  const discoveryHandler = { name: 'sensor', discoveryDetails: '{}', discoveryProperties: [] }
  await home.cluster.apply({ ...manifest({ discoveryHandler }), name: CONFIGURATION })
}

/** Serves a handler that reports these devices. */
const serveDevices = (name: string, devices: readonly Device[], directory = home.directory) =>
  serveHandler(name, directory, () => devices)

const CONFIGURATION = 'lab' as ConfigurationName
const resource = `akri.sh/${CONFIGURATION}`
const ready = () =>
  home.cluster.statuses
    .get(objectKey('default', CONFIGURATION))
    ?.conditions.find(({ type }) => type === 'Ready')
/** The device `foo0` is refused. */
const isRefused = async () => {
  await eventually(() => expect(ready()?.reason).toBe('DeviceRefused'))
  await eventually(() => expect(home.kubelet.resource(`${resource}-8120fe`).capacity).toBe(1))
  expect(home.allocatable(`${resource}-8120fe`)).toEqual([0])
}
const isOffered = (of: string) => eventually(() => expect(home.allocatable(of)).toEqual([1]))
const properties = () => home.cluster.instances.list().map(({ spec }) => spec.brokerProperties)
const hostile: Device = {
  id: 'foo0',
  properties: { SENSOR_URL: 'http://s/', LD_PRELOAD: '/host/x.so', NODE_OPTIONS: '-r /host/x.js' },
  mounts: [{ hostPath: '/', containerPath: '/host', readOnly: false }],
  deviceSpecs: [{ hostPath: '/dev/mem', containerPath: '/dev/mem', permissions: 'rwm' }],
}

describe('a hostile handler', () => {
  it('gets no root and no memory of the node, and the condition names the rule', async () => {
    await startWith()
    await serveDevices('sensor', [hostile])
    await isRefused()
    expect(ready()?.message).toMatch(
      '1 of 1 devices are not offered; device "foo0": handler sensor may not give containers ' +
        'the property "LD_PRELOAD", because the dynamic loader and the C library read it ' +
        '(and 3 more); only if you trust the handler with it, add sensor=*,sensor=LD_PRELOAD ' +
        'to AKRI_HANDLER_ENVIRONMENT (chart: agent.handlerAccess.environment)',
    )
    await expect(home.admit('p', resource)).rejects.toThrow()
    expect(properties()).toEqual([{ SENSOR_URL: 'http://s/' }])
  })

  it('gets nothing into a container by the checkpoint of an agent with other rules', async () => {
    const allowed = [
      ...['--handler-mounts', 'sensor=/:/host:rw', '--handler-devices', 'sensor=/dev/mem'],
      ...['--handler-environment', 'sensor=*,sensor=LD_PRELOAD,sensor=NODE_OPTIONS'],
    ]
    await startWith(allowed)
    const serving = await serveDevices('sensor', [hostile])
    await isOffered(resource)
    const given = await home.admit('p', resource)
    expect(given).toMatchObject({ envs: { LD_PRELOAD: '/host/x.so' } })
    expect(given?.mounts).toMatchObject([{ hostPath: '/', containerPath: '/host' }])
    home.kubelet.remove('p')
    await home.stop()
    await serving.close()

    await startWith()
    await isRefused()
    await home.stop()

    // The checkpoint keeps the report: with the rules, the device is offered at once.
    await startWith(allowed)
    await isOffered(`${resource}-8120fe`)
  })

  it('does not pose as a handler that the agent runs in a process of its own', async () => {
    const own = path.join(home.directory, 'isolated')
    await startWith([], { names: ['sensor'], directory: own })
    await serveDevices('sensor', [{ id: 'foo0', properties: { SENSOR_URL: 'http://evil/' } }])
    await serveDevices('other', [])
    await eventually(() => expect(home.agent.registry.names).toEqual(['other']))
    await serveDevices('sensor', [{ id: 'foo0', properties: { SENSOR_URL: 'http://s/' } }], own)
    await serveDevices('another', [], own)
    await eventually(() => expect(properties()).toEqual([{ SENSOR_URL: 'http://s/' }]))
    const uids = home.agent.registry.endpoints('sensor').map(({ uid }) => uid)
    expect(uids).toEqual([`sensor@${own}/sensor.sock`])
    expect(home.agent.registry.names).toEqual(['other', 'sensor'])
  })
})
