import type { Instance } from '@akrijs/api'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { ExistingAgentModel } from '../../agent/src/testing/existing-agent.js'
import { describeUnless } from '../support/unless.js'
import { ExistingAgent } from './support/existing-agent.js'
import { HostController } from './support/host-controller.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODE_2, setAvailable } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, podYaml, World } from './support/world.js'

const NAME = 'cam-8120fe'
const slot = (index: number) => `${NAME}-${index}`
const ownerOf = (uid: string) => ({
  apiVersion: 'akri.sh/v0',
  kind: 'Configuration',
  name: 'cam',
  uid,
  controller: true,
})
/** What the existing system writes of the only device. */
const specOf = (capacity: number) => ({
  configurationName: 'cam',
  cdiName: 'akri.sh/cam=8120fe',
  capacity,
  shared: true,
  brokerProperties: { DEBUG_ECHO_DESCRIPTION: 'foo0' },
})

describeUnless(missingHere(), 'agents of both systems in one cluster', () => {
  const env = { AKRI_COMPATIBILITY: 'akri-0.13', AKRI_SLOT_HANDOVER: '0', AKRI_SLOT_GRACE: '1' }
  let world: World
  let controller: HostController
  let agent: NodeAgent
  /** On the second node. */
  let existing: ExistingAgent
  let successor: NodeAgent

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    existing = new ExistingAgent(world, NODE_2)
    controller = new HostController('one', world.namespace, env)
    agent = await NodeAgent.create(NODE_1, env)
    successor = await NodeAgent.create(NODE_2, env)
  })

  afterAll(async () => {
    await controller?.stop()
    for (const each of [agent, successor]) await each?.dispose()
    await world?.close()
  })

  const configuration = async () =>
    (await world.get<InstanceState>('Configuration', 'cam')) ?? expect.fail('cam is not there')
  const instance = async () =>
    (await world.get<InstanceState>('Instance', NAME)) ?? expect.fail('there is no Instance')
  /** The usage of each slot, once both systems can read it. */
  const usage = (expected: Readonly<Record<string, string>>) =>
    eventually(async () => {
      const found = await world.list<Instance>('Instance')
      expect((await instance()).spec.deviceUsage).toEqual(expected)
      for (const node of [NODE_1, NODE_2]) new ExistingAgentModel(node as never).see(found)
    })
  const offered = (resource: string, count: number, node: string = NODE_1) =>
    eventually(async () => expect(await world.allocatable(node, resource)).toBe(count))
  const run = async (name: string, resource: string, node: string = NODE_1) => {
    await world.apply(podYaml(name, { [resource]: 1 }, { node }))
    await eventually(() => world.running(name))
  }

  /** The existing agent joins the Instance of the only device. */
  async function joinBeside(capacity: number): Promise<void> {
    const { metadata } = await configuration()
    await existing.join(NAME, specOf(capacity), { ownerReferences: [ownerOf(metadata.uid)] })
  }

  it('A15 R38 claim and free slots of one Instance, as the existing system does', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 3))
    await controller.lead()
    await agent.start()
    await offered('akri.sh/cam', 1)
    await usage({})
    await joinBeside(3)
    await existing.claim(NAME, { [slot(2)]: NODE_2 })
    await eventually(async () =>
      expect((await instance()).spec.nodes.toSorted()).toEqual([NODE_1, NODE_2]),
    )
    await offered(`akri.sh/${NAME}`, 2)
    await usage({ [slot(2)]: NODE_2 })

    await run('p', `akri.sh/${NAME}`)
    await run('q', 'akri.sh/cam')
    const claims = Object.entries((await instance()).spec.deviceUsage)
    const slotOf = (usage: string) =>
      claims.find(([, each]) => each === usage)?.[0] ?? expect.fail(JSON.stringify(claims))
    const [byInstance, byConfiguration] = [slotOf(NODE_1), slotOf(`C:cam-0:${NODE_1}`)]
    const all = { [byInstance]: NODE_1, [byConfiguration]: `C:cam-0:${NODE_1}` }
    await usage({ ...all, [slot(2)]: NODE_2 })
    // What each system has is refused to the other.
    const taken = { [slot(2)]: NODE_2, [byInstance]: NODE_2 }
    await expect(existing.claim(NAME, taken)).rejects.toThrow(/409/)

    // A slot that this agent has freed.
    await world.remove('Pod', 'p')
    await usage({ [byConfiguration]: `C:cam-0:${NODE_1}`, [slot(2)]: NODE_2 })
    await existing.claim(NAME, { [slot(2)]: NODE_2, [byInstance]: `C:cam-0:${NODE_2}` })
    await world.remove('Pod', 'q')
    const byOther = { [slot(2)]: NODE_2, [byInstance]: `C:cam-0:${NODE_2}` }
    await usage(byOther)
    await offered(`akri.sh/${NAME}`, 1)
    // A lower capacity waits for the claims beyond it.
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await offered(`akri.sh/${NAME}`, 0)
    expect((await instance()).spec.capacity).toBe(3)
    await existing.claim(NAME, {})
    await eventually(async () => expect((await instance()).spec.capacity).toBe(1))
    await usage({})
    await offered(`akri.sh/${NAME}`, 1)
    await joinBeside(1)
    await existing.claim(NAME, { [slot(0)]: NODE_2 })
    await offered(`akri.sh/${NAME}`, 0)

    // An agent of this system takes the second node: no container has the slot.
    await successor.start()
    await usage({})
    await offered('akri.sh/cam', 1, NODE_2)
    await run('r', 'akri.sh/cam', NODE_2)
    await usage({ [slot(0)]: `C:cam-0:${NODE_2}` })
  })
})
