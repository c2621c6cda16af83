import { systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { NodeAgent } from './support/node-agent.js'
import { missing, NODE_1, NODE_2, NODES, setAvailable } from './support/nodes.js'
import { checkSlots } from './support/slots.js'
import { tidyUp } from './support/tidy-up.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

// Instances lose their claims while containers of both nodes use the slots, and other Pods wait.
// Each test goes on with what the tests before it left.

/**
 * The resource of Pods at each level. Each device has as many slots as there are nodes, and each
 * node claims one.
 */
const LEVELS = [
  { level: 'il', resource: 'akri.sh/lab-8120fe' },
  { level: 'cl', resource: 'akri.sh/cam' },
] as const
const CONFIGURATIONS = ['lab', 'cam']
const CAPACITY = NODES.length
/** How long a slot stays reserved for a node whose agent is away: on a busy machine too. */
const RESERVED = { AKRI_SLOT_HANDOVER: '600' }
/** Long enough for the scheduler to send a waiting Pod to a slot that looks free. */
const SCHEDULED_MS = 2000

const using = (level: string) => NODES.map((node) => `p-${level}-${node}`)
const ALL_USING = LEVELS.flatMap(({ level }) => using(level))
const ALL_WAITING = LEVELS.map(({ level }) => `q-${level}`)

describeUnless(missing(), 'slots of running containers', () => {
  let world: World
  let agents: NodeAgent[]
  let held: Record<string, string>

  const apply = () =>
    Promise.all(CONFIGURATIONS.map((name) => world.apply(echoYaml(name, ['foo0'], CAPACITY))))
  const removeAll = async () => {
    for (const name of CONFIGURATIONS) await world.remove('Configuration', name)
    await eventually(async () => expect(await world.instances()).toEqual([]))
  }
  const deleteInstances = async () => {
    for (const { metadata } of await world.instances())
      await world.remove('Instance', metadata.name)
  }
  const free = async () => {
    const edit = (name: string, deviceUsage: object) =>
      world.api('Instance').patch(world.key(name), 'merge', { spec: { deviceUsage } })
    await edit('lab-8120fe', { 'lab-8120fe-0': '', 'lab-8120fe-1': '' })
    await edit('cam-8120fe', { 'cam-8120fe-0': null })
  }
  /** The agent of the first node is away; its containers run on. */
  const withoutAgent = async (work: () => Promise<unknown>) => {
    const [agent] = agents
    await agent?.stop('SIGKILL')
    try {
      await work()
    } finally {
      await agent?.start()
    }
  }
  const versions = async () =>
    (await world.instances()).map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`)
  const restored = () =>
    eventually(async () => {
      expect(await world.usage()).toEqual(held)
      for (const { spec } of await world.instances()) expect(spec.nodes.toSorted()).toEqual(NODES)
    }, 45_000)

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    agents = await Promise.all(NODES.map((node) => NodeAgent.create(node, RESERVED)))
    for (const agent of agents) await agent.start()
    await apply()
    for (const [index, node] of NODES.entries()) {
      for (const { level, resource } of LEVELS) {
        await eventually(async () =>
          expect(await world.allocatable(node, resource)).toBeGreaterThan(0),
        )
        await world.apply(
          podYaml(using(level)[index] ?? '', { [resource]: 1 }, { node, graceSeconds: 0 }),
        )
      }
      const first = LEVELS.flatMap(({ level }) => using(level).slice(0, index + 1))
      await eventually(() => world.running(...first))
    }
    for (const { level, resource } of LEVELS) {
      // Each node offers the slot that its container has, and the scheduler knows it.
      await eventually(async () => expect(await world.allocatables(resource)).toEqual([1, 1]))
      await world.apply(podYaml(`q-${level}`, { [resource]: 1 }, { graceSeconds: 0 }))
    }
    held = await world.usage()
    expect(Object.values(held).sort()).toEqual([`C:0:${NODE_1}`, `C:0:${NODE_2}`, NODE_1, NODE_2])
  })

  afterAll(() =>
    tidyUp(
      () => Promise.all((agents ?? []).map((agent) => agent.dispose())),
      async () => world?.close(),
    ),
  )

  it.each<[string, () => Promise<unknown>]>([
    [
      'Instances are deleted again and again',
      async () => [await deleteInstances(), await restored(), await deleteInstances()],
    ],
    [
      'Configurations are deleted and applied again, while the agent of a node is dead',
      async () => {
        await removeAll()
        await withoutAgent(async () => {
          await apply()
          await eventually(async () =>
            expect(await world.instances()).toHaveLength(CONFIGURATIONS.length),
          )
          // The other node considers the slots of this node free.
          await systemClock.sleep(SCHEDULED_MS)
        })
      },
    ],
    ['a person frees slots, or removes their keys', free],
  ])(
    'R7 R84 are allocated to no other container, at both levels and on both nodes, when %s',
    async (_, blow) => {
      const before = new Set(await versions())
      await blow()
      await restored()
      for (const version of await versions()) expect(before).not.toContain(version)
      const phases = Object.fromEntries([
        ...ALL_USING.map((name) => [name, 'Running']),
        ...ALL_WAITING.map((name) => [name, 'Pending']),
      ])
      expect(await world.phases()).toEqual(phases)
      await checkSlots(world, 'restored')
    },
  )

  it('R77 R84 R90 go to waiting Pods once their containers are gone', async () => {
    for (const { level } of LEVELS) await world.remove('Pod', `p-${level}-${NODE_2}`)
    await eventually(() => world.running(...ALL_WAITING))
    await eventually(() => checkSlots(world, 'given to others'))
  })
})
