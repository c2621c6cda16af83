import { systemClock } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { missingForHealth } from './support/device-health.js'
import { NodeAgent } from './support/node-agent.js'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import { NODE_1 } from './support/nodes.js'
import { echoYaml, eventually, type PodState, podYaml, type World } from './support/world.js'

// The kubelet shows the health of the devices of a Pod in the status of the Pod.

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

const lacks = await missingForHealth()

describe.skipIf(lacks !== undefined)(
  `the health of devices in Pods${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let world: World
    let agents: NodeAgents

    useAgents((opened) => {
      world = opened.world
      agents = opened.agents
    })

    /** The health of each device of a Pod, by the name of the resource and the id. */
    const health = async (name: string): Promise<Record<string, string>> => {
      const pod = await world.get<PodWithHealth>('Pod', name)
      return Object.fromEntries(
        (pod?.status.containerStatuses ?? [])
          .flatMap(({ allocatedResourcesStatus = [] }) => allocatedResourcesStatus)
          .flatMap(({ name: resource, resources = [] }) =>
            resources.map((each) => [`${resource} ${each.resourceID}`, each.health]),
          ),
      )
    }
    const shows = (name: string, expected: Record<string, string>) =>
      eventually(async () => expect(await health(name)).toEqual(expected))
    /** The Events of the present Pods. */
    const events = async () => {
      const uids = (await world.pods()).map(({ metadata }) => metadata.uid)
      const { items } = (await world.client.request({
        method: 'GET',
        path: `/api/v1/namespaces/${world.namespace}/events`,
      })) as { items: EventState[] }
      return items.filter(
        ({ reason, involvedObject: { uid = '' } }) => reason === 'DeviceLost' && uids.includes(uid),
      )
    }
    const begin = async (name: string, resource: string) => {
      await eventually(async () => expect(await world.allocatable(NODE_1, resource)).toBe(1))
      await world.apply(podYaml(name, { [resource]: 1 }, { node: NODE_1, graceSeconds: 0 }))
      await eventually(() => world.running(name))
    }

    it('follows a device of either level that goes and comes back, and Events say so', async () => {
      await world.apply(echoYaml('lab', ['foo0'], 1))
      await world.apply(echoYaml('cam', ['foo0'], 1))
      await begin('p', 'akri.sh/lab-8120fe')
      await begin('q', 'akri.sh/cam')
      const [p, q] = ['akri.sh/lab-8120fe lab-8120fe-0', 'akri.sh/cam 0'] as const
      await shows('p', { [p]: 'Healthy' })
      await shows('q', { [q]: 'Healthy' })
      expect(await events()).toEqual([])

      for (const name of ['lab', 'cam']) await world.apply(echoYaml(name, [], 1))
      await shows('p', { [p]: 'Unhealthy' })
      await shows('q', { [q]: 'Unhealthy' })
      await world.running('p', 'q')
      const uids = Object.fromEntries(
        (await world.pods()).map(({ metadata }) => [metadata.name, metadata.uid]),
      )
      await eventually(async () => {
        const found = (await events()).map(({ involvedObject: { kind, name, uid }, message }) => [
          kind,
          name,
          uid,
          message,
        ])
        expect(found.sort()).toEqual(
          (
            [
              ['p', 'lab-8120fe', 'akri.sh/lab-8120fe'],
              ['q', 'cam-8120fe', 'akri.sh/cam'],
            ] as const
          ).map(([name, instance, resource]) => [
            'Pod',
            name,
            uids[name],
            `${NODE_1} no longer finds device "foo0" of Instance ${instance}, which the Pod ` +
              `has by ${resource}`,
          ]),
        )
      })

      for (const name of ['lab', 'cam']) await world.apply(echoYaml(name, ['foo0'], 1))
      await shows('p', { [p]: 'Healthy' })
      await shows('q', { [q]: 'Healthy' })
      await world.running('p', 'q')
    })

    it.each(['SIGTERM', 'SIGKILL'] as const)(
      'A2 does not change with an agent that ends by %s and starts again',
      async (signal) => {
        await world.apply(echoYaml('lab', ['foo0'], 1))
        await world.apply(echoYaml('cam', ['foo0'], 1))
        await begin('p', 'akri.sh/lab-8120fe')
        await begin('q', 'akri.sh/cam')
        const healthy = {
          p: { 'akri.sh/lab-8120fe lab-8120fe-0': 'Healthy' },
          q: { 'akri.sh/cam 0': 'Healthy' },
        }
        await shows('p', healthy.p)
        await shows('q', healthy.q)
        const registered = await world.registrations(NODE_1)
        await agents.on(NODE_1).stop(signal)
        const starting = agents.on(NODE_1).start()
        const checks = async () => {
          expect(await health('p')).toEqual(healthy.p)
          expect(await health('q')).toEqual(healthy.q)
        }
        while ((await world.registrations(NODE_1)) < registered + 4) await checks()
        await starting
        // The kubelet writes the status of a Pod some seconds late.
        for (let second = 0; second < 15; second++) {
          await checks()
          await systemClock.sleep(1000)
        }
        expect(await events()).toEqual([])
      },
    )

    it('A2 does not change while a new agent takes the place of a running agent', async () => {
      await world.apply(echoYaml('lab', ['foo0'], 1))
      await world.apply(echoYaml('cam', ['foo0'], 1))
      await begin('p', 'akri.sh/lab-8120fe')
      await begin('q', 'akri.sh/cam')
      const healthy = {
        p: { 'akri.sh/lab-8120fe lab-8120fe-0': 'Healthy' },
        q: { 'akri.sh/cam 0': 'Healthy' },
      }
      await shows('p', healthy.p)
      await shows('q', healthy.q)
      const pods = (await world.pods()).map(({ metadata }) => metadata.uid)
      const registered = await world.registrations(NODE_1)
      const old = agents.on(NODE_1)
      const successor = NodeAgent.beside(old)
      const checks = async () => {
        expect(await health('p')).toEqual(healthy.p)
        expect(await health('q')).toEqual(healthy.q)
      }
      try {
        // While the old agent serves, the new one ends, and the kubelet starts it again.
        await successor.start()
        while ((await successor.exitCode()) === undefined) await checks()
        await old.stop()
        await successor.start()
        while ((await world.registrations(NODE_1)) < registered + 4) await checks()
        // The kubelet writes the status of a Pod some seconds late.
        for (let second = 0; second < 15; second++) {
          await checks()
          await systemClock.sleep(1000)
        }
        await world.running('p', 'q')
        expect((await world.pods()).map(({ metadata }) => metadata.uid)).toEqual(pods)
        expect(await events()).toEqual([])
      } finally {
        await successor.stop()
        await old.start()
      }
    })

    it('does not change while the Instance is deleted and created again', async () => {
      await world.apply(echoYaml('lab', ['foo0'], 1))
      await begin('p', 'akri.sh/lab-8120fe')
      const healthy = { 'akri.sh/lab-8120fe lab-8120fe-0': 'Healthy' }
      await shows('p', healthy)
      const uid = async () => (await world.instances())[0]?.metadata.uid
      const before = await uid()
      await world.remove('Instance', 'lab-8120fe')
      for (let now = before; now === undefined || now === before; now = await uid())
        expect(await health('p')).toEqual(healthy)
      for (let second = 0; second < 10; second++) {
        expect(await health('p')).toEqual(healthy)
        await systemClock.sleep(1000)
      }
      expect(await events()).toEqual([])
    })

    it('is that of a device that went while no agent ran', async () => {
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1, { offer: 'configuration' }))
      await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(2))
      await world.apply(podYaml('q', { 'akri.sh/cam': 1 }, { node: NODE_1, graceSeconds: 0 }))
      await eventually(() => world.running('q'))
      await shows('q', { 'akri.sh/cam 0': 'Healthy' })
      const used = (await world.instances()).find(({ spec }) =>
        Object.values(spec.deviceUsage).includes(`C:0:${NODE_1}`),
      )
      const rest = used?.metadata.name === 'cam-8120fe' ? 'foo1' : 'foo0'

      await agents.on(NODE_1).stop('SIGKILL')
      await world.apply(echoYaml('cam', [rest], 1, { offer: 'configuration' }))
      await agents.on(NODE_1).start()
      await shows('q', { 'akri.sh/cam 0': 'Unhealthy' })
      // The id of the lost device stays beside that of the other device.
      await eventually(async () => expect(await world.allocatable(NODE_1, 'akri.sh/cam')).toBe(1))
      await world.remove('Pod', 'q')
      await world.apply(podYaml('r', { 'akri.sh/cam': 1 }, { node: NODE_1, graceSeconds: 0 }))
      await eventually(() => world.running('r'))
    })
  },
)
