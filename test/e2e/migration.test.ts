import { afterAll, afterEach, beforeAll, expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { akri } from './support/akri-command.js'
import { ExistingAgent } from './support/existing-agent.js'
import { HostController } from './support/host-controller.js'
import { podSpec } from './support/made.js'
import { NodeAgent } from './support/node-agent.js'
import { missingHere, NODE_1, NODE_2, NODES, setAvailable } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, podYaml, World } from './support/world.js'

const NAME = 'cam-8120fe'

interface Written extends InstanceState {
  readonly metadata: InstanceState['metadata'] & {
    readonly finalizers?: readonly string[]
    readonly managedFields: readonly { readonly manager: string; readonly operation: string }[]
  }
}

describeUnless(missingHere(), 'the change between the existing system and akri.js', () => {
  let world: World
  let controller: HostController
  let agents: readonly NodeAgent[]
  let existing: readonly ExistingAgent[]

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    existing = NODES.map((node) => new ExistingAgent(world, node))
    controller = new HostController('one', world.namespace)
    agents = await Promise.all(NODES.map((node) => NodeAgent.create(node)))
  })

  afterEach(async () => {
    // Of a test that failed.
    for (const kind of ['Configuration', 'Instance'] as const)
      for (const { metadata } of await world.list<Written>(kind))
        if (metadata.finalizers !== undefined)
          await world
            .api(kind)
            .patch(world.key(metadata.name), 'merge', { metadata: { finalizers: null } })
    await stop()
    await world.clear()
  })

  afterAll(async () => {
    await controller?.stop()
    for (const agent of agents ?? []) await agent.dispose()
    await world?.close()
  })

  const start = async () => {
    for (const agent of agents) await agent.start()
  }
  const stop = async () => {
    await controller.stop()
    for (const agent of agents) await agent.stop()
  }
  const instance = async () =>
    (await world.get<Written>('Instance', NAME)) ?? expect.fail('there is no Instance')
  const migrate = async (...args: readonly string[]) => (await akri('migrate', ...args)).stdout

  it('A13 goes back by `akri migrate back`, and forward over what is left there', async () => {
    const secretKeyRef = { name: 'lab', key: 'token', optional: true }
    await controller.lead()
    await start()
    await world.apply(
      echoYaml('cam', ['foo0'], 3, {
        discoveryHandler: {
          name: 'debugEcho',
          discoveryDetails: 'descriptions: [foo0]',
          discoveryProperties: [{ name: 'token', valueFrom: { secretKeyRef } }],
        },
        brokerProperties: null,
        brokerSpec: {
          brokerPodSpec: podSpec(undefined, {}, {}),
          updateStrategy: { type: 'OnDelete' },
        },
      }),
    )
    await eventually(async () =>
      expect((await instance()).spec.nodes.toSorted()).toEqual([NODE_1, NODE_2]),
    )
    await world.apply(podYaml('p', { [`akri.sh/${NAME}`]: 1 }, { node: NODE_1 }))
    await world.apply(podYaml('q', { 'akri.sh/cam': 1 }, { node: NODE_2 }))
    await eventually(() => world.running('p', 'q'))
    expect(await world.holders()).toEqual([`C:0:${NODE_2}`, NODE_1].sort())
    await stop()
    const before = await instance()
    const free = Object.keys(before.spec.deviceUsage).find(
      (slot) => before.spec.deviceUsage[slot] === '',
    )
    const claims = Object.entries(before.spec.deviceUsage).filter(([, usage]) => usage !== '')
    const [first, second] = existing
    // An agent of the existing system cannot claim a slot that has a key.
    await expect(first?.claim(NAME, { [free ?? '']: NODE_1 })).rejects.toThrow(/409/)

    const check = await migrate('check')
    expect(check).toMatch(/^Forward.*\nBack.*\nchange +Instance/s)
    expect(check).toContain(`C:0:${NODE_2} becomes C:cam-0:${NODE_2}`)
    expect(await instance()).toEqual(before)
    await migrate('back', '--write')
    // Another plan has the rest.
    expect(await migrate('back')).not.toContain(`${world.namespace}/`)

    const { metadata, spec } = await instance()
    expect(metadata.uid).toBe(before.metadata.uid)
    expect(spec).toEqual({
      ...before.spec,
      deviceUsage: Object.fromEntries(
        claims.map(([slot, usage]) => [slot, usage.replace('C:0:', 'C:cam-0:')]),
      ),
    })
    const ofSpec = metadata.managedFields.filter(
      (fields) => 'fieldsV1' in fields && JSON.stringify(fields.fieldsV1).includes('f:spec'),
    )
    expect(ofSpec.map(({ manager, operation }) => `${manager} ${operation}`).sort()).toEqual(
      NODES.flatMap((node) => [`${node} Apply`, `dp-${node} Apply`]).sort(),
    )
    const configuration = await world.get<{ spec: object }>('Configuration', 'cam')
    expect(configuration?.spec).not.toHaveProperty('brokerProperties')
    // Without a namespace the existing system looks in `default`.
    const property = { valueFrom: { secretKeyRef: { namespace: world.namespace } } }
    expect(configuration?.spec).toMatchObject({
      discoveryHandler: { discoveryProperties: [property] },
      brokerSpec: { brokerPodSpec: {} },
    })
    expect(configuration?.spec).not.toHaveProperty('brokerSpec.updateStrategy')

    // One agent claims a slot more, frees its slots, and leaves.
    const own = Object.fromEntries(claims.filter(([, usage]) => usage === NODE_1))
    await first?.claim(NAME, { ...own, [free ?? '']: NODE_1 })
    expect((await instance()).spec.deviceUsage[free ?? '']).toBe(NODE_1)
    await first?.claim(NAME, {})
    expect(Object.values((await instance()).spec.deviceUsage)).toEqual([`C:cam-0:${NODE_2}`])
    // The other agent frees its slot too.
    await second?.claim(NAME, {})
    expect((await instance()).spec.deviceUsage).toEqual({})

    // Forward again: nothing stands in the way.
    for (const agent of existing) {
      await agent.finalize('Configuration', 'cam')
      await agent.finalize('Instance', NAME)
    }
    await start()
    await eventually(async () =>
      expect(await world.holders()).toEqual([`C:0:${NODE_2}`, NODE_1].sort()),
    )
    expect((await instance()).spec.nodes.toSorted()).toEqual([NODE_1, NODE_2])
    expect((await instance()).metadata.uid).toBe(before.metadata.uid)
    // The agents run, but no controller that removes what existing agents left.
    await world.remove('Instance', NAME)
    await eventually(async () =>
      expect(await world.reportedCondition('cam', 'Ready')).toMatchObject({
        status: 'False',
        reason: 'InstanceBeingDeleted',
        message: expect.stringContaining(`${NAME}: `),
      }),
    )
    // The wait is a third of the grace period.
    await controller.lead()
    await eventually(async () =>
      expect((await instance()).metadata.uid).not.toBe(before.metadata.uid),
    )
    await eventually(async () =>
      expect(await world.holders()).toEqual([`C:0:${NODE_2}`, NODE_1].sort()),
    )
    await eventually(async () =>
      expect(
        (await world.get<Written>('Configuration', 'cam'))?.metadata.finalizers,
      ).toBeUndefined(),
    )
    await eventually(() => expect(controller.output).toContain('leftover finalizers removed'))
    await existing[0]?.finalize('Configuration', 'cam')
    await world.remove('Configuration', 'cam')
    await eventually(async () => expect(await world.get('Configuration', 'cam')).toBeUndefined())
  })
})
