import type { Condition, Configuration } from '@akrijs/api'
import { afterEach, describe, expect, it } from 'vitest'
import { clockAheadBy } from './support/clocks.js'
import { useController } from './support/controlled-world.js'
import { History } from './support/history.js'
import { ASKS, alivePodsIn, isBroker, type Made, podSpec, targetOf } from './support/made.js'
import {
  access,
  missing,
  missingThird,
  NODE_3,
  NODES,
  unless,
  unlessThird,
} from './support/nodes.js'
import { echoYaml, eventually, type World } from './support/world.js'

// Brokers that no node has room for: the scheduler knows that, the controller does not.

/** A broker is tried on another node five minutes after its creation: here, after 20 s. */
const AHEAD_MS = 280_000
/** With three nodes it takes more turns: each takes 10 s. */
const FURTHER_AHEAD_MS = 290_000
/** What a broker asks for, as a share of the processors of the smaller node. */
const SHARE = 0.6

const nameOfBallast = (node: string) => `ballast-of-${node}`

/** The processors of each node for Pods, in thousandths. */
async function processors(world: World, nodes: readonly string[]): Promise<Map<string, number>> {
  const found = new Map<string, number>()
  for (const node of nodes) {
    const path = `/api/v1/nodes/${node}`
    const { status } = (await world.client.request({ method: 'GET', path })) as {
      status: { allocatable: { cpu: string } }
    }
    const { cpu } = status.allocatable
    found.set(node, cpu.endsWith('m') ? Number.parseInt(cpu, 10) : Number(cpu) * 1000)
  }
  return found
}

/** A Pod that takes processors of the node. */
async function fill(world: World, node: string, cpu: string): Promise<void> {
  const container = {
    name: 'c',
    image: access.shellImage,
    command: ['/bin/sh', '-c', 'exec sleep 100000'],
    resources: { requests: { cpu } },
  }
  const spec = { nodeName: node, terminationGracePeriodSeconds: 0, containers: [container] }
  const metadata = { name: nameOfBallast(node) }
  await world.apply(JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata, spec }))
  await eventually(() => world.running(nameOfBallast(node)))
}

/**
 * Leaves each node less than a broker asks for.
 * @returns the spec of such a broker
 */
async function fillAll(world: World, nodes: readonly string[]): Promise<object> {
  const sizes = await processors(world, nodes)
  const smallest = Math.min(...sizes.values())
  for (const [node, size] of sizes)
    await fill(world, node, `${Math.ceil(size - smallest * (1 - SHARE))}m`)
  return podSpec(undefined, {}, { ...ASKS, cpu: `${Math.ceil(smallest * SHARE)}m` })
}

/** The broker of the Instance, and the node that it is for. */
async function brokerOf(world: World, instance: string) {
  const found = (await alivePodsIn(world)).filter(
    (pod) => isBroker(pod) && pod.metadata.labels['akri.sh/instance'] === instance,
  )
  expect(found).toHaveLength(1)
  const [pod] = found
  if (pod === undefined) return expect.fail('there is no broker')
  const node = targetOf(pod) ?? ''
  return { uid: pod.metadata.uid, node, phase: pod.status.phase, on: pod.spec.nodeName }
}

function apply(world: World, devices: readonly string[], brokerPodSpec: object): Promise<void> {
  return world.apply(echoYaml('cam', devices, 1, { brokerSpec: { brokerPodSpec } }))
}

/** The name of the Instance of the only device. */
function onlyInstance(world: World): Promise<string> {
  return eventually(async () => {
    const names = (await world.instances()).map(({ metadata }) => metadata.name)
    expect(names).toHaveLength(1)
    return names[0] ?? ''
  })
}

/** @throws if one of the brokers does not run */
async function allRun(world: World, count: number): Promise<void> {
  const all = (await alivePodsIn(world)).filter(isBroker)
  expect(all.map(({ status }) => status.phase)).toEqual(
    Array.from({ length: count }, () => 'Running'),
  )
}

