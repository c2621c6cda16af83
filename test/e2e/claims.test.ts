import { systemClock } from '@akrijs/sdk'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest'
import { NodeAgents } from './support/node-agents.js'
import { checkSlots } from './support/slots.js'
import { echoYaml, eventually, missing, podYaml, unless, World } from './support/world.js'

// What an Instance says of its slots is lost while a container uses one, and another node has a Pod that waits for it.

/** By level what a Pod asks for, and what its slot says then. Each of the two devices has one slot. */
const LEVELS = [
  { level: 'il', resource: 'akri.sh/lab-8120fe', slot: 'lab-8120fe-0', usage: 'node-1' },
  { level: 'cl', resource: 'akri.sh/cam', slot: 'cam-8120fe-0', usage: 'C:0:node-1' },
] as const
const CONFIGURATIONS = ['lab', 'cam']
/** A few times what a node's status takes to tell the scheduler of a slot that is free, in milliseconds. */
const LONG_ENOUGH_MS = 5000

describe.skipIf(missing() !== undefined)(`slots of running containers${unless}`, { timeout: 120_000 }, () => {
  let world: World
  let agents: NodeAgents

  const held = Object.fromEntries(LEVELS.map(({ slot, usage }) => [slot, usage]))
  const apply = () => Promise.all(CONFIGURATIONS.map((name) => world.apply(echoYaml(name, ['foo0'], 1))))
  const removeAll = async () => {
    for (const name of CONFIGURATIONS) await world.remove('Configuration', name)
    await eventually(async () => expect(await world.instances()).toEqual([]))
  }
  const deleteInstances = async () => {
    for (const { metadata } of await world.instances()) await world.remove('Instance', metadata.name)
  }
  const free = async () => {
    const edit = (name: string, deviceUsage: object) =>
      world.api('Instance').patch(world.key(name), 'merge', { spec: { deviceUsage } })
    await edit('lab-8120fe', { 'lab-8120fe-0': '' })
    await edit('cam-8120fe', { 'cam-8120fe-0': null })
  }
  const versions = async () => (await world.instances()).map(({ metadata }) => `${metadata.name} ${metadata.resourceVersion}`)

  beforeAll(async () => {
    world = await World.open()
    agents = await NodeAgents.start()
  }, 120_000)

  beforeEach(async () => {
    await apply()
    for (const { level, resource } of LEVELS) {
      await eventually(async () => expect(await world.allocatables(resource)).toEqual([1, 1]))
      await world.apply(podYaml(`p-${level}`, { [resource]: 1 }, { node: 'node-1', graceSeconds: 0 }))
    }
    await eventually(() => world.running('p-il', 'p-cl'))
    for (const { level, resource } of LEVELS) {
      await eventually(async () => expect(await world.allocatable('node-2', resource)).toBe(0))
      await world.apply(podYaml(`q-${level}`, { [resource]: 1 }, { node: 'node-2', graceSeconds: 0 }))
    }
    expect(await world.usage()).toEqual(held)
  }, 120_000)

  afterEach(() => world.clear(), 120_000)

  afterAll(async () => {
    await agents?.dispose()
    await world?.close()
  }, 120_000)

  it.each<[string, () => Promise<unknown>]>([
    ['the Instance is deleted', deleteInstances],
    ['the Configuration is deleted and applied again', async () => [await removeAll(), await apply()]],
    [
      'the Configuration is deleted and applied again, while the agent of the node is dead',
      async () => {
        await removeAll()
        await agents.on('node-1').stop('SIGKILL')
        try {
          await apply()
          // Long enough for a Pod that waits to be given what the other node is told to be free.
          await eventually(async () => expect(await world.instances()).toHaveLength(CONFIGURATIONS.length))
          await systemClock.sleep(LONG_ENOUGH_MS)
        } finally {
          agents.on('node-1').start()
        }
      },
    ],
    ['somebody frees the slot, or removes its key', free],
  ])('R7 R84 are given to nobody else, of both levels, when %s', async (_, blow) => {
    const before = new Set(await versions())
    await blow()
    await eventually(async () => {
      expect(await world.usage()).toEqual(held)
      for (const { spec } of await world.instances()) expect(spec.nodes.toSorted()).toEqual(['node-1', 'node-2'])
    }, 20_000)
    const restored = await versions()
    for (const version of restored) expect(before).not.toContain(version)
    for (const end = systemClock.now() + LONG_ENOUGH_MS; systemClock.now() < end; await systemClock.sleep(200))
      expect(await world.phases()).toEqual({ 'p-il': 'Running', 'p-cl': 'Running', 'q-il': 'Pending', 'q-cl': 'Pending' })
    await checkSlots(world, 'restored')
    // Once it is put right nobody writes any more.
    expect(await versions()).toEqual(restored)

    for (const { level } of LEVELS) await world.remove('Pod', `p-${level}`)
    await eventually(() => world.running('q-il', 'q-cl'), 20_000)
    await eventually(() => checkSlots(world, 'given to others'))
  })
})
