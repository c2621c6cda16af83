import { LEASES, Resource } from '@akrijs/kube'
import { expect, it, onTestFinished } from 'vitest'
import { describeUnless } from '../support/unless.js'
import {
  countedBrokers,
  summaryOf,
  untilBrokers,
  useController,
} from './support/controlled-world.js'
import type { HostController } from './support/host-controller.js'
import {
  addresses,
  alivePodsIn,
  instanceIdsIn,
  type Made,
  namesIn,
  podSpec,
  podsIn,
  ready,
  runningPodsIn,
  service,
} from './support/made.js'
import { missing, NODE_1, NODE_2, NODES, setAvailable } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, podYaml, type World } from './support/world.js'

const OF_BROKERS =
  'R44 R45 R55 R60 R61 R63 R80 R93 R95 R96 R101 R102 R104 R105 R106 R107 R108 R109 R110 R111 ' +
  'R112 R113 R114'

/** A node that exists in the API only. */
const GHOST = 'ghost'

// The controller and one agent for each node, on a real Kubernetes: from a device to the programs
// that use it. Each test goes on with the Configuration of the test before it.

describeUnless(missing(), 'the controller on a real cluster', () => {
  let world: World
  let controller: HostController
  let replica: () => HostController

  useController((opened) => {
    world = opened.world
    controller = opened.controller
    replica = opened.replica
  })

  const apply = (
    devices: readonly string[],
    version: string,
    { port = 80, pod = {} }: { readonly port?: number; readonly pod?: object } = {},
  ) =>
    world.apply(
      echoYaml('cam', devices, 3, {
        brokerSpec: {
          brokerPodSpec: { ...podSpec(`echo ${version}; env; exec sleep 100000`), ...pod },
        },
        instanceServiceSpec: service(port),
        configurationServiceSpec: service(81),
        brokerProperties: { SITE: 'north' },
      }),
    )
  const versionOf = ({ spec: { containers } }: Made) =>
    /^echo (\w+);/.exec(containers[0].command[2])?.[1]
  const uidsOf = (pods: readonly Made[]) => pods.map(({ metadata }) => metadata.uid)
  const requestNode = (method: 'POST' | 'DELETE', path: string, body?: object) =>
    world.client.request({ method, path: `/api/v1/nodes${path}`, body })

  it(`${OF_BROKERS} a broker runs on each node of each device, with Services`, async () => {
    await apply(['foo0', 'foo1'], 'v1')
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
    const logs = await eventually(async () => {
      const text = await world.logs(`${NODE_1}-cam-8120fe-pod`)
      expect(text).toMatch(/^DEBUG_ECHO_DESCRIPTION=foo0$/m)
      return text
    })
    expect(logs).toMatch(/^SITE=north$/m)

    // Each node offers its own slot and the free slot, and no slot of the other node.
    for (const { metadata, spec } of await world.instances()) {
      expect(spec).toMatchObject({ configurationName: 'cam', shared: true, capacity: 3 })
      expect(spec.nodes.toSorted()).toEqual(NODES)
      const slots = [0, 1, 2].map((index) => `${metadata.name}-${index}`)
      expect(Object.keys(spec.deviceUsage).sort()).toEqual(slots)
      expect(Object.values(spec.deviceUsage).sort()).toEqual(['', ...NODES])
      await eventually(async () =>
        expect(await world.allocatables(`akri.sh/${metadata.name}`)).toEqual([2, 2]),
      )
    }

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
    expect(await countedBrokers(controller, 'cam')).toBe(4)
  })

  it('R43 R46 R47 R56 R62 brokers and Services come and go with the device', async () => {
    await world.apply(podYaml('own', { 'akri.sh/cam-8120fe': 1 }))
    const [own] = (await eventually(() => runningPodsIn(world, 5))).filter(
      ({ metadata }) => metadata.name === 'own',
    )
    await setAvailable(false)
    await eventually(async () => {
      expect(await namesIn(world, 'Pod')).toEqual(['own'])
      expect(await namesIn(world, 'Service')).toEqual([])
    })
    await runningPodsIn(world, 1)
    await setAvailable(true)
    const back = await eventually(() => runningPodsIn(world, 5))
    expect(uidsOf(back)).toContain(own?.metadata.uid)
    await eventually(async () => expect(await namesIn(world, 'Service')).toHaveLength(3))
    await world.remove('Pod', 'own')
    await eventually(() => runningPodsIn(world, 4))
  })

  it('C1 C10 R64 R103 a replica takes over from a killed controller', async () => {
    const before = uidsOf(await runningPodsIn(world, 4))
    await requestNode('POST', '', { metadata: { name: GHOST } })
    const removeGhost = () => requestNode('DELETE', `/${GHOST}`)
    onTestFinished(() => void removeGhost().catch(() => undefined))
    const free = await eventually(async () => {
      const { spec } = (await world.get<InstanceState>('Instance', 'cam-8120fe')) ?? expect.fail()
      const slots = Object.keys(spec.deviceUsage).filter((slot) => spec.deviceUsage[slot] === '')
      return slots[0] ?? expect.fail('no slot is free')
    })
    await world.api('Instance').patch(world.key('cam-8120fe'), 'json', [
      { op: 'add', path: '/spec/nodes/-', value: GHOST },
      { op: 'test', path: `/spec/deviceUsage/${free}`, value: '' },
      { op: 'replace', path: `/spec/deviceUsage/${free}`, value: GHOST },
    ])
    await controller.stop('SIGKILL')
    // No replica leads. The next leader still sees the changes of that time.
    await removeGhost()
    await world.remove('Pod', `${NODE_1}-cam-8120fe-pod`)
    // A test of `LeaderElection` waits until a Lease runs out.
    const lease = new Resource(world.client, LEASES)
    const leaseDurationSeconds = 1
    await lease.patch(world.key('akri-controller'), 'merge', { spec: { leaseDurationSeconds } })
    const other = replica()
    await other.lead()
    const after = await eventually(() => runningPodsIn(world, 4))
    expect(uidsOf(after).filter((uid) => before.includes(uid))).toHaveLength(3)
    await eventually(async () => {
      for (const { spec } of await world.instances()) {
        expect(spec.nodes.toSorted()).toEqual(NODES)
        expect(Object.values(spec.deviceUsage).sort()).toEqual(['', ...NODES])
      }
    })
    await other.stop()
    await controller.lead()
  })

  it('R57 R65 R72 a changed broker spec is rolled out, until an image fails', async () => {
    // A device that the spec no longer names goes with its brokers.
    await apply(['foo0'], 'v1')
    const before = await eventually(async () => {
      const found = ready(await runningPodsIn(world, 2))
      expect(found).toHaveLength(2)
      return found
    })
    const ids = await instanceIdsIn(world)
    const serviceOf = () => world.get<Made>('Service', 'cam-8120fe-svc')
    const first = await serviceOf()
    const versions = async () => (await alivePodsIn(world)).map(versionOf).sort()
    await apply(['foo0'], 'v2', { port: 8080 })
    await eventually(async () => expect(await versions()).toEqual(['v2', 'v2']))
    await eventually(async () =>
      expect((await summaryOf(world, 'cam'))?.brokers).toEqual({
        desired: 2,
        updated: 2,
        ready: 2,
      }),
    )
    await untilBrokers(world, 'cam', { status: 'True', reason: 'Ready' })
    // The Service keeps its address, and has the new port.
    await eventually(async () => {
      const { metadata, spec } = (await serviceOf()) ?? expect.fail('there is no Service')
      expect(spec).toMatchObject({ ports: [{ port: 8080 }], clusterIP: first?.spec.clusterIP })
      expect(metadata.uid).toBe(first?.metadata.uid)
    })
    // A broker that has worked for five seconds is no part of the roll-out any more.
    await eventually(async () => {
      for (const { metadata } of await world.list<Made>('Instance'))
        expect(metadata.annotations ?? {}).not.toHaveProperty(['akri.sh/brokers'])
    })
    // The kubelet cannot start the first broker of the next version: the others stay.
    const { containers } = podSpec()
    const image = { image: 'localhost/none:1', imagePullPolicy: 'Never' }
    await apply(['foo0'], '', {
      port: 8080,
      pod: { containers: [{ ...containers[0], ...image }] },
    })
    const message = expect.stringContaining('ErrImageNeverPull')
    await untilBrokers(world, 'cam', { status: 'False', reason: 'RolloutStuck', message })
    expect(await versions()).toEqual(['v2', undefined])
    const uids = uidsOf(await podsIn(world))
    expect(uidsOf(before).filter((uid) => uids.includes(uid))).toEqual([])
    // The removal of a broker spec removes its brokers and Services.
    await world.apply(echoYaml('cam', ['foo0'], 3))
    await eventually(async () => {
      expect(await namesIn(world, 'Pod')).toEqual([])
      expect(await namesIn(world, 'Service')).toEqual([])
    })
    expect(await instanceIdsIn(world)).toEqual(ids)
  })
})
