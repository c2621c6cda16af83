import type { Configuration } from '@akrijs/api'
import { systemClock } from '@akrijs/runtime'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { HostController } from './support/host-controller.js'
import { podSpec } from './support/made.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODE_2, setAvailable } from './support/nodes.js'
import { missingPreviousVersion, PreviousVersion } from './support/previous-version.js'
import { echoYaml, eventually, type InstanceState, podYaml, World } from './support/world.js'

// A roll-out reaches one node after the other, and a roll-back too: agents of the version before
// and of this version serve the same devices, beside the controller of this version.

/** How long the statuses must stay the same: several times the pause between two summaries. */
const QUIET_MS = 10_000

const lacks = missingHere() ?? missingPreviousVersion()
const unless = lacks === undefined ? '' : ` (${lacks})`

type LabelledInstance = InstanceState & {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> }
}

describe.skipIf(lacks !== undefined)(`an agent of the version before${unless}`, () => {
  let previous: PreviousVersion
  let world: World
  let controller: HostController
  /** On NODE_1, with the same directories. */
  let before: NodeAgent
  let after: NodeAgent
  let other: NodeAgent

  beforeAll(async () => {
    await setAvailable(true)
    previous = await PreviousVersion.build()
    world = await World.open()
    controller = new HostController('roll-out', world.namespace)
    await controller.lead()
    after = await NodeAgent.create(NODE_1)
    before = NodeAgent.beside(after, { AKRI_HANDLERS: previous.handlers }, previous.agent)
    other = await NodeAgent.create(NODE_2)
  })

  afterEach(async () => {
    await world.clear()
    for (const agent of [before, after, other]) await agent.stop()
  })

  afterAll(async () => {
    await controller?.stop()
    for (const agent of [before, after, other]) await agent?.dispose()
    await world?.close()
    await previous?.remove()
  })

  const instances = async () => (await world.instances()) as LabelledInstance[]
  const identities = async () => (await instances()).map(({ metadata: { uid } }) => uid).sort()
  const configuration = () => world.get<Configuration>('Configuration', 'cam')
  const podsRun = () => eventually(() => world.running('p', 'q'))

  /** Waits until both nodes are in each Instance and the summary counts everything. */
  async function isServed(claimed: number): Promise<void> {
    await eventually(async () => {
      for (const { spec, metadata } of await instances()) {
        expect(spec.nodes.toSorted()).toEqual([NODE_1, NODE_2])
        expect(metadata.labels).toMatchObject({ 'akri.sh/shared': 'true' })
      }
      const { status } = (await configuration()) ?? {}
      expect(status).toMatchObject({ devices: 2, slots: { total: 6, claimed } })
      expect(status?.conditions.find(({ type }) => type === 'Ready')?.status).toBe('True')
    })
  }

  /** Neither side corrects the other without end. */
  async function isQuiet(): Promise<void> {
    await eventually(async () => {
      const version = (await configuration())?.metadata.resourceVersion
      await systemClock.sleep(QUIET_MS)
      expect((await configuration())?.metadata.resourceVersion).toBe(version)
    })
  }

  it.each([
    ['before', 'this'],
    ['this', 'before'],
  ])('A2 R98 shares devices; a change from %s version to %s loses nothing', async (from) => {
    const [first, second] = from === 'before' ? [before, after] : [after, before]
    await first.start()
    await other.start()
    // A Deployment without Pods: the controller writes the condition of brokers when it can.
    const brokerDeploymentSpec = { replicas: 0, template: { spec: podSpec() } }
    const brokers = { brokerSpec: { brokerDeploymentSpec } }
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 3, brokers))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 2 }, { node: NODE_1 }))
    await world.apply(podYaml('q', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_2 }))
    await podsRun()
    await isServed(3)
    await isQuiet()
    const uids = await identities()
    const holders = await world.holders()

    await first.stop()
    await second.start()
    await eventually(async () => expect(await second.output()).toContain('agent started'))
    await isServed(3)
    await isQuiet()
    expect(await identities()).toEqual(uids)
    expect(await world.holders()).toEqual(holders)
    await podsRun()

    // Both find the device gone, and both leave its Instance.
    await world.apply(echoYaml('cam', ['foo0'], 3, brokers))
    await world.remove('Pod', 'p')
    await eventually(async () => {
      expect((await instances()).map(({ metadata }) => metadata.name)).toEqual(['cam-8120fe'])
      expect((await configuration())?.status).toMatchObject({ devices: 1, slots: { claimed: 1 } })
    })
  })

  it('R3 A13 leaves local devices that are gone after the roll-out', async () => {
    await before.start()
    const udev = (rule: string) =>
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'cam' },
        spec: {
          discoveryHandler: { name: 'udev', discoveryDetails: `udevRules: [${rule}]` },
        },
      })
    await world.apply(udev('KERNEL=="null|zero"'))
    await eventually(async () => expect(await instances()).toHaveLength(2))
    const uids = new Map(
      (await instances()).map(({ metadata: { name, uid } }) => [name, uid] as const),
    )
    await before.stop()
    await after.start()
    await eventually(async () => {
      for (const { metadata } of await instances())
        expect(metadata.labels).toMatchObject({ 'akri.sh/node': NODE_1 })
    })
    for (const { metadata } of await instances()) expect(metadata.uid).toBe(uids.get(metadata.name))
    await world.apply(udev('KERNEL=="null"'))
    await eventually(async () => expect(await instances()).toHaveLength(1))
  })
})
