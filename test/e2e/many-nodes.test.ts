import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Configuration } from '@akrijs/api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BenchNodes } from '../../bench/src/bench-nodes.js'
import { bundleTypeScript } from '../../bench/src/load-typescript.mjs'
import { BenchProcess } from '../../bench/src/processes/bench-process.js'
import { HostController } from './support/host-controller.js'
import { BUILT_HANDLERS } from './support/host-program.js'
import { NodeAgent } from './support/node-agent.js'
import { access, missingHere, NODE_1, NODE_2, setAvailable } from './support/nodes.js'
import { missingPreviousVersion, PreviousVersion } from './support/previous-version.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

// From ten nodes on, agents of this version ask the controller to write the nodes of a shared
// Instance. Agents of the version before write them all the same, and write a status that lacks the
// number of nodes.

/** Without a kubelet of their own: what only they do is what their kubelets are told. */
const FURTHER = Array.from({ length: 10 }, (_, index) => `further-${index}`)
const EVERYWHERE = [...FURTHER, NODE_1, NODE_2].toSorted()
const SLOTS = 3

const lacks = missingHere() ?? missingPreviousVersion()
const unless = lacks === undefined ? '' : ` (${lacks})`

describe.skipIf(lacks !== undefined)(`agents of two versions on twelve nodes${unless}`, () => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-n'))
  let previous: PreviousVersion
  let world: World
  let controller: HostController
  let nodes: BenchNodes
  let further: BenchProcess
  let before: NodeAgent
  let after: NodeAgent
  let other: NodeAgent

  beforeAll(async () => {
    await setAvailable(true)
    previous = await PreviousVersion.build()
    world = await World.open()
    controller = new HostController('many', world.namespace)
    await controller.lead()
    nodes = new BenchNodes(world)
    await nodes.add(FURTHER)
    const bundle = await bundleTypeScript('bench/src/processes/agents-process.ts')
    further = new BenchProcess(bundle, [], {
      DEBUG_ECHO_AVAILABILITY_FILE: access.availabilityFile,
    })
    await further.ask(
      'start',
      FURTHER.map((name, index) => ({
        name,
        directory: path.join(directory, String(index)),
        devices: {},
        handlers: [BUILT_HANDLERS.split(',')[0] ?? ''],
      })),
    )
    after = await NodeAgent.create(NODE_1)
    before = NodeAgent.beside(after, { AKRI_HANDLERS: previous.handlers }, previous.agent)
    other = await NodeAgent.create(NODE_2)
  })

  afterAll(async () => {
    for (const agent of [before, after, other]) await agent?.dispose()
    await world?.clear()
    await further?.stop()
    await nodes?.close()
    await controller?.stop()
    await world?.close()
    await previous?.remove()
    rmSync(directory, { recursive: true, force: true })
  })

  /** Each device has all nodes, and the summary counts all of them. */
  async function isServed(claimed: number): Promise<void> {
    await eventually(async () => {
      const instances = await world.instances()
      expect(instances).toHaveLength(2)
      for (const { spec } of instances) expect(spec.nodes.toSorted()).toEqual(EVERYWHERE)
      const { status } = (await world.get<Configuration>('Configuration', 'cam')) ?? {}
      expect(status).toMatchObject({
        devices: 2,
        slots: { total: 2 * SLOTS, claimed },
        nodeCounts: { reporting: EVERYWHERE.length, ready: EVERYWHERE.length },
      })
      // One of each device, and what Pods of the node have.
      expect(await world.allocatables('akri.sh/cam')).toEqual([2 + claimed, 2])
    })
  }

  const identities = async () =>
    (await world.instances()).map(({ metadata: { uid } }) => uid).sort()

  it('A2 A10 R98 share devices, and a change of version there and back loses nothing', async () => {
    await before.start()
    await other.start()
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], SLOTS))
    await isServed(0)
    await world.apply(podYaml('p', { 'akri.sh/cam': 2 }, { node: NODE_1 }))
    await eventually(() => world.running('p'))
    await isServed(2)
    const uids = await identities()
    const holders = await world.holders()

    for (const [first, second] of [
      [before, after],
      [after, before],
    ] as const) {
      await first.stop()
      await second.start()
      await eventually(async () => expect(await second.output()).toContain('agent started'))
      await isServed(2)
      expect(await identities()).toEqual(uids)
      expect(await world.holders()).toEqual(holders)
    }

    // All find the device gone, and all leave its Instance, but it returns on all nodes.
    await world.remove('Pod', 'p')
    await setAvailable(false)
    await eventually(async () => expect(await world.instances()).toEqual([]))
    await setAvailable(true)
    await isServed(0)
  })
})
