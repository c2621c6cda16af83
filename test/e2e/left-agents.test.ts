import { NODE_REPORTS } from '@akrijs/api'
import { objectKey, Resource } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { HostController } from './support/host-controller.js'
import { isBroker, podSpec, podsIn } from './support/made.js'
import { NodeAgent } from './support/node-agent.js'
import { missing, NODE_1, NODE_2, setAvailable, unless } from './support/nodes.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

const GRACE_SECONDS = 5
/** The Pod that stands for the agent of the second node. */
const AGENT_POD = 'agent-of-the-second-node'

describe.skipIf(missing() !== undefined)(`agents that are taken off their nodes${unless}`, () => {
  let world: World
  let controller: HostController
  const agents: NodeAgent[] = []

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    const env = { POD_NAME: AGENT_POD, POD_NAMESPACE: world.namespace }
    agents.push(await NodeAgent.create(NODE_1), await NodeAgent.create(NODE_2, env))
    await putAgentPod()
    for (const agent of agents) await agent.start()
    controller = new HostController('one', world.namespace, {
      AKRI_NODE_GRACE: String(GRACE_SECONDS),
    })
    await controller.lead()
  })

  afterAll(async () => {
    for (const agent of agents) await agent.dispose()
    await controller?.stop()
    await world?.close()
  })

  async function putAgentPod(): Promise<void> {
    const pod = JSON.parse(podYaml(AGENT_POD, {}, { node: NODE_2 }))
    pod.metadata.labels = { 'app.kubernetes.io/name': 'akri-agent' }
    await world.apply(JSON.stringify(pod))
  }
  const spec = async () => (await world.instances())[0]?.spec
  const seen = async () => (await spec())?.nodes.toSorted()
  const brokersOf = async (node: string) =>
    (await podsIn(world)).filter((pod) => isBroker(pod) && pod.spec.nodeName === node).length
  const report = (node: string) => new Resource(world.client, NODE_REPORTS).get(objectKey('', node))

  it('take brokers, claims and entries with them, and leave the claims of Pods', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 3, { brokerSpec: { brokerPodSpec: podSpec() } }))
    await eventually(async () => expect(await seen()).toEqual([NODE_1, NODE_2].sort()))
    await eventually(async () =>
      expect([await brokersOf(NODE_1), await brokersOf(NODE_2)]).toEqual([1, 1]),
    )
    await world.apply(podYaml('user', { 'akri.sh/cam': 1 }, { node: NODE_2 }))
    const claims = async () =>
      Object.values((await spec())?.deviceUsage ?? {}).filter((usage) => usage.includes(NODE_2))
    await eventually(async () => expect(await claims()).toHaveLength(2))

    await agents[1]?.stop()
    await world.remove('Pod', AGENT_POD)
    await eventually(async () => expect(await seen()).toEqual([NODE_1]))
    await eventually(async () => expect(await brokersOf(NODE_2)).toBe(0))
    // The Pod of the user goes on with the device.
    expect(await claims()).not.toEqual([])
    expect(await report(NODE_2)).toBeDefined()
    await world.remove('Pod', 'user')
    await eventually(async () => expect(await claims()).toEqual([]))
    await eventually(async () => expect(await report(NODE_2)).toBeUndefined())
    expect(await brokersOf(NODE_1)).toBe(1)

    await putAgentPod()
    await agents[1]?.start()
    await eventually(async () => expect(await seen()).toEqual([NODE_1, NODE_2].sort()))
    await eventually(async () => expect(await brokersOf(NODE_2)).toBe(1))
  })
})
