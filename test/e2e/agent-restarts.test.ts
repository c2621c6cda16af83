import { readdirSync } from 'node:fs'
import path from 'node:path'
import { systemClock } from '@akrijs/sdk'
import { describe, expect, it } from 'vitest'
import { HostAgent } from './support/host-agent.js'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import {
  echoYaml,
  eventually,
  type InstanceState,
  kubeletDirectory,
  missing,
  onNode,
  podYaml,
  unless,
  type World,
} from './support/world.js'

// Agents and kubelets that end, come back, are exchanged or fall silent, while Pods use devices.

describe.skipIf(missing() !== undefined)(`agents and kubelets that come and go${unless}`, { timeout: 120_000 }, () => {
  let world: World
  let agents: NodeAgents

  const identities = (instances: readonly InstanceState[]) =>
    instances.map(({ metadata, spec }) => ({ uid: metadata.uid, generation: metadata.generation, spec }))

  useAgents((opened) => {
    world = opened.world
    agents = opened.agents
  })

  it('A2 A3 keeps Pods, Instances and slots over kill -9 of the agent, and offers devices again at once', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 2 }, { node: 'node-1' }))
    await eventually(() => world.running('p'))
    await eventually(async () => expect(await world.holders()).toEqual(['C:0:node-1', 'C:1:node-1']))
    const before = identities(await world.instances())
    const pods = (await world.pods()).map(({ metadata }) => metadata.uid)
    for (let round = 0; round < 3; round++) {
      await agents.on('node-1').stop('SIGKILL')
      agents.on('node-1').start()
      await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam-a19705')).toBe(1))
    }
    // Longer than a slot is given to a container that starts.
    await systemClock.sleep(3000)
    expect(identities(await world.instances())).toEqual(before)
    expect((await world.pods()).map(({ metadata }) => metadata.uid)).toEqual(pods)
    await world.running('p')
    // Of the sockets of those that were killed none is left.
    const sockets = () =>
      readdirSync(path.join(kubeletDirectory('node-1'), 'device-plugins')).filter((name) => name.startsWith('akri-'))
    await eventually(() => expect(sockets()).toHaveLength(3))
  })

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'A2 is exchanged: one beside another that runs leaves it alone and ends, and serves once that one has ended by %s',
    async (signal) => {
      const old = agents.on('node-1')
      const young = HostAgent.beside(old)
      try {
        await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
        await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
        await world.apply(podYaml('p', { 'akri.sh/cam': 1, 'akri.sh/cam-a19705': 1 }, { node: 'node-1' }))
        await eventually(() => world.running('p'))
        await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam')).toBe(3))
        const before = identities(await world.instances())
        const registered = await world.registrations('node-1')
        for (let round = 0; round < 3; round++) {
          young.start()
          await eventually(() => expect(young.exitCode).toBe(1))
        }
        expect(young.output).toContain('agent-registration.sock is served by another process already')
        expect(await world.registrations('node-1')).toBe(registered)
        await old.stop(signal)
        young.start()
        // Once for each plugin.
        await eventually(async () => expect(await world.registrations('node-1')).toBe(registered + 3), 10_000)
        await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam')).toBe(3), 10_000)
        expect(identities(await world.instances())).toEqual(before)
        await world.apply(podYaml('q', { 'akri.sh/cam': 2 }, { node: 'node-1' }))
        await eventually(() => world.running('p', 'q'))
      } finally {
        await young.stop()
        old.start()
      }
    },
  )

  it('A21 registers anew with a kubelet that restarts, and changes nothing', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: 'node-1' }))
    await eventually(() => world.running('p'))
    const before = identities(await world.instances())
    await onNode('node-1', '--restart', 'kubelet')
    await eventually(() => expect(agents.on('node-1').output).toMatch(/the kubelet restarted/))
    await eventually(async () => expect(await world.allocatable('node-1', 'akri.sh/cam-8120fe')).toBe(1))
    await world.apply(podYaml('q', { 'akri.sh/cam-8120fe': 1 }, { node: 'node-1' }))
    await eventually(() => world.running('p', 'q'))
    const after = identities(await world.instances())
    expect(after[0]?.uid).toBe(before[0]?.uid)
    expect(await world.holders()).toEqual(['C:0:node-1', 'node-1'])
  })

  it('keeps what a node has whose kubelet is silent, gives the rest to others, and goes on when it is back', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: 'node-2' }))
    await eventually(() => world.running('p'))
    const before = identities(await world.instances())
    await onNode('node-2', '--restart', 'kubelet', 'STOP')
    try {
      await eventually(async () => expect(await world.isReady('node-2')).toBe(false))
      expect(identities(await world.instances())).toEqual(before)
      await world.apply(podYaml('q', { 'akri.sh/cam': 1 }, { node: 'node-1' }))
      await eventually(async () => expect(await world.holders()).toEqual(['C:0:node-1', 'C:0:node-2']))
      await eventually(async () => expect((await world.phases()).q).toBe('Running'))
    } finally {
      await onNode('node-2', '--restart', 'kubelet', 'CONT')
    }
    await eventually(async () => expect(await world.isReady('node-2')).toBe(true))
    await world.running('p', 'q')
    expect(await world.holders()).toEqual(['C:0:node-1', 'C:0:node-2'])
  })
})
