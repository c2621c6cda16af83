import path from 'node:path'
import { NODE_REPORTS } from '@akrijs/api'
import { objectKey, Resource } from '@akrijs/kube'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import {
  joinNodes,
  MANIFESTS,
  makeNamespace,
  missingForInstallation,
  provideImage,
  removeNamespace,
  rolledOut,
  separateNodes,
} from './install/installation.js'
import { HostController } from './support/host-controller.js'
import { kubectl, kubectlWith } from './support/kubectl.js'
import { isBroker, podSpec, podsIn } from './support/made.js'
import { NODE_1, NODE_2, NODES } from './support/nodes.js'
import { tidyUp } from './support/tidy-up.js'
import { echoYaml, eventually, podYaml, World } from './support/world.js'

// Kubernetes takes an agent off a node that lives: the controller sees the Pods of the DaemonSet.

const GRACE_SECONDS = 4
/** Nodes with this label have an agent. */
const LABEL = 'akri.test/agent'

const lacks = missingForInstallation()
const suffix = lacks === undefined ? '' : ` (${lacks})`

describe.skipIf(lacks !== undefined)(
  `agents of a DaemonSet that leave their nodes${suffix}`,
  () => {
    let world: World
    let controller: HostController

    beforeAll(async () => {
      await separateNodes()
      await provideImage()
      world = await World.open()
      await makeNamespace()
      for (const node of NODES) await kubectl('label', 'node', node, `${LABEL}=`)
      const manifests = await kubectl('kustomize', path.join(MANIFESTS, 'agent'))
      const ofLabel = manifests.replace('kubernetes.io/os: linux', `${LABEL}: ""`)
      await kubectlWith(ofLabel, 'apply', '-f', '-')
      await rolledOut('daemonset/akri-agent-daemonset')
      const env = { AKRI_NODE_GRACE: String(GRACE_SECONDS) }
      controller = new HostController('one', 'akri', env)
      await controller.lead()
    })

    afterAll(async () => {
      await tidyUp(
        async () => controller?.stop(),
        async () => world?.close(),
        () => kubectl('delete', '-k', path.join(MANIFESTS, 'agent'), '--ignore-not-found'),
        () => removeNamespace(),
        ...NODES.map((node) => () => kubectl('label', 'node', node, `${LABEL}-`)),
        () => joinNodes(),
      )
    })

    const agentPods = async () => {
      const path = '/api/v1/namespaces/akri/pods'
      const query = { labelSelector: 'app.kubernetes.io/name=akri-agent' }
      const list = await world.client.request({ method: 'GET', path, query })
      return (list as { items: { spec: { nodeName?: string } }[] }).items
    }

    /** The entries, claims and brokers of the nodes. */
    async function state() {
      const [instances, pods] = [await world.instances(), await podsIn(world)]
      return {
        nodes: instances.flatMap(({ spec }) => spec.nodes.toSorted()),
        claims: instances.flatMap(({ spec }) => Object.values(spec.deviceUsage).sort()),
        brokers: pods
          .filter(isBroker)
          .map(({ metadata, spec }) => `${spec.nodeName} ${metadata.uid}`)
          .sort(),
        uids: instances.map(({ metadata }) => metadata.uid),
      }
    }

    /** The state when each node has joined, and has a broker with a slot. */
    const untilComplete = (...claims: readonly string[]) =>
      eventually(async () => {
        const now = await state()
        expect(now).toMatchObject({ nodes: NODES, claims: [...claims].sort() })
        expect(now.brokers.map((text) => text.split(' ')[0])).toEqual(NODES)
        return now
      })

    it('keep all for the grace period, and lose it then, but not the claims of Pods', async () => {
      const brokerSpec = { brokerPodSpec: podSpec() }
      await world.apply(echoYaml('cam', ['foo0'], 3, { brokerSpec }))
      await untilComplete('', ...NODES)
      await world.apply(podYaml('user', { 'akri.sh/cam-8120fe': 1 }, { node: NODE_2 }))
      const before = await untilComplete(NODE_1, NODE_2, NODE_2)

      await kubectl('label', 'node', NODE_2, `${LABEL}-`)
      // A moment before the agent was gone.
      let present = performance.now()
      await eventually(async () => {
        const now = performance.now()
        const nodes = (await agentPods()).map(({ spec }) => spec.nodeName)
        if (nodes.length >= NODES.length) present = now
        expect(nodes).toEqual([NODE_1])
      })
      while (true) {
        const now = await state()
        if (performance.now() >= present + GRACE_SECONDS * 1000) break
        expect(now).toEqual(before)
      }
      const { brokers, uids } = before
      const left = { nodes: [NODE_1], brokers: brokers.slice(0, 1), uids }
      // The Pod of the user goes on with the device.
      await eventually(async () =>
        expect(await state()).toEqual({ ...left, claims: expect.arrayContaining([NODE_2]) }),
      )
      const reports = new Resource(world.client, NODE_REPORTS)
      expect(await reports.get(objectKey('', NODE_2))).toBeDefined()
      await world.remove('Pod', 'user')
      await eventually(async () =>
        expect(await state()).toEqual({ ...left, claims: ['', '', NODE_1] }),
      )
      await eventually(async () => expect(await reports.get(objectKey('', NODE_2))).toBeUndefined())

      await kubectl('label', 'node', NODE_2, `${LABEL}=`)
      await untilComplete('', ...NODES)
    })
  },
)
