import { systemClock } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import { missing, NODE_1, NODE_2, NODES, unless } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, podYaml, World } from './support/world.js'

// People write, edit and delete Configurations, Instances and Secrets while agents run.

describe.skipIf(missing() !== undefined)(`agents whose objects are edited${unless}`, () => {
  let world: World
  let agents: NodeAgents

  useAgents((opened) => {
    world = opened.world
    agents = opened.agents
  })

  it('A6 A19 A20 R7 an agent follows edits, and leaves running Pods alone', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () =>
      expect(await world.allocatables('akri.sh/cam-8120fe')).toEqual([1, 1]),
    )
    await world.apply(podYaml('p', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    const uid = (await world.instances())[0]?.metadata.uid
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, { brokerProperties: { SITE: 'south' } }))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await eventually(async () =>
      expect(await world.allocatable(NODE_2, 'akri.sh/cam-8120fe')).toBe(2),
    )
    await world.apply(podYaml('q', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_2 }))
    await eventually(async () => expect(await world.logs('q')).toContain('SITE=south'))
    // The capacity is lower than the number of claims: no claim is released, and there is no new
    // one.
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () =>
      expect(
        Object.values((await world.instances())[0]?.spec.deviceUsage ?? {}).filter(Boolean),
      ).toHaveLength(2),
    )
    await eventually(async () =>
      expect(await world.allocatable(NODE_2, 'akri.sh/cam-a19705')).toBe(1),
    )
    expect(
      (await world.instances()).find(({ metadata }) => metadata.name === 'cam-8120fe')?.metadata
        .uid,
    ).toBe(uid)
    await world.running('p', 'q')
    await world.remove('Configuration', 'cam')
    await eventually(async () => expect(await world.instances()).toEqual([]))
    await eventually(async () =>
      expect(await world.allocatables('akri.sh/cam-8120fe')).toEqual([0, 0]),
    )
    // Pods that a person created keep running.
    await world.running('p', 'q')
  })

  it("A11 A20 a raised capacity takes effect while the first node's agent is away", async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerProperties: { SITE: 'south' } }))
    await eventually(async () =>
      expect(await world.allocatables('akri.sh/cam-8120fe')).toEqual([1, 1]),
    )
    await eventually(() => world.joined())
    const [first, second] = (await world.instances())[0]?.spec.nodes ?? []
    const [away, here] =
      first === NODE_1 ? ([NODE_1, NODE_2] as const) : ([NODE_2, NODE_1] as const)
    expect([away, here]).toEqual([first, second])
    await agents.on(away).stop('SIGKILL')
    try {
      await world.apply(echoYaml('cam', ['foo0'], 3, { brokerProperties: { SITE: 'north' } }))
      await eventually(async () =>
        expect(await world.allocatable(here, 'akri.sh/cam-8120fe')).toBe(3),
      )
      // Only the first node decides about the properties of a device.
      expect((await world.instances())[0]?.spec).toMatchObject({
        capacity: 3,
        brokerProperties: { SITE: 'south' },
      })
    } finally {
      await agents.on(away).start()
    }
    await eventually(async () =>
      expect((await world.instances())[0]?.spec.brokerProperties).toMatchObject({ SITE: 'north' }),
    )
  })

  it('R99 A10 an agent restores an edited Instance, and recreates a deleted one', async () => {
    const name = 'cam-8120fe'
    await world.apply(echoYaml('cam', ['foo0'], 2, { brokerProperties: { SITE: 'north' } }))
    await eventually(async () =>
      expect(await world.allocatables(`akri.sh/${name}`)).toEqual([2, 2]),
    )
    await world.apply(podYaml('p', { [`akri.sh/${name}`]: 1 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    const instance = async () =>
      (await world.get<InstanceState>('Instance', name)) ?? expect.fail('there is no Instance')
    const { metadata, spec } = await instance()
    const edits = [
      { nodes: [] },
      { capacity: 5 },
      { brokerProperties: { SITE: 'south', DOOR: 'open' } },
    ]
    for (const edit of edits) {
      await world.api('Instance').patch(world.key(name), 'merge', { spec: edit })
      await eventually(async () => {
        const now = await instance()
        expect({ ...now.spec, nodes: now.spec.nodes.toSorted() }).toEqual({
          ...spec,
          nodes: [...NODES],
        })
      })
    }
    // A missing slot is free, and an entry that is no slot of the Instance belongs to no node.
    const free =
      Object.keys(spec.deviceUsage).find((slot) => spec.deviceUsage[slot] === '') ??
      expect.fail('no slot is free')
    await world.api('Instance').patch(world.key(name), 'merge', {
      spec: { deviceUsage: { [free]: null, 'cam-8120fe-x': '' } },
    })
    await world.apply(podYaml('q', { [`akri.sh/${name}`]: 1 }, { node: NODE_2 }))
    await eventually(() => world.running('p', 'q'))
    expect((await instance()).spec.deviceUsage).toMatchObject({
      ...spec.deviceUsage,
      [free]: NODE_2,
    })
    await world.remove('Pod', 'q')
    await world.remove('Pod', 'p')
    await eventually(async () => expect(await world.holders()).toEqual([]))
    await world.remove('Instance', name)
    await eventually(async () => {
      const now = await instance()
      expect(now.metadata.uid).not.toBe(metadata.uid)
      expect(now.spec.nodes.toSorted()).toEqual([...NODES])
    })
    await world.apply(podYaml('r', { [`akri.sh/${name}`]: 1 }))
    await eventually(() => world.running('r'))
  })

  it('A7 the status names a missing Secret; discovery goes on once it exists', async () => {
    const from = { valueFrom: { secretKeyRef: { name: 'lab', key: 'token' } } }
    const echo = {
      name: 'debugEcho',
      discoveryDetails: 'descriptions: [foo0]',
      discoveryProperties: [{ name: 'token', ...from }],
    }
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'cam' },
        spec: { discoveryHandler: echo },
      }),
    )
    const condition = (type: 'Discovering' | 'HandlerConnected' | 'Ready') =>
      world.reportedCondition('cam', type)
    await eventually(async () =>
      expect(await condition('Discovering')).toMatchObject({
        status: 'False',
        reason: 'MissingProperty',
        message: expect.stringContaining(`there is no Secret ${world.namespace}/lab`),
      }),
    )
    expect(await world.instances()).toEqual([])
    await world.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: { name: 'lab' },
        stringData: { token: 's3cret-word' },
      }),
    )
    await eventually(async () => expect(await world.instances()).toHaveLength(1))
    await eventually(async () => expect(await condition('Ready')).toMatchObject({ status: 'True' }))
    for (const condition of agents.all)
      expect(await condition.output()).not.toContain('s3cret-word')
  })

  it('A8 the second Configuration of a name is rejected until the first is gone', async () => {
    const other = await World.open()
    try {
      await world.apply(echoYaml('cam', ['foo0'], 1))
      await eventually(async () => expect(await world.instances()).toHaveLength(1))
      // Creation timestamps have whole seconds.
      await systemClock.sleep(1100)
      await other.apply(echoYaml('cam', ['foo1'], 1))
      await eventually(async () => {
        expect(await other.reportedCondition('cam', 'Ready')).toMatchObject({
          reason: 'NameTaken',
          message: expect.stringContaining(world.namespace),
        })
      })
      expect(await other.instances()).toEqual([])
      await world.remove('Configuration', 'cam')
      await eventually(async () =>
        expect((await other.instances()).map(({ metadata }) => metadata.name)).toEqual([
          'cam-a19705',
        ]),
      )
    } finally {
      await other.close()
    }
  })

  it('the resource of a name belongs to the older Configuration, on every node', async () => {
    const other = await World.open()
    const ready = (of: World, name: string) => of.reportedCondition(name, 'Ready')
    const instances = async (of: World) =>
      (await of.instances()).map(({ metadata }) => metadata.name).sort()
    const theirs = ['a19705', 'ab76e6', 'd46b65'].map((digest) => `cam2-8120fe-${digest}`)
    try {
      await world.apply(echoYaml('cam2', ['foo1'], 1))
      await eventually(async () =>
        expect(await world.allocatables('akri.sh/cam2-a19705')).toEqual([1, 1]),
      )
      // Creation timestamps have whole seconds.
      await systemClock.sleep(1100)
      await other.apply(echoYaml('cam2-8120fe', ['bar0', 'bar1', 'foo1'], 1))
      await eventually(async () =>
        expect(await ready(other, 'cam2-8120fe')).toMatchObject({
          reason: 'NameTaken',
          message: expect.stringContaining(`Configuration cam2 of namespace ${world.namespace}`),
        }),
      )
      expect(await instances(other)).toEqual([])
      expect(await world.allocatables('akri.sh/cam2-8120fe')).not.toContain(3)
      // The device appears: its Instance has the resource.
      await world.apply(echoYaml('cam2', ['foo0', 'foo1'], 1))
      await eventually(async () =>
        expect(await world.allocatables('akri.sh/cam2-8120fe')).toEqual([1, 1]),
      )
      await eventually(async () =>
        expect(await ready(world, 'cam2')).toMatchObject({ reason: 'AllDevicesServed' }),
      )
      // The older Configuration is gone: the other gets the name, and keeps it.
      await world.remove('Configuration', 'cam2')
      await eventually(async () => expect(await instances(other)).toEqual(theirs))
      await eventually(async () =>
        expect(await world.allocatables('akri.sh/cam2-8120fe')).toEqual([3, 3]),
      )
      await world.apply(echoYaml('cam2', ['foo0', 'foo1'], 1))
      await eventually(async () =>
        expect(await ready(world, 'cam2')).toMatchObject({
          reason: 'NameTaken',
          message: expect.stringContaining(`${other.namespace}/cam2-8120fe`),
        }),
      )
      // The garbage collector deletes the Instances of the Configuration before.
      await eventually(async () => expect(await instances(world)).toEqual(['cam2-a19705']))
      expect(await instances(other)).toEqual(theirs)
      expect(await world.allocatables('akri.sh/cam2-8120fe')).toEqual([3, 3])
      await other.remove('Configuration', 'cam2-8120fe')
      await eventually(async () =>
        expect(await world.allocatables('akri.sh/cam2-8120fe')).toEqual([1, 1]),
      )
    } finally {
      // Both have the name: one that is left would keep the resource.
      await world.clear()
      await other.close()
    }
  })

  it('the status names the wrong field of details, and others are served', async () => {
    await world.apply(echoYaml('good', ['foo0'], 1))
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'bad' },
        spec: {
          discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [KERNEL="null"]' },
        },
      }),
    )
    await eventually(async () => {
      expect(await world.reportedCondition('bad', 'Discovering')).toMatchObject({
        reason: 'InvalidDetails',
        message: expect.stringContaining('udevRules[0]'),
      })
    })
    await eventually(async () =>
      expect((await world.instances()).map(({ spec }) => spec.configurationName)).toEqual(['good']),
    )
  })

  it('a Configuration without devices says which devices came closest to its rules', async () => {
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'near' },
        spec: {
          discoveryHandler: {
            name: 'udev',
            discoveryDetails: 'udevRules: [\'SUBSYSTEM=="mem", ATTR{dev}=="1:99"\']',
          },
        },
      }),
    )
    await eventually(async () => {
      expect(await world.reportedCondition('near', 'Ready')).toMatchObject({
        status: 'True',
        reason: 'DevicesLeftOut',
        message: expect.stringMatching(
          /^0 devices; 5 not offered: 5 x rule 1 of 1 asks for ATTR\{dev\}=="1:99" \(such as \//,
        ),
      })
    })
  })
})
