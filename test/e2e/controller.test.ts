import { describe, expect, it } from 'vitest'
import { countedBrokers, useController } from './support/controlled-world.js'
import { HostController } from './support/host-controller.js'
import {
  addresses,
  alivePodsIn,
  isBroker,
  type Made,
  namesIn,
  podSpec,
  podsIn,
  runningPodsIn,
  service,
} from './support/made.js'
import { missing, NODE_1, NODE_2, NODES, setAvailable, unless } from './support/nodes.js'
import { echoYaml, eventually, podYaml, type World } from './support/world.js'

const OF_BROKERS = 'R44 R45 R55 R60 R61 R63 R93 R95 R96 R102 R106 R107 R108 R109 R110 R113'

// The controller and one agent for each node, on a real Kubernetes: from a device to the programs
// that use it.

describe.skipIf(missing() !== undefined)(`the controller on a real cluster${unless}`, () => {
  let world: World
  let controller: HostController

  useController((opened) => {
    world = opened.world
    controller = opened.controller
  })

  it(`${OF_BROKERS} a broker runs on each node of each device, with Services`, async () => {
    await world.apply(
      echoYaml('cam', ['foo0', 'foo1'], 2, {
        brokerSpec: { brokerPodSpec: podSpec() },
        instanceServiceSpec: service(80),
        configurationServiceSpec: service(81),
        brokerProperties: { SITE: 'north' },
      }),
    )
    const brokers = await eventually(() => runningPodsIn(world, 4))
    expect(brokers.map(({ metadata }) => metadata.name)).toEqual([
      `${NODE_1}-cam-8120fe-pod`,
      `${NODE_1}-cam-a19705-pod`,
      `${NODE_2}-cam-8120fe-pod`,
      `${NODE_2}-cam-a19705-pod`,
    ])
    const [first] = brokers
    expect(first?.metadata.labels).toEqual({
      app: `${NODE_1}-cam-8120fe-pod`,
      controller: 'akri.sh',
      'akri.sh/configuration': 'cam',
      'akri.sh/instance': 'cam-8120fe',
      'akri.sh/target-node': NODE_1,
    })
    expect(first?.metadata.ownerReferences).toMatchObject([
      { kind: 'Instance', name: 'cam-8120fe' },
    ])
    expect(first?.spec.nodeName).toBe(NODE_1)
    expect(first?.spec.containers[0].resources).toEqual({
      limits: { 'akri.sh/cam-8120fe': '1' },
      requests: { 'akri.sh/cam-8120fe': '1' },
    })
    await eventually(async () =>
      expect(await world.logs(`${NODE_1}-cam-8120fe-pod`)).toMatch(
        /^DEBUG_ECHO_DESCRIPTION=foo0$/m,
      ),
    )
    expect(await world.logs(`${NODE_1}-cam-8120fe-pod`)).toMatch(/^SITE=north$/m)
    expect(await world.holders()).toEqual([NODE_1, NODE_1, NODE_2, NODE_2])

    await eventually(async () =>
      expect(await namesIn(world, 'Service')).toEqual([
        'cam-8120fe-svc',
        'cam-a19705-svc',
        'cam-svc',
      ]),
    )
    const services = await world.list<Made>('Service')
    expect(services.map(({ spec }) => [spec.selector, spec.ports[0].port])).toEqual([
      [{ controller: 'akri.sh', 'akri.sh/instance': 'cam-8120fe' }, 80],
      [{ controller: 'akri.sh', 'akri.sh/instance': 'cam-a19705' }, 80],
      [{ controller: 'akri.sh', 'akri.sh/configuration': 'cam' }, 81],
    ])
    expect(services.map(({ metadata }) => metadata.ownerReferences?.[0]?.kind)).toEqual([
      'Instance',
      'Instance',
      'Configuration',
    ])
    // The Services select the brokers.
    for (const [name, count] of [
      ['cam-8120fe-svc', 2],
      ['cam-svc', 4],
    ] as const)
      await eventually(async () => expect(await addresses(world, name)).toHaveLength(count))
    expect(await countedBrokers(controller)).toBe(4)
  })

  it('R80 R101 R104 R105 R111 R112 R114 a Configuration leads to a broker', async () => {
    // A slow start, so that each step can be seen.
    const spec = podSpec('env; exec sleep 100000', {
      nodeSelector: { 'kubernetes.io/hostname': NODE_1 },
    })
    await world.apply(echoYaml('cam', ['foo0'], 3, { brokerSpec: { brokerPodSpec: spec } }))
    // 2. The agents found the device, and each agent added its node. All slots are free.
    await eventually(async () => {
      const [instance] = await world.instances()
      expect(instance?.spec).toMatchObject({ configurationName: 'cam', shared: true, capacity: 3 })
      expect(instance?.spec.nodes.toSorted()).toEqual([...NODES])
      expect(Object.keys(instance?.spec.deviceUsage ?? {})).toEqual([
        'cam-8120fe-0',
        'cam-8120fe-1',
        'cam-8120fe-2',
      ])
    })
    // 3. The controller created a Pod for an eligible node of the list. The Pod asks for the
    // Instance.
    const [broker] = await eventually(() => runningPodsIn(world, 1))
    expect(broker?.metadata.labels['akri.sh/target-node']).toBe(NODE_1)
    // 4. The kubelet called Allocate, and the agent claimed the slot for its node.
    const usage = await world.usage()
    const taken = Object.keys(usage).filter((slot) => usage[slot] === NODE_1)
    expect(Object.values(usage).filter(Boolean)).toEqual([NODE_1])
    // 5. A claimed slot is offered to no other node: two slots are left for Pods of the other node,
    // not three.
    await eventually(async () =>
      expect(await world.allocatable(NODE_2, 'akri.sh/cam-8120fe')).toBe(2),
    )
    for (const name of ['x', 'y', 'z'])
      await world.apply(podYaml(name, { 'akri.sh/cam-8120fe': 1 }, { node: NODE_2 }))
    await eventually(async () => {
      const others = (await alivePodsIn(world)).filter(
        ({ metadata }) => metadata.ownerReferences === undefined,
      )
      expect(others.map(({ status }) => status.phase).sort()).toEqual([
        'Pending',
        'Running',
        'Running',
      ])
    })
    expect((await world.holders()).sort()).toEqual([NODE_1, NODE_2, NODE_2])
    expect((await world.usage())[taken[0] ?? '']).toBe(NODE_1)
    await eventually(async () =>
      expect(await world.logs(broker?.metadata.name ?? '')).toMatch(
        /^DEBUG_ECHO_DESCRIPTION=foo0$/m,
      ),
    )
  })

  it('R43 R46 R47 R56 R62 brokers and Services come and go with the device', async () => {
    const broker = {
      brokerSpec: { brokerPodSpec: podSpec() },
      instanceServiceSpec: service(80),
      configurationServiceSpec: service(81),
    }
    await world.apply(echoYaml('cam', ['foo0'], 3, broker))
    await eventually(() => runningPodsIn(world, 2))
    await eventually(async () => expect(await namesIn(world, 'Service')).toHaveLength(2))
    await world.apply(podYaml('own', { 'akri.sh/cam-8120fe': 1 }))
    await eventually(() => runningPodsIn(world, 3))
    const owned = async () =>
      (await podsIn(world)).find(({ metadata }) => metadata.name === 'own')?.metadata.uid
    const before = await owned()
    await setAvailable(false)
    await eventually(async () => {
      expect(await namesIn(world, 'Pod')).toEqual(['own'])
      expect(await namesIn(world, 'Service')).toEqual([])
    })
    await runningPodsIn(world, 1)
    await setAvailable(true)
    await eventually(() => runningPodsIn(world, 3))
    expect(await owned()).toBe(before)
    await eventually(async () => expect(await namesIn(world, 'Service')).toHaveLength(2))
  })

  it('C8 objects of others with our labels and names stay untouched', async () => {
    const labels = {
      controller: 'akri.sh',
      'akri.sh/configuration': 'cam',
      'akri.sh/instance': 'cam-8120fe',
    }
    const foreign = (name: string, owned: object) =>
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Pod',
        metadata: { name, labels: owned },
        spec: podSpec('exec sleep 100000', {}, {}),
      })
    await world.apply(foreign(`${NODE_1}-cam-8120fe-pod`, labels))
    await world.apply(
      foreign('only-configuration', { controller: 'akri.sh', 'akri.sh/configuration': 'cam' }),
    )
    await world.apply(
      JSON.stringify({
        apiVersion: 'v1',
        kind: 'Service',
        metadata: { name: 'cam-8120fe-svc', labels },
        spec: { ports: [{ port: 7, protocol: 'TCP' }] },
      }),
    )
    await world.apply(
      echoYaml('cam', ['foo0'], 2, {
        brokerSpec: { brokerPodSpec: podSpec() },
        instanceServiceSpec: service(80),
      }),
    )
    await eventually(() => runningPodsIn(world, 4))
    const found = await runningPodsIn(world, 4)
    const owned = found.filter(isBroker).map(({ metadata }) => metadata.name)
    // The controller created an object beside the foreign one.
    expect(owned).toEqual([
      expect.stringMatching(new RegExp(`^${NODE_1}-cam-8120fe-pod-[0-9a-f]{10}$`)),
      `${NODE_2}-cam-8120fe-pod`,
    ])
    await eventually(() =>
      expect(controller.output).toMatch(/cam-8120fe-svc in [a-z0-9-]+ belongs to another owner/),
    )
    const [service1] = await world.list<Made>('Service')
    expect(service1?.spec.ports[0].port).toBe(7)
    expect(service1?.metadata.ownerReferences).toBeUndefined()
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () =>
      expect(await namesIn(world, 'Pod')).toEqual([
        `${NODE_1}-cam-8120fe-pod`,
        'only-configuration',
      ]),
    )
    expect(await namesIn(world, 'Service')).toEqual(['cam-8120fe-svc'])
  })

  it('C1 C10 a killed controller goes on, and a replica takes over', async () => {
    const other = new HostController('two', world.namespace)
    await world.apply(
      echoYaml('cam', ['foo0', 'foo1'], 2, {
        brokerSpec: { brokerPodSpec: podSpec() },
        instanceServiceSpec: service(80),
      }),
    )
    const before = (await eventually(() => runningPodsIn(world, 4))).map(
      ({ metadata }) => metadata.uid,
    )
    other.start()
    try {
      await controller.stop('SIGKILL')
      // For a moment no replica leads. The next leader still sees the changes of that moment.
      await world.remove('Pod', `${NODE_1}-cam-8120fe-pod`)
      await eventually(() => expect(other.output).toContain('this replica leads'))
      await eventually(() => runningPodsIn(world, 4))
      const after = (await runningPodsIn(world, 4)).map(({ metadata }) => metadata.uid)
      expect(after.filter((uid) => before.includes(uid))).toHaveLength(3)
      controller.start()
      // The controller is killed in the middle of its work.
      await world.apply(
        echoYaml('cam', ['foo0', 'foo1', 'foo2', 'foo3'], 2, {
          brokerSpec: { brokerPodSpec: podSpec() },
        }),
      )
      await eventually(async () => expect((await podsIn(world)).length).toBeGreaterThan(4))
      await other.stop('SIGKILL')
      await eventually(() => runningPodsIn(world, 8))
      expect((await podsIn(world)).map(({ metadata }) => metadata.name)).toHaveLength(8)
    } finally {
      await other.stop('SIGKILL')
    }
  })
})
