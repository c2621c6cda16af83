import path from 'node:path'
import type { ConfigurationStatus, Instance } from '@akrijs/api'
import { SimulatedCamera } from '@akrijs/handler-onvif/testing'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Account } from './support/account.js'
import { HostController } from './support/host-controller.js'
import { HostProgram } from './support/host-program.js'
import { kubectl } from './support/kubectl.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, unlessHere } from './support/nodes.js'
import { tidyUp } from './support/tidy-up.js'
import { eventually, World } from './support/world.js'

const CREDENTIAL = { username: 'admin', password: 'right' }

describe.skipIf(missingHere() !== undefined)(`a camera with a password${unlessHere}`, () => {
  const handler = new HostProgram('sdk/dist/akri-handler.js')
  let world: World
  let account: Account
  let controller: HostController
  let agent: NodeAgent
  let camera: SimulatedCamera

  beforeAll(async () => {
    world = await World.open()
    camera = await SimulatedCamera.start({
      address: '127.77.0.21',
      credential: CREDENTIAL,
      authentication: ['username-token'],
    })
    agent = await NodeAgent.create(NODE_1)
    await agent.start()
    const onvif = path.resolve(import.meta.dirname, '../../handlers/onvif/dist/index.js')
    const directory = path.join(agent.directory, 'h')
    handler.launch({ DISCOVERY_HANDLERS_DIRECTORY: directory, METRICS_PORT: '0' }, [onvif])
    account = await Account.create(world.client, 'controller', world.namespace)
    controller = new HostController('one', world.namespace, { KUBECONFIG: account.kubeconfig })
    await controller.lead()
  })

  afterAll(() =>
    tidyUp(
      async () => handler.stop(),
      async () => agent?.dispose(),
      async () => controller?.stop(),
      async () => account?.dispose(),
      async () => camera?.[Symbol.asyncDispose](),
      async () => world?.close(),
    ),
  )

  const writePassword = (password: string) =>
    world.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'gate' },
        stringData: { password },
      }),
    )
  const instance = async () => {
    const { name } = (await world.instances())[0]?.metadata ?? expect.fail('no Instance')
    return (await world.get<Instance>('Instance', name)) ?? expect.fail('it is gone')
  }
  const condition = async () => (await instance()).status?.conditions?.[0]
  const ready = async () => {
    const found = await world.get<{ status?: ConfigurationStatus }>('Configuration', 'gate')
    return found?.status?.conditions.find(({ type }) => type === 'Ready')
  }
  /** As an operator sees the Instance. */
  const shown = async () => {
    const { name } = (await instance()).metadata
    const inNamespace = ['-n', world.namespace]
    return {
      row: await kubectl(...inNamespace, 'get', 'akrii', name, '-o', 'wide'),
      page: await kubectl(...inNamespace, 'describe', 'akrii', name),
    }
  }

  it('that is wrong is a condition of its Instance, in each view of kubectl', async () => {
    await writePassword('wrong')
    const key = { secretKeyRef: { name: 'gate', key: 'password' } }
    const discoveryHandler = {
      name: 'onvif',
      discoveryDetails: JSON.stringify({ interfaces: ['lo'] }),
      discoveryProperties: [
        { name: 'username_default', value: CREDENTIAL.username },
        { name: 'password_default', valueFrom: key },
      ],
    }
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'gate' },
        spec: { discoveryHandler },
      }),
    )
    await eventually(async () =>
      expect(await condition()).toMatchObject({
        type: 'DeviceProblem',
        status: 'True',
        reason: 'ReportedByHandler',
        message: 'credential refused',
      }),
    )
    expect((await instance()).spec.brokerProperties).toMatchObject({
      ONVIF_DEVICE_UUID: camera.uuid,
      ONVIF_DEVICE_AUTHENTICATION: 'refused',
    })
    const { row, page } = await shown()
    expect(row).toMatch(/PROBLEM +REASON +SINCE/)
    expect(row).toMatch(/ True +ReportedByHandler +\d+s/)
    expect(page).toMatch(/Message: +credential refused\n/)
    expect(page).toMatch(/Type: +DeviceProblem\n/)
    await eventually(async () =>
      expect(await ready()).toMatchObject({ status: 'False', reason: 'DeviceProblems' }),
    )
    expect(JSON.stringify([row, page])).not.toContain(CREDENTIAL.username)
  })

  it('that becomes right ends the condition, on the same Instance', async () => {
    const { uid } = (await instance()).metadata
    await writePassword(CREDENTIAL.password)
    await eventually(async () =>
      expect(await condition()).toMatchObject({
        status: 'False',
        message: 'the device has no problem any more',
      }),
    )
    await eventually(async () =>
      expect(await ready()).toMatchObject({ status: 'True', reason: 'AllDevicesServed' }),
    )
    const { metadata, spec } = await instance()
    expect(metadata.uid).toBe(uid)
    expect(spec.brokerProperties).toMatchObject({ ONVIF_DEVICE_AUTHENTICATION: 'accepted' })
    expect((await shown()).row).toMatch(/ False +\S+ +\d+s/)
  })
})
