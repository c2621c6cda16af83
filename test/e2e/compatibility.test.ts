import type { Instance } from '@akrijs/api'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { ExistingAgentModel } from '../../agent/src/testing/existing-agent.js'
import { isClusterSince } from '../cluster/support/client.js'
import { withoutRequiredFields } from '../cluster/support/custom-resources.js'
import { akri } from './support/akri-command.js'
import { ExistingAgent } from './support/existing-agent.js'
import { HostController } from './support/host-controller.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODE_2, setAvailable, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, podYaml, World } from './support/world.js'

/**
 * The first minor version of Kubernetes in which the owner of an empty map does not own the later
 * entries of others: https://github.com/kubernetes-sigs/structured-merge-diff/pull/192
 */
const EMPTY_MAPS_SINCE = 22

const lacks = missingHere()
const ownsEmptyMaps = lacks === undefined && (await isClusterSince(EMPTY_MAPS_SINCE))
const unlessEmptyMaps = lacks === undefined && !ownsEmptyMaps ? ' (needs Kubernetes 1.22)' : ''

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

describe.skipIf(lacks !== undefined)(`agents of both systems in one cluster${unlessHere}`, () => {
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

  afterEach(async () => {
    for (const each of [agent, successor]) await each.stop()
    await controller.stop()
    await world.clear()
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

  /** The existing agent joins the Instance of the only device, or creates it. */
  async function joinBeside(capacity: number): Promise<void> {
    const { metadata } = await configuration()
    await existing.join(NAME, specOf(capacity), { ownerReferences: [ownerOf(metadata.uid)] })
  }

  it('A15 R38 claim and free slots of one Instance, as the existing system does', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 3))
    await joinBeside(3)
    await existing.claim(NAME, { [slot(2)]: NODE_2 })
    await controller.lead()
    await agent.start()
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

  it.skipIf(!ownsEmptyMaps)(
    `make Instances whose slots the existing system can claim and free${unlessEmptyMaps}`,
    async () => {
      await world.apply(echoYaml('cam', ['foo0'], 2))
      await agent.start()
      await offered('akri.sh/cam', 1)
      await usage({})
      await joinBeside(2)
      await run('p', `akri.sh/${NAME}`)
      const [taken = ''] = Object.keys((await instance()).spec.deviceUsage)
      const other = taken === slot(0) ? slot(1) : slot(0)
      await existing.claim(NAME, { [other]: NODE_2 })
      await usage({ [taken]: NODE_1, [other]: NODE_2 })
      await existing.claim(NAME, {})
      await usage({ [taken]: NODE_1 })
      // The map is empty again, by a write of this agent.
      await world.remove('Pod', 'p')
      await usage({})
      await existing.claim(NAME, { [slot(0)]: NODE_2, [slot(1)]: `C:cam-0:${NODE_2}` })
      await offered('akri.sh/cam', 0)
      await existing.claim(NAME, {})
      await usage({})
    },
  )

  it('offer an Instance of Akri 0.12, and give it the fields that it lacks', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    const { cdiName, capacity, ...early } = specOf(2)
    const { metadata } = await configuration()
    const object = {
      apiVersion: 'akri.sh/v0',
      kind: 'Instance',
      metadata: { name: NAME, ownerReferences: [ownerOf(metadata.uid)] },
      spec: { ...early, nodes: [NODE_1], deviceUsage: { [slot(0)]: '', [slot(1)]: '' } },
    }
    await withoutRequiredFields(world.client, () => world.apply(JSON.stringify(object)))
    const { uid } = (await instance()).metadata
    expect((await akri('migrate', 'check')).stdout).toContain(
      `write spec.cdiName, which is missing: ${cdiName}`,
    )
    for (const each of [agent, successor]) await each.start()
    await eventually(async () => {
      expect(await world.allocatables(`akri.sh/${NAME}`)).toEqual([2, 2])
      const { spec } = await instance()
      expect({ ...spec, nodes: spec.nodes.toSorted() }).toMatchObject({
        cdiName,
        capacity,
        nodes: [NODE_1, NODE_2],
      })
    })
    expect((await instance()).metadata.uid).toBe(uid)
  })
})
