import { describe, expect, it } from 'vitest'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import { missing, NODE_1, NODE_2, NODES, unless } from './support/nodes.js'
import { checkSlots } from './support/slots.js'
import { echoYaml, eventually, type InstanceState, podYaml, type World } from './support/world.js'

describe.skipIf(missing() !== undefined)(
  `Instances that are deleted and that a finalizer holds${unless}`,
  () => {
    let world: World
    let agents: NodeAgents

    useAgents((opened) => {
      world = opened.world
      agents = opened.agents
    })

    type Held = InstanceState & { readonly metadata: { readonly deletionTimestamp?: string } }
    const name = 'cam-8120fe'
    const instance = async () =>
      (await world.get<Held>('Instance', name)) ?? expect.fail('there is no Instance')

    it('A10 A13 R7 R84 are not offered, and are recreated with nodes and claims', async () => {
      await world.apply(echoYaml('cam', ['foo0'], 3))
      const resources = [`akri.sh/${name}`, 'akri.sh/cam']
      const offered = () => Promise.all(resources.map((resource) => world.allocatables(resource)))
      await eventually(async () =>
        expect(await offered()).toEqual([
          [3, 3],
          [1, 1],
        ]),
      )
      await world.apply(podYaml('p', { [`akri.sh/${name}`]: 1 }, { node: NODE_1 }))
      await world.apply(podYaml('q', { 'akri.sh/cam': 1 }, { node: NODE_2 }))
      await eventually(() => world.running('p', 'q'))
      const { metadata, spec } = await instance()
      expect(await world.holders()).toEqual([`C:0:${NODE_2}`, NODE_1].sort())
      // Written as agents of the existing system do, while none of them runs.
      await world.api('Instance').apply(
        world.key(name),
        {
          apiVersion: 'akri.sh/v0',
          kind: 'Instance',
          metadata: { name, finalizers: ['node-of-old'] },
        },
        'node-of-old-fin',
      )
      await world.remove('Instance', name)
      try {
        // Only what p and q hold stays healthy: the device is there.
        await eventually(async () =>
          expect(await offered()).toEqual([
            [1, 0],
            [0, 1],
          ]),
        )
        // Changes that the agent would write to a normal Instance, and a claim of an offered one.
        await world.apply(echoYaml('cam', ['foo0'], 4, { brokerProperties: { SITE: 'north' } }))
        for (const node of NODES)
          await world.apply(podYaml(`later-${node}`, { [`akri.sh/${name}`]: 1 }, { node }))
        await eventually(async () => {
          const statuses = NODES.map((node) => world.reportedStatus('cam', node))
          const found = await Promise.all(statuses)
          expect(found.map((status) => status?.observedGeneration)).toEqual([2, 2])
        })
        for (const node of NODES)
          expect((await world.reportedStatus('cam', node))?.conditions).toContainEqual(
            expect.objectContaining({
              type: 'Ready',
              status: 'False',
              reason: 'InstanceBeingDeleted',
              message: expect.stringContaining(`${name}: node-of-old`),
            }),
          )
        // A Pod that is created now meets the same state.
        await agents.on(NODE_1).stop('SIGKILL')
        const registered = await world.registrations(NODE_1)
        await agents.on(NODE_1).start()
        await eventually(async () => expect(await world.registrations(NODE_1)).toBe(registered + 2))
        const now = await instance()
        expect(now.metadata.deletionTimestamp).toBeDefined()
        expect(now.metadata.uid).toBe(metadata.uid)
        expect(now.spec).toEqual(spec)
        const phases = await world.phases()
        expect(phases).toEqual({
          p: 'Running',
          q: 'Running',
          [`later-${NODE_1}`]: 'Pending',
          [`later-${NODE_2}`]: 'Pending',
        })
      } finally {
        await world
          .api('Instance')
          .patch(world.key(name), 'merge', { metadata: { finalizers: null } })
      }
      await eventually(() => world.running('p', 'q', ...NODES.map((node) => `later-${node}`)))
      const recreated = await instance()
      expect(recreated.metadata.uid).not.toBe(metadata.uid)
      expect(recreated.spec).toMatchObject({ capacity: 4, brokerProperties: { SITE: 'north' } })
      expect(recreated.spec.nodes.toSorted()).toEqual([...NODES])
      const held = Object.entries(spec.deviceUsage).filter(([, usage]) => usage !== '')
      expect(recreated.spec.deviceUsage).toMatchObject(Object.fromEntries(held))
      expect(await world.refused()).toEqual([])
      await checkSlots(world, 'after it was made anew')
    })
  },
)
