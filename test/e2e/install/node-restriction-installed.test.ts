import path from 'node:path'
import type { ConfigurationStatus, Instance } from '@akrijs/api'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { kubectl } from '../support/kubectl.js'
import { NODE_1, NODE_2, NODES } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { echoYaml, eventually, podYaml, World } from '../support/world.js'
import {
  installedPods,
  joinNodes,
  MANIFESTS,
  provideImage,
  removeNamespace,
  rolledOut,
  separateNodes,
} from './installation.js'
import { applyPolicies, missingForPolicies, POLICIES } from './policies.js'

// The policies reject nothing that agents do. Each test builds on the tests before it.

const lacks = await missingForPolicies()

describe.skipIf(lacks !== undefined)(
  `agents of deploy/manifests with node-restriction${lacks === undefined ? '' : ` (${lacks})`}`,
  () => {
    let world: World
    const statusOf = async (configuration: string) =>
      (await world.get<{ status?: ConfigurationStatus }>('Configuration', configuration))?.status
    const shared = ['foo0', 'foo1']

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
      world = await World.open()
      await applyPolicies(world)
      await kubectl('apply', '-k', MANIFESTS)
      await rolledOut('daemonset/akri-agent-daemonset')
    })

    afterAll(async () => {
      const folders = ['controller', 'agent'].map((folder) => path.join(MANIFESTS, folder))
      await tidyUp(
        () => kubectl('delete', '-k', POLICIES, '--ignore-not-found'),
        async () => world?.close(),
        ...folders.map((folder) => () => kubectl('delete', '-k', folder, '--ignore-not-found')),
        () => removeNamespace(),
        () => joinNodes(),
      )
    })

    it('offer a shared device on both nodes, and local devices on their own node', async () => {
      await world.apply(echoYaml('echo', shared, 4))
      const nulls = {
        discoveryHandler: { name: 'udev', discoveryDetails: 'udevRules: [KERNEL=="null"]' },
      }
      await world.apply(
        JSON.stringify({
          apiVersion: 'akri.sh/v0',
          kind: 'Configuration',
          metadata: { name: 'nulls' },
          spec: nulls,
        }),
      )
      await eventually(async () =>
        expect(await world.allocatables('akri.sh/nulls')).toEqual([1, 1]),
      )
      for (const digest of ['8120fe', 'a19705'])
        await eventually(async () =>
          expect(await world.allocatables(`akri.sh/echo-${digest}`)).toEqual([4, 4]),
        )
      const nodes = (await world.instances()).map((instance) => instance.spec.nodes.toSorted())
      expect(nodes.toSorted()).toEqual([[NODE_1], [...NODES], [...NODES], [NODE_2]].toSorted())
      await eventually(async () =>
        expect((await statusOf('echo'))?.nodeCounts).toEqual({
          reporting: NODES.length,
          ready: NODES.length,
          silent: 0,
        }),
      )
    })

    it('give its slots to Pods at both levels, and publish the reports of these Pods', async () => {
      const script = 'echo 2.4.1 >"$AKRI_BROKER_INFO_DIRECTORY/firmware"; exec sleep 100000'
      for (const [index, node] of NODES.entries()) {
        await world.apply(
          podYaml(`any-${index}`, { 'akri.sh/echo': 1 }, { node, script, graceSeconds: 0 }),
        )
        await world.apply(
          podYaml(`one-${index}`, { 'akri.sh/echo-8120fe': 1 }, { node, graceSeconds: 0 }),
        )
        await eventually(() => world.running(`any-${index}`, `one-${index}`))
      }
      const held = await world.holders()
      expect(held.map((usage) => usage.replace(/^C:[^:]+:/, 'C:')).sort()).toEqual(
        NODES.flatMap((node) => [node, `C:${node}`]).sort(),
      )
      await eventually(async () => {
        const entries = (await world.list<Instance>('Instance')).flatMap(({ status }) =>
          Object.entries(status?.brokerInfo ?? {}),
        )
        expect(entries).toContainEqual(['firmware', '2.4.1\n'])
      })
      await eventually(async () =>
        expect((await statusOf('echo'))?.slots).toMatchObject({ claimed: 4 }),
      )
    })

    it('follow a raised and a lowered capacity, and the loss of a device', async () => {
      const capacities = async () =>
        (await world.instances())
          .filter(({ spec }) => spec.configurationName === 'echo')
          .map(({ spec }) => spec.capacity)
      await world.apply(echoYaml('echo', shared, 5))
      await eventually(async () => expect(await capacities()).toEqual([5, 5]))
      await world.apply(echoYaml('echo', shared, 1))
      await eventually(async () => expect(await capacities()).toEqual([1, 1]))
      await world.apply(echoYaml('echo', ['foo0'], 1))
      await eventually(async () => expect(await capacities()).toEqual([1]))
    })

    it('release the slots of deleted Pods, and withdraw a deleted Configuration', async () => {
      for (const { metadata } of await world.pods()) await world.remove('Pod', metadata.name)
      await eventually(async () => expect(await world.holders()).toEqual([]))
      await eventually(async () => {
        const reported = (await world.list<Instance>('Instance')).flatMap(({ status }) =>
          Object.keys(status?.brokerInfo ?? {}),
        )
        expect(reported).toEqual([])
      })
      for (const configuration of ['echo', 'nulls'])
        await world.remove('Configuration', configuration)
      await eventually(async () => expect(await world.instances()).toEqual([]))
    })

    it('had no rejected request', async () => {
      const pods = await installedPods('akri-agent')
      expect(pods).toHaveLength(NODES.length)
      for (const { metadata } of pods) {
        const metrics = await kubectl(
          'get',
          '--raw',
          `/api/v1/namespaces/akri/pods/${metadata.name}:8080/proxy/metrics`,
        )
        expect(metrics).toMatch(/^akri_api_requests_total\{.*status="201".*\} [1-9]/m)
        expect(
          metrics
            .split('\n')
            .filter((line) => /^akri_api_requests_total\{.*status="403"/.test(line)),
        ).toEqual([])
        expect(await kubectl('-n', 'akri', 'logs', metadata.name)).not.toContain(
          'ValidatingAdmissionPolicy',
        )
      }
    })
  },
)
