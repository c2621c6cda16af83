import { describe, expect, it } from 'vitest'
import { useController } from './support/controlled-world.js'
import { History } from './support/history.js'
import {
  alivePodsIn,
  brokersOf,
  instanceIdsIn,
  type Made,
  namesIn,
  podSpec,
  podsIn,
  ready,
  refuse,
  runningPodsIn,
  service,
} from './support/made.js'
import { missing, NODE_1, NODE_2, NODES, unless } from './support/nodes.js'
import { echoYaml, eventually, type World } from './support/world.js'

// The number and nodes of broker Pods, and the reaction to a Pod that ends, is rejected or has
// another spec.

describe.skipIf(missing() !== undefined)(`broker Pods on a real cluster${unless}`, () => {
  let world: World

  useController((opened) => {
    world = opened.world
  })

  it('R48 R76 R77 C7 as many brokers run as the capacity, on another node if need be', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const [broker] = await eventually(() => runningPodsIn(world, 1))
    const node = broker?.spec.nodeName ?? ''
    const other = NODES.find((name) => name !== node) ?? ''
    // The node takes no new Pods, and its broker ends.
    await cordon(node, true)
    try {
      await world.remove('Pod', broker?.metadata.name ?? '')
      await eventually(async () =>
        expect((await runningPodsIn(world, 1))[0]?.spec.nodeName).toBe(other),
      )
    } finally {
      await cordon(node, false)
    }
    // The capacity is raised: the other node gets a broker too, and the running broker stays.
    const [moved] = await runningPodsIn(world, 1)
    await world.apply(echoYaml('cam', ['foo0'], 2, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const both = await eventually(() => runningPodsIn(world, 2))
    expect(both.map(({ metadata }) => metadata.uid)).toContain(moved?.metadata.uid)
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    await eventually(async () => expect(await podsIn(world)).toHaveLength(1))
  })

  it('R77 no broker is made for a node with a taint that it does not tolerate', async () => {
    const taints = [{ key: 'akri.test/kept', value: 'x', effect: 'NoSchedule' }]
    const hosts = async () =>
      (await runningPodsIn(world, 6)).map(({ spec }) => spec.nodeName).sort()
    const devices = Array.from({ length: 6 }, (_, index) => `foo${index}`)
    const apply = (more: object) =>
      world.apply(
        echoYaml('cam', devices, 1, { brokerSpec: { brokerPodSpec: { ...podSpec(), ...more } } }),
      )
    await changeNode(NODE_1, { taints })
    try {
      await apply({})
      await eventually(async () => expect(await hosts()).toEqual(devices.map(() => NODE_2)))
      await world.remove('Configuration', 'cam')
      await eventually(async () => expect(await podsIn(world)).toEqual([]))
      await apply({ tolerations: [{ key: 'akri.test/kept', operator: 'Exists' }] })
      await eventually(async () => expect(new Set(await hosts())).toEqual(new Set(NODES)))
    } finally {
      await changeNode(NODE_1, { taints: null })
    }
  })

  it('new brokers are spread over the nodes that see the devices', async () => {
    const devices = Array.from({ length: 16 }, (_, index) => `foo${index}`)
    await world.apply(echoYaml('cam', devices, 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const brokers = await eventually(() => runningPodsIn(world, 16))
    // By digests that include the namespace, so that any number is possible; these are not.
    for (const node of NODES) {
      const count = brokers.filter(({ spec }) => spec.nodeName === node).length
      expect(count).toBeGreaterThanOrEqual(2)
    }
  })

  it('R49 R62 C6 a deleted or ended broker is replaced, with growing pauses', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1, { brokerSpec: { brokerPodSpec: podSpec() } }))
    const [first] = await eventually(() => runningPodsIn(world, 1))
    await world.remove('Pod', first?.metadata.name ?? '')
    await eventually(async () =>
      expect((await runningPodsIn(world, 1))[0]?.metadata.uid).not.toBe(first?.metadata.uid),
    )

    const history = await History.begin<Made>(world, 'Pod')
    try {
      const ends = { brokerSpec: { brokerPodSpec: podSpec('exit 3', { restartPolicy: 'Never' }) } }
      await world.apply(echoYaml('cam', ['foo0'], 1, ends))
      const broken = await eventually(() => {
        const found = brokersOf(history).slice(1)
        expect(found).toHaveLength(4)
        return found
      })
      expect(broken.map(({ restarts }) => restarts)).toEqual([0, 1, 2, 3])
      const waits = broken.map(
        ({ createdAt }, index) => createdAt - (broken[index - 1]?.endedAt ?? createdAt),
      )
      expect(waits[2]).toBeGreaterThanOrEqual(2000)
      expect(waits[3]).toBeGreaterThanOrEqual(4000)
    } finally {
      await history.end()
    }
  })

  it('R86 R89 C6 a broker that the kubelet rejected is replaced', async () => {
    // No node has that much: the Pod waits, and the test acts as the kubelet that rejects it.
    await world.apply(
      echoYaml('cam', ['foo0'], 1, {
        brokerSpec: { brokerPodSpec: podSpec('true', {}, { 'akri.sh/cam-8120fe': '7' }) },
      }),
    )
    const [pod] = await eventually(async () => {
      const found = await alivePodsIn(world)
      expect(found).toHaveLength(1)
      return found
    })
    await refuse(world, pod?.metadata.name ?? '')
    const refusedAt = Date.now()
    const [next] = await eventually(async () => {
      const found = await alivePodsIn(world)
      expect(found.map(({ metadata }) => metadata.uid)).not.toContain(pod?.metadata.uid)
      expect(found).toHaveLength(1)
      return found
    })
    expect(Date.now() - refusedAt).toBeGreaterThanOrEqual(1000)
    expect(next?.metadata.annotations['akri.sh/restarts']).toBe('1')
  })

  it('R57 R65 R72 a changed broker spec is rolled out one broker at a time', async () => {
    const spec = (version: string, more: object = {}) => ({
      brokerSpec: { brokerPodSpec: podSpec(`echo ${version}; exec sleep 100000`), ...more },
      instanceServiceSpec: service(80),
    })
    await world.apply(echoYaml('cam', ['foo0'], 2, spec('v1')))
    const before = await eventually(() => runningPodsIn(world, 2))
    await eventually(async () =>
      expect(await namesIn(world, 'Service')).toEqual(['cam-8120fe-svc']),
    )
    const ids = await instanceIdsIn(world)
    const [service1] = await world.list<Made>('Service')
    const history = await History.begin<Made>(world, 'Pod')
    try {
      await world.apply(
        echoYaml('cam', ['foo0'], 2, { ...spec('v2'), instanceServiceSpec: service(8080) }),
      )
      await eventually(async () => {
        expect(
          ready(await podsIn(world)).map(({ spec: { containers } }) => containers[0].command[2]),
        ).toEqual(Array(2).fill('echo v2; exec sleep 100000'))
      })
    } finally {
      await history.end()
    }
    // The history starts with one Pod after the other.
    const counts = history.moments.slice(1).map((moment) => ready(moment).length)
    expect(Math.min(...counts)).toBe(1)
    for (const { metadata } of before)
      expect((await podsIn(world)).map((pod) => pod.metadata.uid)).not.toContain(metadata.uid)
    expect(await instanceIdsIn(world)).toEqual(ids)
    // The Service keeps its address, and has the new port.
    await eventually(async () => {
      const [service2] = await world.list<Made>('Service')
      expect(service2?.spec.ports[0].port).toBe(8080)
      expect([service2?.metadata.uid, service2?.spec.clusterIP]).toEqual([
        service1?.metadata.uid,
        service1?.spec.clusterIP,
      ])
    })

    const uids = (await runningPodsIn(world, 2)).map(({ metadata }) => metadata.uid)
    await world.apply(
      echoYaml('cam', ['foo0'], 2, spec('v3', { updateStrategy: { type: 'OnDelete' } })),
    )
    await world.remove('Pod', `${NODE_1}-cam-8120fe-pod`)
    await eventually(async () => {
      const commands = Object.fromEntries(
        (await runningPodsIn(world, 2)).map(({ metadata, spec: { containers } }) => [
          metadata.name,
          containers[0].command[2].slice(0, 7),
        ]),
      )
      expect(commands).toEqual({
        [`${NODE_1}-cam-8120fe-pod`]: 'echo v3',
        [`${NODE_2}-cam-8120fe-pod`]: 'echo v2',
      })
    })
    expect(
      (await runningPodsIn(world, 2)).filter(({ metadata }) => uids.includes(metadata.uid)),
    ).toHaveLength(1)

    // The removal of a broker spec removes its brokers and Services.
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => {
      expect(await namesIn(world, 'Pod')).toEqual([])
      expect(await namesIn(world, 'Service')).toEqual([])
    })
    expect(await instanceIdsIn(world)).toEqual(ids)
  })

  const cordon = (node: string, unschedulable: boolean) => changeNode(node, { unschedulable })

  async function changeNode(node: string, spec: object): Promise<void> {
    const path = `/api/v1/nodes/${node}`
    await world.client.request({ method: 'PATCH', path, body: { spec }, patch: 'merge' })
  }
})
