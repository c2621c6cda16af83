import path from 'node:path'
import type { Instance } from '@akrijs/api'
import { silentLogger } from '@akrijs/runtime'
import { defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { type HandlerServer, serve } from '@akrijs/sdk'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { z } from 'zod'
import { Account } from './support/account.js'
import { HostController } from './support/host-controller.js'
import { kubectl } from './support/kubectl.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODE_2, unlessHere } from './support/nodes.js'
import { eventually, podYaml, World } from './support/world.js'

/** Finds one device that refuses each credential but one. */
const lab = defineDiscoveryHandler({
  name: 'lab',
  shared: true,
  details: z.unknown(),
  async *discover({ properties, reportProblem }) {
    if (properties.text('password') !== 'right') reportProblem('foo0', 'credential refused')
    yield [{ id: 'foo0' }]
  },
})

/** How long the device of a lost handler is offered, and kept. */
const TIMES = { AKRI_UNHEALTHY_AFTER: '2', AKRI_REMOVE_AFTER: '40' }

describe.skipIf(missingHere() !== undefined)(`problems of devices${unlessHere}`, () => {
  let world: World
  let controller: HostController
  let account: Account | undefined
  const agents: NodeAgent[] = []
  const handlers: HandlerServer[] = []

  beforeAll(async () => {
    world = await World.open()
    account = await Account.create(world.client, 'controller', world.namespace)
    for (const node of [NODE_1, NODE_2]) {
      const agent = await NodeAgent.create(node, TIMES)
      agents.push(agent)
      await agent.start()
      const directory = path.join(agent.directory, 'h')
      handlers.push(await serve(lab, { directory, log: silentLogger }))
    }
    const env = { KUBECONFIG: account.kubeconfig }
    controller = new HostController('one', world.namespace, env)
    await controller.lead()
  })

  afterAll(async () => {
    for (const handler of handlers) await handler.close()
    for (const agent of agents) await agent.dispose()
    await controller?.stop()
    await account?.dispose()
    await world?.close()
  })

  const password = (value: string) =>
    world.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'lab' },
        stringData: { password: value },
      }),
    )
  const instance = async () => {
    const { name } = (await world.instances())[0]?.metadata ?? expect.fail('no Instance')
    return (await world.get<Instance>('Instance', name)) ?? expect.fail('it is gone')
  }
  const condition = async () => (await instance()).status?.conditions?.[0]
  const is = (status: string, message: string) =>
    eventually(async () => expect(await condition()).toMatchObject({ status, message }))

  it('are a condition of the Instance until they are over, also while agents restart', async () => {
    await password('wrong')
    const from = { valueFrom: { secretKeyRef: { name: 'lab', key: 'password' } } }
    const discoveryProperties = [{ name: 'password', ...from }]
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'cam' },
        spec: { discoveryHandler: { name: 'lab', discoveryDetails: '', discoveryProperties } },
      }),
    )
    await is('True', 'credential refused')
    await eventually(async () =>
      expect((await instance()).spec.nodes.toSorted()).toEqual([NODE_1, NODE_2].sort()),
    )
    const { name } = (await instance()).metadata
    const shown = await kubectl('-n', world.namespace, 'get', 'akrii', name, '-o', 'wide')
    expect(shown).toMatch(/PROBLEM/)
    expect(shown).toMatch(/ True /)
    const begun = (await condition())?.lastTransitionTime
    for (const agent of agents) {
      await agent.stop('SIGKILL')
      await agent.start()
    }
    for (const node of [NODE_1, NODE_2])
      await eventually(async () =>
        expect(await world.reportedStatus('cam', node)).toMatchObject({
          conditions: expect.arrayContaining([expect.objectContaining({ reason: 'Listening' })]),
        }),
      )
    expect(await condition()).toMatchObject({ status: 'True', lastTransitionTime: begun })
    await password('right')
    await is('False', 'the device has no problem any more')
    await password('wrong again')
    await is('True', 'credential refused')
  })

  it('are found by agents: a handler that is lost, and a device that Pods have', async () => {
    await password('right')
    await is('False', 'the device has no problem any more')
    const { name } = (await instance()).metadata
    const resource = `akri.sh/${name}`
    await eventually(async () => expect(await world.allocatable(NODE_1, resource)).toBe(1))
    await world.apply(podYaml('p', { [resource]: 1 }, { node: NODE_1, graceSeconds: 0 }))
    await eventually(() => world.running('p'))
    await handlers.shift()?.close()
    await is('True', `${NODE_1}: no handler vouches for the device, and no Pod gets it`)
    const wide = await kubectl('-n', world.namespace, 'get', 'akrii', name, '-o', 'wide')
    expect(wide).toMatch(/PROBLEM +REASON +SINCE/)
    expect(wide).toMatch(/ True +HandlerLost +[0-9]+s/)
    await is('True', `${NODE_1}: the node no longer finds the device, and Pods there have it`)
    expect((await condition())?.reason).toBe('DeviceLost')
    expect((await instance()).spec.nodes).toEqual([NODE_2])
    await world.remove('Pod', 'p')
    await is('False', 'the device has no problem any more')
  })
})
