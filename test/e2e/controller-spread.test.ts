import { NODE_REPORTS } from '@akrijs/api'
import { objectKey, Resource } from '@akrijs/kube'
import { afterEach, describe, expect, it } from 'vitest'
import { clockSlowedBy } from './support/clocks.js'
import { useController } from './support/controlled-world.js'
import { alivePodsIn, isBroker, type Made, podSpec, podsIn, targetOf } from './support/made.js'
import type { NodeAgents } from './support/node-agents.js'
import { missingHere, missingThird, NODE_1, NODE_2, NODE_3 } from './support/nodes.js'
import { echoYaml, eventually, type World } from './support/world.js'

// Brokers of new devices wait for nodes to join, for 2 s by the clock of the controller. That clock
// is slow, so that a slow machine changes no result.

const SLOWNESS = 12
/** The bound for three nodes, in milliseconds of this clock. */
const BOUND_MS = SLOWNESS * 2060
/** What a busy machine takes for a broker after that. */
const BUSY_MS = 45_000
/** So many that each node has some, whatever the digests of their names are. */
const DEVICES = Array.from({ length: 24 }, (_, index) => `foo${index}`)

const lacks = missingHere() ?? missingThird()
const LAST = NODE_3 ?? ''
const nodes = [NODE_1, NODE_2, LAST]
const suffix = lacks === undefined ? '' : ` (${lacks})`

describe.skipIf(lacks !== undefined)(`brokers of new devices on three nodes${suffix}`, () => {
  let world: World
  let agents: NodeAgents

  useController(
    (opened) => {
      world = opened.world
      agents = opened.agents
    },
    clockSlowedBy(SLOWNESS),
    nodes,
  )

  afterEach(() => signal('SIGCONT'))

  function signal(name: 'SIGSTOP' | 'SIGCONT'): void {
    process.kill(agents.on(LAST).pid ?? expect.fail('the agent has no process'), name)
  }

  /** The agent of the last node lives, and does nothing. The controller knows it by its report. */
  async function pause(): Promise<void> {
    const reports = new Resource(world.client, NODE_REPORTS)
    await eventually(async () => expect(await reports.get(objectKey('', LAST))).toBeDefined())
    signal('SIGSTOP')
  }

  /** Brokers that the scheduler ignores: the controller has chosen their nodes. */
  function apply(): Promise<void> {
    const brokerPodSpec = podSpec(undefined, { schedulingGates: [{ name: 'akri.test/never' }] })
    return world.apply(echoYaml('cam', DEVICES, 1, { brokerSpec: { brokerPodSpec } }))
  }

  /** @throws unless exactly these nodes have joined each Instance */
  async function joined(expected: readonly string[]): Promise<void> {
    const seen = (await world.instances()).map(({ spec }) => spec.nodes.toSorted())
    expect(seen).toEqual(DEVICES.map(() => expected))
  }

  /** The brokers, as soon as each device has its broker. */
  const brokers = (): Promise<Made[]> =>
    eventually(async () => {
      const found = (await alivePodsIn(world)).filter(isBroker)
      expect(found).toHaveLength(DEVICES.length)
      return found
    })
  const hosts = (found: readonly Made[]) => [...new Set(found.map(targetOf))].toSorted()

  it('are on all nodes', async () => {
    await apply()
    expect(hosts(await brokers())).toEqual(nodes)
  })

  it('are on a node too that joins late', async () => {
    await pause()
    await apply()
    await eventually(() => joined(nodes.slice(0, 2)))
    expect(await podsIn(world)).toEqual([])
    signal('SIGCONT')
    expect(hosts(await brokers())).toEqual(nodes)
  })

  it('wait for a node that never joins no longer than the bound', async () => {
    await pause()
    await apply()
    const found = await brokers()
    await joined(nodes.slice(0, 2))
    expect(hosts(found)).toEqual(nodes.slice(0, 2))
    const createdAt = new Map(
      (await world.list<Made>('Instance')).map(({ metadata }) => [
        metadata.name,
        Date.parse(metadata.creationTimestamp),
      ]),
    )
    for (const { metadata } of found) {
      const instance = metadata.labels['akri.sh/instance'] ?? ''
      const waitedMs = Date.parse(metadata.creationTimestamp) - (createdAt.get(instance) ?? 0)
      // Both times are whole seconds.
      expect(waitedMs).toBeGreaterThan(BOUND_MS - 2000)
      expect(waitedMs).toBeLessThan(BOUND_MS + BUSY_MS)
    }
  })
})
