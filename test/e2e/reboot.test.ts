import { describe, expect, it } from 'vitest'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import { missingHere, NODE_1, unlessHere } from './support/nodes.js'
import { powerOff, powerOn } from './support/power.js'
import { checkSlots } from './support/slots.js'
import {
  deploymentYaml,
  echoYaml,
  eventually,
  type PodState,
  podYaml,
  type World,
} from './support/world.js'

const STRATEGY = { type: 'Recreate' }

interface RestartedPod extends PodState {
  readonly status: PodState['status'] & {
    readonly containerStatuses?: readonly { readonly restartCount: number }[]
  }
}

describe.skipIf(missingHere() !== undefined)(`a node that loses its power${unlessHere}`, () => {
  let world: World
  let agents: NodeAgents

  useAgents((opened) => {
    world = opened.world
    agents = opened.agents
  })

  const restarts = async (name: string) =>
    (await world.get<RestartedPod>('Pod', name))?.status.containerStatuses?.[0]?.restartCount ?? 0

  it.each(['kubelet', 'agent'] as const)(
    'A2 A21 R90 has its Pods with their devices again, except a bare Pod, if the %s starts first',
    async (first) => {
      const agent = agents.on(NODE_1)
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
      await world.apply(echoYaml('lab', ['foo0'], 4))
      await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
      await eventually(async () =>
        expect(await world.allocatables('akri.sh/lab-8120fe')).toEqual([4, 4]),
      )
      const options = { replicas: 2, strategy: STRATEGY, node: NODE_1 }
      await world.apply(deploymentYaml('cl', { 'akri.sh/cam': 1 }, options))
      await world.apply(deploymentYaml('il', { 'akri.sh/lab-8120fe': 1 }, options))
      await world.apply(
        podYaml('gone', { 'akri.sh/lab-8120fe': 1 }, { node: NODE_1, graceSeconds: 0 }),
      )
      await world.apply(podYaml('once', { 'akri.sh/lab-8120fe': 1 }, { node: NODE_1 }))
      const ofDeployments = async () =>
        (await world.pods()).filter(({ metadata }) => /^[ci]l-/.test(metadata.name))
      await eventually(async () => {
        const pods = await world.pods()
        expect(pods.map(({ status }) => status.phase)).toEqual(
          Array.from({ length: 6 }, () => 'Running'),
        )
      })
      const before = (await ofDeployments()).map(({ metadata }) => metadata.name)
      const instances = (await world.instances()).map(({ metadata }) => metadata.uid)
      const bare = (await world.get<PodState>('Pod', 'once'))?.metadata.uid

      await agent.stop('SIGKILL')
      await powerOff(NODE_1)
      await world.remove('Pod', 'gone')
      await powerOn(NODE_1, 'containerd')
      if (first === 'kubelet') {
        await powerOn(NODE_1, 'kubelet')
        // The kubelet starts or rejects the Pods without the agent.
        await eventually(async () => {
          for (const { metadata, status } of await ofDeployments())
            if (before.includes(metadata.name) && status.phase !== 'Failed')
              expect(await restarts(metadata.name)).toBeGreaterThan(0)
        })
        await agent.start()
      } else {
        const lives = async () => (await agent.output()).split('agent started').length
        const soFar = await lives()
        await agent.start()
        await eventually(async () => expect(await lives()).toBeGreaterThan(soFar))
        await powerOn(NODE_1, 'kubelet')
      }

      await eventually(async () => {
        const pods = await ofDeployments()
        expect(pods.filter(({ status }) => status.phase === 'Running')).toHaveLength(4)
        for (const { metadata, status } of pods)
          if (status.phase === 'Running' && before.includes(metadata.name))
            expect(await restarts(metadata.name)).toBeGreaterThan(0)
      })
      // A kubelet that asks its plugins before it starts admitted Pods can reject each Pod once,
      // but not again and again. The Pods are those of Deployments and the one that has ended.
      const refused = await world.refused()
      expect(refused.length, refused.join()).toBeLessThanOrEqual(before.length + 1)
      await eventually(() => checkSlots(world, 'after the restart'))
      expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:1:${NODE_1}`, NODE_1, NODE_1])
      expect((await world.instances()).map(({ metadata }) => metadata.uid)).toEqual(instances)
      // A refused Pod may have no container whose log could be read.
      const serving = (await ofDeployments()).filter(({ status }) => status.phase === 'Running')
      for (const { metadata } of serving)
        await eventually(async () =>
          expect(await world.logs(metadata.name)).toMatch(/^DEBUG_ECHO_DESCRIPTION=foo[01]$/m),
        )
      // The node accepts new Pods.
      await world.apply(podYaml('next', { 'akri.sh/lab-8120fe': 2 }, { node: NODE_1 }))
      await eventually(() => world.running('next'))
      // Deployments have Pods again. Nothing makes a Pod again that has no controller.
      expect(await world.get('Pod', 'once')).toMatchObject({
        metadata: { uid: bare },
        status: { phase: 'Failed' },
      })
    },
  )
})
