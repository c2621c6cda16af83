import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { useAgents } from './support/node-agents.js'
import { access, missing, NODE_1, NODE_2, NODES, setAvailable } from './support/nodes.js'
import { echoYaml, eventually, podYaml, type World } from './support/world.js'

// One agent for each node of a real Kubernetes, with real kubelets, scheduler and API server: from
// devices to slots of containers. Each test goes on with what the tests before it left.

describeUnless(missing(), 'agents on a real cluster', () => {
  let world: World

  useAgents(
    (opened) => {
      world = opened.world
    },
    {
      inTurn: true,
      // The agent of this node reads allocations from the container runtime.
      env: (node) => (node === NODE_2 ? { AKRI_CRI_SOCKET: access.runtimeSocket(NODE_2) } : {}),
    },
  )

  const site = { brokerProperties: { SITE: 'north' } }
  const offered = (resource: string, ...counts: readonly number[]) =>
    eventually(async () => expect(await world.allocatables(resource)).toEqual(counts))
  const nodeOf = async (pod: string) =>
    (await world.pods()).find(({ metadata }) => metadata.name === pod)?.spec.nodeName

  it('R1 R2 R15 R79 R98 R100 R105 a Configuration is offered, then its devices', async () => {
    await world.apply(echoYaml('cam', [], 2, site))
    await offered('akri.sh/cam', 0, 0)
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2, site))
    for (const resource of ['cam', 'cam-8120fe', 'cam-a19705'])
      await offered(`akri.sh/${resource}`, 2, 2)
    await eventually(() => world.joined())
    const instances = await world.instances()
    expect(instances.map(({ metadata }) => metadata.name).sort()).toEqual([
      'cam-8120fe',
      'cam-a19705',
    ])
    for (const { spec } of instances) {
      expect(spec.nodes.toSorted()).toEqual([...NODES])
      expect(Object.values(spec.deviceUsage)).toEqual(['', ''])
      expect(spec).toMatchObject({ shared: true, capacity: 2, configurationName: 'cam' })
      expect(spec.brokerProperties).toMatchObject({ SITE: 'north' })
    }
  })

  it('R5 R6 R10 R32 R38 R60 R106 R113 a container gets two different devices in full', async () => {
    const limits = { 'akri.sh/cam': 2, 'akri.sh/cam-8120fe': 1 }
    await world.apply(podYaml('two', limits, { node: NODE_2 }))
    await eventually(() => world.running('two'))
    await eventually(async () => {
      const env = await world.logs('two')
      expect(env).toContain('DEBUG_ECHO_DESCRIPTION_8120FE=foo0')
      expect(env).toContain('DEBUG_ECHO_DESCRIPTION_A19705=foo1')
      expect(env).toMatch(/^SITE=north$/m)
      expect(env).toMatch(/^SITE_8120FE=north$/m)
    })
    const held = async (instance: string) =>
      Object.entries(await world.usage())
        .flatMap(([slot, usage]) => (slot.startsWith(instance) && usage !== '' ? [usage] : []))
        .sort()
    const virtual = expect.stringMatching(`^C:[01]:${NODE_2}$`)
    expect(await held('cam-8120fe')).toEqual([virtual, NODE_2])
    expect(await held('cam-a19705')).toEqual([virtual])
  })

  it('R91 the slot of a deleted Pod is released by the list of the runtime', async () => {
    const before = await world.holders()
    await world.apply(podYaml('one', { 'akri.sh/cam': 1 }, { node: NODE_2, graceSeconds: 0 }))
    await eventually(() => world.running('two', 'one'))
    expect(await world.holders()).toHaveLength(before.length + 1)
    await world.remove('Pod', 'one')
    // The container that runs keeps its claims.
    await eventually(async () => expect(await world.holders()).toEqual(before))
  })

  it('R4 R12 R13 R41 R48 R76 Pods beyond the capacity stay pending and claim no slot', async () => {
    // The other node offers a claimed slot no more.
    await eventually(async () =>
      expect(await world.allocatable(NODE_1, 'akri.sh/cam-8120fe')).toBe(0),
    )
    await world.apply(podYaml('three', { 'akri.sh/cam': 3 }))
    const script = 'sleep 1'
    await world.apply(podYaml('late', { 'akri.sh/cam-8120fe': 2 }, { script, graceSeconds: 0 }))
    await eventually(async () => {
      const { items } = (await world.client.request({
        method: 'GET',
        path: `/api/v1/namespaces/${world.namespace}/events`,
        query: { fieldSelector: 'reason=FailedScheduling' },
      })) as { items: { involvedObject: { name: string } }[] }
      const waiting = items.map(({ involvedObject }) => involvedObject.name)
      expect(waiting).toEqual(expect.arrayContaining(['three', 'late']))
    })
    expect(await world.phases()).toMatchObject({ three: 'Pending', late: 'Pending' })
    expect(await world.holders()).toHaveLength(3)
  })

  it('R77 R83 R90 A14 a waiting Pod gets the slots of a deleted Pod until it ends', async () => {
    await world.remove('Pod', 'two')
    await eventually(async () => expect(await world.phases()).toMatchObject({ late: 'Succeeded' }))
    expect(await nodeOf('late')).toBeDefined()
    // The slots are free while the finished Pod still exists.
    await eventually(async () => expect(await world.holders()).toEqual([]))
    await world.remove('Pod', 'three')
  })

  it('R17 R46 R47 a device that vanishes is removed, and is found again', async () => {
    await setAvailable(false)
    await eventually(async () => expect(await world.instances()).toEqual([]))
    await offered('akri.sh/cam', 0, 0)
    await setAvailable(true)
    await offered('akri.sh/cam', 2, 2)
  })

  it('A14 A16 R33 R90 no Pod is rejected while a device is free on its node', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2, site))
    await offered('akri.sh/cam', 3, 3)
    // The node offers one id less for each device as soon as the Pods end, before the scheduler
    // knows it: half of the Pods wait for the others.
    await runAtOnce('a', NODE_2)
    for (const round of ['b', 'c']) await runAtOnce(round)
  })

  /** As many Pods as there are slots, to their end. */
  async function runAtOnce(round: string, node?: string): Promise<void> {
    const names = Array.from({ length: 6 }, (_, index) => `${round}${index}`)
    const options = { script: 'sleep 1', graceSeconds: 0, ...(node === undefined ? {} : { node }) }
    await Promise.all(
      names.map((name) => world.apply(podYaml(name, { 'akri.sh/cam': 1 }, options))),
    )
    await eventually(async () => {
      const ownPods = (await world.pods()).filter(({ metadata }) => names.includes(metadata.name))
      // The message says which program rejected which resource.
      expect(
        ownPods.filter(({ status }) => status.phase === 'Failed').map(({ status }) => status),
      ).toEqual([])
      for (const { status } of ownPods) expect(status.phase).toBe('Succeeded')
    })
    expect(await world.refused()).toEqual([])
    await eventually(async () => expect(await world.holders()).toEqual([]))
  }
})
