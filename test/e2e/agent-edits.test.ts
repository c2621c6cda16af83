import { describe, expect, it } from 'vitest'
import { useAgents } from './support/node-agents.js'
import { missing, NODE_1, NODE_2, NODES, unless } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, podYaml, type World } from './support/world.js'

// People write, edit and delete Configurations and Instances while agents and Pods run. Each test
// goes on with what the tests before it left.

const NAME = 'cam-8120fe'

describe.skipIf(missing() !== undefined)(`agents whose objects are edited${unless}`, () => {
  let world: World

  useAgents(
    (opened) => {
      world = opened.world
    },
    { inTurn: true },
  )

  const instance = async () =>
    (await world.get<InstanceState>('Instance', NAME)) ?? expect.fail('there is no Instance')
  const site = (name: string) => ({ brokerProperties: { SITE: name } })

  it('A6 A19 A20 R7 an agent follows edits of a Configuration', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () =>
      expect(await world.allocatables(`akri.sh/${NAME}`)).toEqual([1, 1]),
    )
    await world.apply(podYaml('p', { [`akri.sh/${NAME}`]: 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    const { uid } = (await instance()).metadata
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, site('south')))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await eventually(async () => expect(await world.allocatable(NODE_2, `akri.sh/${NAME}`)).toBe(2))
    await world.apply(podYaml('q', { [`akri.sh/${NAME}`]: 1 }, { node: NODE_2 }))
    await eventually(async () => expect(await world.logs('q')).toContain('SITE=south'))
    expect((await instance()).metadata.uid).toBe(uid)
  })

  it('R99 A10 an agent restores an edited Instance, and its slots stay claimed', async () => {
    await eventually(() => world.joined())
    const { spec } = await instance()
    const free =
      Object.keys(spec.deviceUsage).find((slot) => spec.deviceUsage[slot] === '') ??
      expect.fail('no slot is free')
    const edit = {
      nodes: [],
      capacity: 5,
      brokerProperties: { SITE: 'north', DOOR: 'open' },
      // A missing slot is free, and an entry that is no slot of the Instance belongs to no node.
      deviceUsage: { [free]: null, [`${NAME}-x`]: '' },
    }
    await world.api('Instance').patch(world.key(NAME), 'merge', { spec: edit })
    await eventually(async () => {
      const { deviceUsage: _now, ...now } = (await instance()).spec
      const { deviceUsage: _before, ...before } = spec
      expect({ ...now, nodes: now.nodes.toSorted() }).toEqual({ ...before, nodes: [...NODES] })
    })
    await world.apply(podYaml('r', { [`akri.sh/${NAME}`]: 1 }, { node: NODE_2 }))
    await eventually(() => world.running('p', 'q', 'r'))
    expect((await instance()).spec.deviceUsage).toMatchObject({
      ...spec.deviceUsage,
      [free]: NODE_2,
    })
  })

  it('A20 R7 Pods keep what they got without capacity, and without a Configuration', async () => {
    // The capacity is lower than the number of claims: no claim is released, and there is no new
    // one.
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1, site('south')))
    await eventually(async () =>
      expect(await world.allocatables('akri.sh/cam-a19705')).toEqual([1, 1]),
    )
    expect(await world.holders()).toEqual([NODE_1, NODE_2, NODE_2])
    await world.remove('Configuration', 'cam')
    await eventually(async () => expect(await world.instances()).toEqual([]))
    await eventually(async () =>
      expect(await world.allocatables(`akri.sh/${NAME}`)).toEqual([0, 0]),
    )
    // Pods that a person created keep running.
    await world.running('p', 'q', 'r')
  })
})
