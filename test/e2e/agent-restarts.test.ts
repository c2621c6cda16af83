import { systemClock } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { NodeAgent } from './support/node-agent.js'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import { access, filesBelow, missing, NODE_1, unless } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, podYaml, type World } from './support/world.js'

// Agents and kubelets end, come back and are replaced, while Pods use devices.

describe.skipIf(missing() !== undefined)(`agents and kubelets that come and go${unless}`, () => {
  let world: World
  let agents: NodeAgents

  const identities = (instances: readonly InstanceState[]) =>
    instances.map(({ metadata, spec }) => ({
      uid: metadata.uid,
      generation: metadata.generation,
      spec,
    }))

  useAgents((opened) => {
    world = opened.world
    agents = opened.agents
  })

  it('A2 A3 Pods, Instances and slots survive kill -9 of the agent', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 2 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    await eventually(async () =>
      expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:1:${NODE_1}`]),
    )
    await eventually(() => world.joined())
    const before = identities(await world.instances())
    const pods = (await world.pods()).map(({ metadata }) => metadata.uid)
    for (let round = 0; round < 3; round++) {
      const registered = await world.registrations(NODE_1)
      await agents.on(NODE_1).stop('SIGKILL')
      await agents.on(NODE_1).start()
      // The status of the node can be older than the restart.
      await eventually(async () => expect(await world.registrations(NODE_1)).toBe(registered + 3))
    }
    // Longer than the grace of a slot whose container starts.
    await systemClock.sleep(3000)
    expect(identities(await world.instances())).toEqual(before)
    expect((await world.pods()).map(({ metadata }) => metadata.uid)).toEqual(pods)
    await world.running('p')
    // No socket of the killed agents is left.
    const files = () => filesBelow(NODE_1, '/var/lib/kubelet/device-plugins')
    await eventually(async () =>
      expect((await files()).filter((name) => name.startsWith('akri-'))).toHaveLength(3),
    )
    await world.apply(podYaml('q', { 'akri.sh/cam-a19705': 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p', 'q'))
  })

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'A2 an agent beside a running agent ends, and serves after the end of that by %s',
    async (signal) => {
      const old = agents.on(NODE_1)
      const young = NodeAgent.beside(old)
      try {
        await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
        await eventually(async () =>
          expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]),
        )
        await world.apply(
          podYaml('p', { 'akri.sh/cam': 1, 'akri.sh/cam-a19705': 1 }, { node: NODE_1 }),
        )
        await eventually(() => world.running('p'))
        await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(3))
        await eventually(() => world.joined())
        const before = identities(await world.instances())
        const registered = await world.registrations(NODE_1)
        for (let round = 0; round < 3; round++) {
          await young.start()
          await eventually(async () => expect(await young.exitCode()).toBe(1))
        }
        expect(await young.output()).toContain(
          'agent-registration.sock is served by another process already',
        )
        expect(await world.registrations(NODE_1)).toBe(registered)
        await old.stop(signal)
        await young.start()
        // One registration for each plugin.
        await eventually(async () => expect(await world.registrations(NODE_1)).toBe(registered + 3))
        await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(3))
        expect(identities(await world.instances())).toEqual(before)
        await world.apply(podYaml('q', { 'akri.sh/cam': 2 }, { node: NODE_1 }))
        await eventually(() => world.running('p', 'q'))
      } finally {
        await young.stop()
        await old.start()
      }
    },
  )

  it('A21 an agent registers again with a restarted kubelet, and changes no more', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    const before = identities(await world.instances())
    await access.killKubelet(NODE_1)
    await eventually(async () =>
      expect(await agents.on(NODE_1).output()).toMatch(/kubelet restarted/),
    )
    // One registration for each plugin. The kubelet's count started at zero.
    await eventually(async () =>
      expect(await world.registrations(NODE_1)).toBeGreaterThanOrEqual(2),
    )
    await world.apply(podYaml('q', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p', 'q'))
    const after = identities(await world.instances())
    expect(after[0]?.uid).toBe(before[0]?.uid)
    expect(await world.holders()).toEqual([`C:0:${NODE_1}`, NODE_1])
  })
})
