import { describe, expect, it } from 'vitest'
import { useAgents } from './support/node-agents.js'
import { missingHere, NODE_1, NODE_2, onNode, unlessHere } from './support/nodes.js'
import { echoYaml, eventually, podYaml, type World } from './support/world.js'

describe.skipIf(missingHere() !== undefined)(`a node with a hanging kubelet${unlessHere}`, () => {
  let world: World

  useAgents((opened) => {
    world = opened.world
  })

  const identities = async () =>
    (await world.instances()).map(({ metadata, spec }) => ({
      uid: metadata.uid,
      generation: metadata.generation,
      spec,
    }))

  it('keeps its claims, and goes on with its kubelet', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: NODE_2 }))
    await eventually(() => world.running('p'))
    await eventually(() => world.joined())
    const before = await identities()
    await onNode(NODE_2, '--restart', 'kubelet', 'STOP')
    try {
      await eventually(async () => expect(await world.isReady(NODE_2)).toBe(false))
      expect(await identities()).toEqual(before)
      await world.apply(podYaml('q', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
      await eventually(async () =>
        expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:0:${NODE_2}`]),
      )
      await eventually(async () => expect((await world.phases()).q).toBe('Running'))
    } finally {
      await onNode(NODE_2, '--restart', 'kubelet', 'CONT')
    }
    await eventually(async () => expect(await world.isReady(NODE_2)).toBe(true))
    await world.running('p', 'q')
    expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:0:${NODE_2}`])
  })
})
