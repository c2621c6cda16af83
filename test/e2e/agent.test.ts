import { describe, expect, it } from 'vitest'
import { NodeAgent } from './support/node-agent.js'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import {
  access,
  missing,
  NODE_1,
  NODE_2,
  NODES,
  onNode,
  setAvailable,
  unless,
} from './support/nodes.js'
import { echoYaml, eventually, podYaml, type World } from './support/world.js'

// One agent for each node of a real Kubernetes, with real kubelets, scheduler and API server: from
// devices to slots of containers.

describe.skipIf(missing() !== undefined)(`agents on a real cluster${unless}`, () => {
  let world: World
  let agents: NodeAgents

  useAgents((opened) => {
    world = opened.world
    agents = opened.agents
  })

  it('R1 R2 R15 R79 R98 R100 R105 a Configuration is offered, then its devices', async () => {
    await world.apply(echoYaml('cam', [], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([0, 0]))
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    for (const digest of ['8120fe', 'a19705'])
      await eventually(async () =>
        expect(await world.allocatables(`akri.sh/cam-${digest}`)).toEqual([2, 2]),
      )
    const instances = await world.instances()
    expect(instances.map(({ metadata }) => metadata.name).sort()).toEqual([
      'cam-8120fe',
      'cam-a19705',
    ])
    for (const { spec } of instances) {
      expect(spec.nodes.toSorted()).toEqual([...NODES])
      expect(Object.values(spec.deviceUsage)).toEqual(['', ''])
      expect(spec).toMatchObject({ shared: true, capacity: 2, configurationName: 'cam' })
    }
  })

  it('R3 a device that only one node can see has an Instance for that node', async () => {
    const udev = { name: 'udev', discoveryDetails: 'udevRules: [KERNEL=="null"]' }
    await world.apply(
      JSON.stringify({
        apiVersion: 'akri.sh/v0',
        kind: 'Configuration',
        metadata: { name: 'nulls' },
        spec: { discoveryHandler: udev },
      }),
    )
    const instances = await eventually(async () => {
      const found = await world.instances()
      expect(found).toHaveLength(2)
      return found
    })
    expect(new Set(instances.map(({ metadata }) => metadata.name)).size).toBe(2)
    expect(instances.flatMap(({ spec }) => spec.nodes).sort()).toEqual([...NODES])
    await eventually(async () => expect(await world.allocatables('akri.sh/nulls')).toEqual([1, 1]))
    await world.apply(
      podYaml('p', { 'akri.sh/nulls': 1 }, { script: 'ls -l $UDEV_DEVNODE; exec sleep 100000' }),
    )
    await eventually(() => world.running('p'))
    await eventually(async () =>
      expect(await world.logs('p')).toMatch(/^crw.* 1, +3 .*\/dev\/null$/),
    )
  })

  it('R5 R6 R10 R32 R38 R60 R106 R113 a container gets two different devices in full', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 2, { brokerProperties: { SITE: 'north' } }))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('two', { 'akri.sh/cam': 2 }))
    await eventually(() => world.running('two'))
    const env = await eventually(async () => {
      const text = await world.logs('two')
      expect(text).toContain('SITE=')
      return text
    })
    expect(env).toContain('DEBUG_ECHO_DESCRIPTION_8120FE=foo0')
    expect(env).toContain('DEBUG_ECHO_DESCRIPTION_A19705=foo1')
    expect(env).toMatch(/^SITE=north$/m)
    expect(env).toMatch(/^SITE_8120FE=north$/m)
    for (const { spec } of await world.instances())
      expect(spec.brokerProperties).toMatchObject({ SITE: 'north' })
    const node = (await world.pods())[0]?.spec.nodeName
    expect(await world.holders()).toEqual([`C:0:${node}`, `C:1:${node}`])
    const usage = await world.usage()
    for (const instance of ['cam-8120fe', 'cam-a19705'])
      expect([0, 1].filter((index) => usage[`${instance}-${index}`] !== '')).toHaveLength(1)
  })

  it('R39 R40 the annotations of the container name each slot', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(
      podYaml('annotated', { 'akri.sh/cam': 1, 'akri.sh/cam-8120fe': 1 }, { node: NODE_1 }),
    )
    await eventually(() => world.running('annotated'))
    const ids = (await onNode(NODE_1, 'ctr', '-n', 'k8s.io', 'containers', 'ls', '-q'))
      .trim()
      .split('\n')
    const all = await Promise.all(
      ids.map((id) => onNode(NODE_1, 'ctr', '-n', 'k8s.io', 'containers', 'info', id)),
    )
    const ownPods = all.filter(
      (info) => info.includes(world.namespace) && info.includes('annotated'),
    )
    const annotations = ownPods.flatMap((info) => Object.entries(findAnnotations(JSON.parse(info))))
    const usage = await world.usage()
    const wanted = Object.entries(usage).map(([slot, holder]) => [
      `akri.agent.slot-${slot}`,
      holder.startsWith('C:') ? `${holder.slice(0, holder.lastIndexOf(':'))}:${slot}` : slot,
    ])
    expect(annotations.sort()).toEqual(wanted.sort())
  })

  it('R4 R12 R13 R41 R48 R76 Pods beyond the capacity stay pending and claim no slot', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('three', { 'akri.sh/cam': 3 }))
    await world.apply(podYaml('pair', { 'akri.sh/cam-8120fe': 1, 'akri.sh/cam-a19705': 1 }))
    await eventually(() => world.running('pair'))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([0, 0]))
    await world.apply(podYaml('late', { 'akri.sh/cam-8120fe': 1 }))
    await eventually(async () =>
      expect(await world.phases()).toEqual({ three: 'Pending', pair: 'Running', late: 'Pending' }),
    )
    expect(await world.holders()).toHaveLength(2)
  })

  it('R77 R83 R90 a waiting Pod gets the slot of a deleted Pod', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () =>
      expect(await world.allocatables('akri.sh/cam-8120fe')).toEqual([1, 1]),
    )
    await world.apply(podYaml('first', { 'akri.sh/cam-8120fe': 1 }))
    await eventually(() => world.running('first'))
    const holder = (await world.pods())[0]?.spec.nodeName ?? ''
    expect(await world.holders()).toEqual([holder])
    // The other node offers the slot to its kubelet.
    const other = NODES.find((node) => node !== holder) ?? NODES[0]
    await eventually(async () =>
      expect(await world.allocatable(other, 'akri.sh/cam-8120fe')).toBe(0),
    )
    await world.apply(podYaml('second', { 'akri.sh/cam-8120fe': 1 }))
    await world.remove('Pod', 'first')
    await eventually(() => world.running('second'))
    expect(await world.holders()).toEqual([
      (await world.pods()).find(({ metadata }) => metadata.name === 'second')?.spec.nodeName,
    ])
  })

  it('R90 A14 the slot of a finished Pod is free while the Pod still exists', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await world.apply(podYaml('il', { 'akri.sh/cam-8120fe': 1 }, { script: 'sleep 1' }))
    // The other Pod could get any device, also the device of this Pod.
    await eventually(async () => expect((await world.phases()).il).not.toBe('Pending'))
    await world.apply(podYaml('cl', { 'akri.sh/cam': 1 }, { script: 'sleep 1' }))
    await eventually(async () =>
      expect(await world.phases()).toEqual({ il: 'Succeeded', cl: 'Succeeded' }),
    )
    await eventually(async () => expect(await world.holders()).toEqual([]))
  })

  it.each([
    ['on both nodes', undefined],
    // The node offers one id less for each device as soon as the Pods end, before the scheduler
    // knows it.
    ['on one node', NODES[0]],
  ])(
    'A16 R33 no Pod is rejected while a device is free: one after the other, many at once, %s',
    async (_, node) => {
      await world.apply(echoYaml('cam', ['foo0', 'foo1', 'foo2'], 2))
      await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([3, 3]))
      for (let round = 0; round < 3; round++) {
        const names = Array.from({ length: 6 }, (_, index) => `p${round}-${index}`)
        const options = {
          script: 'sleep 1',
          graceSeconds: 0,
          ...(node === undefined ? {} : { node }),
        }
        await Promise.all(
          names.map((name) => world.apply(podYaml(name, { 'akri.sh/cam': 1 }, options))),
        )
        await eventually(async () => {
          const ownPods = (await world.pods()).filter(({ metadata }) =>
            names.includes(metadata.name),
          )
          // The message says which program rejected which resource.
          expect(
            ownPods.filter(({ status }) => status.phase === 'Failed').map(({ status }) => status),
          ).toEqual([])
          for (const { status } of ownPods) expect(status.phase).toBe('Succeeded')
        })
      }
      expect(await world.refused()).toEqual([])
    },
  )

  it('R17 R46 R47 a device that vanishes is removed, and is found again', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await setAvailable(false)
    await eventually(async () => expect(await world.instances()).toEqual([]))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([0, 0]))
    await setAvailable(true)
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
  })

  it('R91 the slots of deleted Pods are released by the list of the runtime', async () => {
    const other = await NodeAgent.create(NODE_2, {
      AKRI_CRI_SOCKET: access.runtimeSocket(NODE_2),
      LOG_LEVEL: 'debug',
    })
    await agents.on(NODE_2).stop()
    await other.start()
    try {
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
      await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
      await world.apply(podYaml('il', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_2 }))
      // The other Pod could get any device, also the device of this Pod.
      await eventually(() => world.running('il'))
      await world.apply(podYaml('cl', { 'akri.sh/cam': 1 }, { node: NODE_2 }))
      await eventually(() => world.running('il', 'cl'))
      // After several rounds of the reconciler, running containers keep their claims.
      const rounds = async () =>
        (await other.output()).split('reclaiming unused slots - start').length
      const before = await rounds()
      await eventually(async () => expect(await rounds()).toBeGreaterThan(before + 1))
      expect(await other.output()).not.toContain('slots of running containers not known')
      expect(await world.holders()).toHaveLength(2)
      await world.remove('Pod', 'il')
      await eventually(async () =>
        expect((await world.holders()).filter((holder) => holder === NODE_2)).toEqual([]),
      )
      expect(await world.holders()).toHaveLength(1)
      await world.remove('Pod', 'cl')
      await eventually(async () => expect(await world.holders()).toEqual([]))
    } finally {
      await other.dispose()
      await agents.on(NODE_2).start()
    }
  })
})

/** The annotations that the kubelet passed to the container runtime. */
function findAnnotations(info: unknown): Record<string, string> {
  const found: Record<string, string> = {}
  const visit = (value: unknown) => {
    // containerd keeps the kubelet's request as JSON in base64.
    if (typeof value === 'string' && decoded(value).includes('akri.agent.slot-'))
      visit(JSON.parse(decoded(value)))
    if (typeof value !== 'object' || value === null) return
    for (const [key, inner] of Object.entries(value)) {
      if (key.startsWith('akri.agent.slot-') && typeof inner === 'string') found[key] = inner
      else visit(inner)
    }
  }
  visit(info)
  return found
}

function decoded(text: string): string {
  return Buffer.from(text, 'base64').toString('utf8')
}