describe.skipIf(missing() !== undefined)(`brokers without room${unless}`, () => {
  let world: World

  useController((opened) => {
    world = opened.world
  }, clockAheadBy(AHEAD_MS))

  afterEach(async () => {
    for (const node of NODES) await world.remove('Pod', nameOfBallast(node)).catch(() => undefined)
  })

  async function brokersReady(): Promise<Condition> {
    const { status } = (await world.get<Configuration>('Configuration', 'cam')) ?? {}
    const found = status?.conditions.find(({ type }) => type === 'BrokersReady')
    return found ?? expect.fail('there is no condition BrokersReady')
  }

  it('R77 a broker without room is tried on each node, and stays where it runs', async () => {
    const spec = await fillAll(world, NODES)
    await apply(world, ['foo0'], spec)
    const instance = await onlyInstance(world)
    const first = await eventually(() => brokerOf(world, instance))
    expect(first).toMatchObject({ phase: 'Pending', on: undefined })
    await eventually(async () =>
      expect(await brokersReady()).toMatchObject({ status: 'False', reason: 'Unschedulable' }),
    )

    // The other node has no room either, so the turn comes back to the first.
    const other = NODES.find((name) => name !== first.node) ?? ''
    const second = await eventually(async () => {
      const broker = await brokerOf(world, instance)
      expect(broker.node).toBe(other)
      return broker
    })
    expect(second.uid).not.toBe(first.uid)
    await world.remove('Pod', nameOfBallast(first.node))
    const placed = await eventually(async () => {
      const broker = await brokerOf(world, instance)
      expect(broker).toMatchObject({ node: first.node, on: first.node, phase: 'Running' })
      return broker
    })
    await eventually(async () =>
      expect(await brokersReady()).toMatchObject({ status: 'True', reason: 'Ready' }),
    )

    // Room elsewhere moves no broker: the controller has seen it once it uses it.
    await world.remove('Pod', nameOfBallast(other))
    await apply(world, ['foo0', 'foo1'], spec)
    await eventually(() => allRun(world, 2))
    expect(await brokerOf(world, instance)).toEqual(placed)
  }, 300_000)
})

const all = NODE_3 === undefined ? NODES : [...NODES, NODE_3]

describe.skipIf(missingThird() !== undefined)(`brokers and three nodes${unlessThird}`, () => {
  let world: World

  useController(
    (opened) => {
      world = opened.world
    },
    clockAheadBy(FURTHER_AHEAD_MS),
    all,
  )

  afterEach(async () => {
    for (const node of all) await world.remove('Pod', nameOfBallast(node)).catch(() => undefined)
  })

  it('R77 a broker finds the only node with room, and stays there', async () => {
    const spec = await fillAll(world, all)
    await apply(world, ['foo0'], spec)
    const instance = await onlyInstance(world)
    const turns: string[] = []
    const nextTurn = () =>
      eventually(async () => {
        const { node, phase } = await brokerOf(world, instance)
        expect(phase).toBe('Pending')
        expect([...turns, '']).not.toContain(node)
        turns.push(node)
      })
    await nextTurn()
    await nextTurn()
    const last = all.find((node) => !turns.includes(node)) ?? ''
    await world.remove('Pod', nameOfBallast(last))
    const placed = await eventually(async () => {
      const broker = await brokerOf(world, instance)
      expect(broker).toMatchObject({ node: last, on: last, phase: 'Running' })
      return broker
    })

    // The controller has seen the room of the other nodes once it uses it.
    for (const node of turns) await world.remove('Pod', nameOfBallast(node))
    await apply(world, ['foo0', 'foo1', 'foo2'], spec)
    await eventually(() => allRun(world, 3))
    expect(await brokerOf(world, instance)).toEqual(placed)
  }, 300_000)

  it('R77 no broker is made for a node that its required node affinity rules out', async () => {
    const [excluded = '', ...others] = all
    const history = await History.begin<Made>(world, 'Pod')
    try {
      const matchExpressions = [
        { key: 'kubernetes.io/hostname', operator: 'NotIn', values: [excluded] },
      ]
      const nodeAffinity = {
        requiredDuringSchedulingIgnoredDuringExecution: {
          nodeSelectorTerms: [{ matchExpressions }],
        },
      }
      const brokerPodSpec = podSpec(undefined, { affinity: { nodeAffinity } })
      const devices = ['foo0', 'foo1']
      // Room for a broker on each node, and then for a choice.
      for (const capacity of [all.length, 1]) {
        await world.apply(echoYaml('cam', devices, capacity, { brokerSpec: { brokerPodSpec } }))
        const count = Math.min(capacity, others.length) * devices.length
        await eventually(() => allRun(world, count))
      }
    } finally {
      await history.end()
    }
    const targets = history.states.filter(isBroker).map(targetOf)
    expect(targets.length).toBeGreaterThan(0)
    expect(targets).not.toContain(excluded)
  })
})
