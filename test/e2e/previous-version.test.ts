import { mkdtempSync, rmSync } from 'node:fs'
import os from 'node:os'
import path from 'node:path'
import type { Configuration } from '@akrijs/api'
import { systemClock } from '@akrijs/runtime'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { BenchNodes } from '../../bench/src/bench-nodes.js'
import { bundleTypeScript } from '../../bench/src/load-typescript.mjs'
import { BenchProcess } from '../../bench/src/processes/bench-process.js'
import { HostController } from './support/host-controller.js'
import { BUILT_HANDLERS } from './support/host-program.js'
import { podSpec } from './support/made.js'
import { NodeAgent } from './support/node-agent.js'
import { access, missingHere, NODE_1, NODE_2, setAvailable } from './support/nodes.js'
import { missingPreviousVersion, PreviousVersion } from './support/previous-version.js'
import { echoYaml, eventually, type InstanceState, podYaml, World } from './support/world.js'

// A roll-out reaches one node after the other, and a roll-back too: agents of the version before
// and of this version serve the same devices, beside the controller of this version. From ten nodes
// on, agents of this version ask the controller to write the nodes of a shared Instance. Agents of
// the version before write them all the same, and write a status that lacks the number of nodes.

/** Without a kubelet of their own: what only they do is what their kubelets are told. */
const FURTHER = Array.from({ length: 10 }, (_, index) => `further-${index}`)
/** How long the statuses must stay the same: longer than the pause between two summaries. */
const QUIET_MS = 5000
const SLOTS = 3

const lacks = missingHere() ?? missingPreviousVersion()
const unless = lacks === undefined ? '' : ` (${lacks})`

type LabelledInstance = InstanceState & {
  readonly metadata: { readonly labels?: Readonly<Record<string, string>> }
}

describe.skipIf(lacks !== undefined)(`an agent of the version before${unless}`, () => {
  const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-n'))
  let previous: PreviousVersion
  let world: World
  let controller: HostController
  let nodes: BenchNodes | undefined
  let further: BenchProcess | undefined
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

  afterAll(async () => {
    await setAvailable(true)
    for (const agent of [before, after, other]) await agent?.dispose()
    await world?.clear([])
    await further?.stop()
    await nodes?.close()
    await controller?.stop()
    await world?.close()
    await previous?.remove()
    rmSync(directory, { recursive: true, force: true })
  })

  const instancesOf = async (name: string) =>
    ((await world.instances()) as LabelledInstance[]).filter(
      ({ spec }) => spec.configurationName === name,
    )
  const identities = async () =>
    (await instancesOf('cam')).map(({ metadata: { uid } }) => uid).sort()
  const configuration = () => world.get<Configuration>('Configuration', 'cam')

  /** Waits until all nodes are in each Instance and the summary counts everything. */
  async function isServed(on: readonly string[], claimed: number): Promise<void> {
    await eventually(async () => {
      const instances = await instancesOf('cam')
      expect(instances).toHaveLength(2)
      for (const { spec, metadata } of instances) {
        expect(spec.nodes.toSorted()).toEqual(on.toSorted())
        expect(metadata.labels).toMatchObject({ 'akri.sh/shared': 'true' })
      }
      const { status } = (await configuration()) ?? {}
      expect(status).toMatchObject({
        devices: 2,
        slots: { total: 2 * SLOTS, claimed },
        nodeCounts: { reporting: on.length, ready: on.length },
      })
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

  async function change(from: NodeAgent, to: NodeAgent): Promise<void> {
    const soFar = (await to.output()).split('agent started').length
    await from.stop()
    await to.start()
    await eventually(async () =>
      expect((await to.output()).split('agent started').length).toBeGreaterThan(soFar),
    )
  }

  /** Agents of this version on ten more nodes. */
  async function addNodes(): Promise<void> {
    nodes = new BenchNodes(world)
    await nodes.add(FURTHER)
    const bundle = await bundleTypeScript('bench/src/processes/agents-process.ts')
    const env = { DEBUG_ECHO_AVAILABILITY_FILE: access.availabilityFile }
    further = new BenchProcess(bundle, [], env)
    await further.ask(
      'start',
      FURTHER.map((name, index) => ({
        name,
        directory: path.join(directory, String(index)),
        devices: {},
        handlers: [BUILT_HANDLERS.split(',')[0] ?? ''],
      })),
    )
  }

  const udevYaml = (rule: string) =>
    JSON.stringify({
      apiVersion: 'akri.sh/v0',
      kind: 'Configuration',
      metadata: { name: 'local' },
      spec: { discoveryHandler: { name: 'udev', discoveryDetails: `udevRules: [${rule}]` } },
    })

  it('A2 A10 A13 R3 R98 shares devices; a roll-out and a roll-back lose nothing', async () => {
    await before.start()
    await other.start()
    // A Deployment without Pods: the controller writes the condition of brokers when it can.
    const brokerDeploymentSpec = { replicas: 0, template: { spec: podSpec() } }
    const brokers = { brokerSpec: { brokerDeploymentSpec } }
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], SLOTS, brokers))
    await world.apply(udevYaml('KERNEL=="null|zero"'))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 2 }, { node: NODE_1 }))
    await world.apply(podYaml('q', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_2 }))
    await eventually(() => world.running('p', 'q'))
    await isServed([NODE_1, NODE_2], 3)
    await isQuiet()
    const uids = await identities()
    const holders = await world.holders()
    const isUnchanged = async () => {
      expect(await identities()).toEqual(uids)
      expect(await world.holders()).toEqual(holders)
      await world.running('p', 'q')
    }
    const locals = async () =>
      (await instancesOf('local')).filter(({ spec }) => spec.nodes.includes(NODE_1))
    await eventually(async () => expect(await locals()).toHaveLength(2))
    const uidsOfLocals = (await locals()).map(({ metadata }) => metadata.uid)

    await change(before, after)
    await isServed([NODE_1, NODE_2], 3)
    await isQuiet()
    await isUnchanged()
    // It takes over local devices too, and leaves one that is gone.
    await eventually(async () => {
      for (const { metadata } of await locals())
        expect(metadata.labels).toMatchObject({ 'akri.sh/node': NODE_1 })
    })
    expect((await locals()).map(({ metadata }) => metadata.uid)).toEqual(uidsOfLocals)
    await world.apply(udevYaml('KERNEL=="null"'))
    await eventually(async () => expect(await locals()).toHaveLength(1))
    await world.remove('Configuration', 'local')

    await addNodes()
    await isServed([...FURTHER, NODE_1, NODE_2], 3)
    await change(after, before)
    await isServed([...FURTHER, NODE_1, NODE_2], 3)
    await isUnchanged()

    // All find a device gone, and all leave its Instance.
    await world.apply(echoYaml('cam', ['foo0'], SLOTS, brokers))
    await world.remove('Pod', 'p')
    await eventually(async () => {
      expect((await instancesOf('cam')).map(({ metadata }) => metadata.name)).toEqual([
        'cam-8120fe',
      ])
      expect((await configuration())?.status).toMatchObject({ devices: 1, slots: { claimed: 1 } })
    })
    // All find the other device gone, and it returns on all nodes.
    await world.remove('Pod', 'q')
    await setAvailable(false)
    await eventually(async () => expect(await instancesOf('cam')).toEqual([]))
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], SLOTS, brokers))
    await setAvailable(true)
    await isServed([...FURTHER, NODE_1, NODE_2], 0)
  })
})
