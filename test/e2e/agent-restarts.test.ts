import { afterAll, beforeAll, expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { missingForHealth } from './support/device-health.js'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import { access, filesBelow, missing, NODE_1 } from './support/nodes.js'
import { echoYaml, eventually, type PodState, podYaml, type World } from './support/world.js'

// Agents and kubelets end, come back and are replaced, and devices go and come, while Pods use
// devices of both levels. Each test goes on with what the tests before it left.

interface PodWithHealth extends PodState {
  readonly status: PodState['status'] & {
    readonly containerStatuses?: readonly {
      readonly allocatedResourcesStatus?: readonly {
        readonly name: string
        readonly resources?: readonly { readonly resourceID: string; readonly health: string }[]
      }[]
    }[]
  }
}

interface EventState {
  readonly involvedObject: { readonly kind: string; readonly name: string; readonly uid?: string }
  readonly reason: string
  readonly message: string
}

/** The Pods, with the resource and the id of their device. */
const PODS = { p: 'akri.sh/lab-8120fe lab-8120fe-0', q: 'akri.sh/cam 0' } as const
const DEVICES = Object.entries(PODS).map(([pod, device]) => `${pod} has ${device}`)
const CAPACITY = { lab: 1, cam: 2 }
/** One for each Configuration and for each Instance. */
const PLUGINS = 4

const lacksHealth = await missingForHealth()
const unlessHealth = lacksHealth === undefined ? '' : ` (${lacksHealth})`

describeUnless(missing(), 'agents and kubelets that come and go', () => {
  const watching = new AbortController()
  let world: World
  let agents: NodeAgents
  let before: Awaited<ReturnType<typeof state>>
  let watched: Promise<void> | undefined
  /** The healths of each device of a Pod, as the kubelet wrote one after the other. */
  const healths: Record<string, string[]> = {}

  useAgents(
    (opened) => {
      world = opened.world
      agents = opened.agents
    },
    { inTurn: true },
  )

  const apply = (descriptions: readonly string[]) =>
    Promise.all(
      Object.entries(CAPACITY).map(([name, capacity]) =>
        world.apply(echoYaml(name, descriptions, capacity)),
      ),
    )

  /** What a restart must not change. */
  const state = async () => ({
    instances: (await world.instances()).map(({ metadata, spec }) => ({
      uid: metadata.uid,
      generation: metadata.generation,
      spec,
    })),
    pods: (await world.pods()).map(({ metadata, status }) => [metadata.uid, status.phase]),
  })

  beforeAll(async () => {
    await apply(['foo0'])
    for (const [name, device] of Object.entries(PODS)) {
      const [resource = ''] = device.split(' ')
      await eventually(async () => expect(await world.allocatable(NODE_1, resource)).toBe(1))
      await world.apply(podYaml(name, { [resource]: 1 }, { node: NODE_1, graceSeconds: 0 }))
    }
    await eventually(() => world.running(...Object.keys(PODS)))
    await eventually(async () => expect(await world.holders()).toEqual([`C:0:${NODE_1}`, NODE_1]))
    await eventually(() => world.joined())
    before = await state()
    if (lacksHealth === undefined) {
      watched = watchHealth()
      await shows('Healthy')
    }
  })

  afterAll(async () => {
    watching.abort()
    await watched
  })

  /** The agent that starts serves each plugin again, and changes nothing. */
  async function expectServed(registered: number): Promise<void> {
    // The status of the node can be older than the restart.
    await eventually(async () => expect(await world.registrations(NODE_1)).toBe(registered))
    expect(await state()).toEqual(before)
  }

  it.each(['SIGTERM', 'SIGKILL'] as const)(
    'A2 A3 Pods, Instances and slots survive the end of the agent by %s',
    async (signal) => {
      const registered = await world.registrations(NODE_1)
      await agents.on(NODE_1).stop(signal)
      await agents.on(NODE_1).start()
      await expectServed(registered + PLUGINS)
      // No socket of the ended agent is left.
      const files = () => filesBelow(NODE_1, '/var/lib/kubelet/device-plugins')
      await eventually(async () =>
        expect((await files()).filter((name) => name.startsWith('akri-'))).toHaveLength(PLUGINS),
      )
    },
  )

  it.skipIf(lacksHealth !== undefined)(
    `A2 the health in Pods follows a device that goes and returns; Events say so${unlessHealth}`,
    async () => {
      await apply([])
      await shows('Unhealthy')
      // A restart of the agent or the loss of an Instance would have come before.
      for (const device of DEVICES) expect(healths[device]).toEqual(['Healthy', 'Unhealthy'])
      const uids = new Map(
        (await world.pods()).map(({ metadata }) => [metadata.name, metadata.uid]),
      )
      const lost = ([name, device]: readonly [name: string, device: string]) => {
        const [resource = '', id] = device.split(' ')
        const instance = id === '0' ? 'cam-8120fe' : 'lab-8120fe'
        return [
          'Pod',
          name,
          uids.get(name),
          `${NODE_1} no longer finds device "foo0" of Instance ${instance}, which the Pod ` +
            `has by ${resource}`,
        ]
      }
      await eventually(async () =>
        expect(
          (await events())
            .map(({ involvedObject: { kind, name, uid }, message }) => [kind, name, uid, message])
            .sort(),
        ).toEqual(Object.entries(PODS).map(lost)),
      )
      await apply(['foo0'])
      await shows('Healthy')
    },
  )

  it('A21 an agent registers again with a restarted kubelet, and changes no more', async () => {
    await eventually(() => world.joined())
    before = await state()
    await access.killKubelet(NODE_1)
    await eventually(async () =>
      expect(await agents.on(NODE_1).output()).toMatch(/kubelet restarted/),
    )
    // The kubelet's count started at zero.
    await eventually(async () =>
      expect(await world.registrations(NODE_1)).toBeGreaterThanOrEqual(PLUGINS),
    )
    await world.apply(podYaml('r', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_1, graceSeconds: 0 }))
    await eventually(() => world.running('p', 'q', 'r'))
    const after = await state()
    expect(after.instances.map(({ uid }) => uid)).toEqual(before.instances.map(({ uid }) => uid))
    expect(after.pods).toEqual(expect.arrayContaining(before.pods))
    expect(await world.holders()).toEqual([`C:0:${NODE_1}`, NODE_1, NODE_1])
  })

  const shows = (health: string) =>
    eventually(() => {
      for (const device of DEVICES) expect(healths[device]?.at(-1)).toBe(health)
    })

  /** Records each health of each device until the end of the tests. */
  async function watchHealth(): Promise<void> {
    const request = {
      method: 'GET' as const,
      path: world.api('Pod').path(world.namespace),
      query: { watch: true },
    }
    try {
      for await (const line of world.client.lines(request, watching.signal)) {
        const { object } = JSON.parse(line) as { object: PodWithHealth }
        for (const { name, resources = [] } of (object.status.containerStatuses ?? []).flatMap(
          ({ allocatedResourcesStatus = [] }) => allocatedResourcesStatus,
        ))
          for (const { resourceID, health } of resources) {
            const device = `${object.metadata.name} has ${name} ${resourceID}`
            healths[device] ??= []
            if (healths[device].at(-1) !== health) healths[device].push(health)
          }
      }
    } catch (error) {
      if (!watching.signal.aborted) throw error
    }
  }

  async function events(): Promise<EventState[]> {
    const { items } = (await world.client.request({
      method: 'GET',
      path: `/api/v1/namespaces/${world.namespace}/events`,
    })) as { items: EventState[] }
    return items.filter(({ reason }) => reason === 'DeviceLost')
  }
})
