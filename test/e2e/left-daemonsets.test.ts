import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
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
import { kubectl } from './support/kubectl.js'
import { isBroker, podSpec, podsIn } from './support/made.js'
import { NODE_1, NODE_2, NODES } from './support/nodes.js'
import { tidyUp } from './support/tidy-up.js'
import { echoYaml, eventually, World } from './support/world.js'

// The ways in which Kubernetes takes an agent off a node that lives: the controller sees the Pods
// of the DaemonSet.

const GRACE_SECONDS = 6
const DAEMON_SET = 'daemonset/akri-agent-daemonset'
/** Nodes with this label have an agent. */
const LABEL = 'akri.test/agent'
const TAINT = 'akri.test/kept'

interface AgentPod {
  readonly spec: { readonly nodeName?: string }
  readonly status: { readonly containerStatuses?: readonly { readonly restartCount: number }[] }
}

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
      await kubectl('apply', '-k', path.join(MANIFESTS, 'agent'))
      // The agents of the manifests tolerate each taint.
      await patch({ nodeSelector: { [LABEL]: '' }, tolerations: null })
      await rolledOut(DAEMON_SET)
      const env = { AKRI_NODE_GRACE: String(GRACE_SECONDS) }
      controller = new HostController('one', 'akri', env)
      await controller.lead()
      const brokerPodSpec = podSpec(undefined, { tolerations: [{ operator: 'Exists' }] })
      await world.apply(echoYaml('cam', ['foo0'], 2, { brokerSpec: { brokerPodSpec } }))
      await untilComplete()
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

    /** Changes the template of the DaemonSet. */
    const patch = (spec: object) =>
      kubectl(
        '-n',
        'akri',
        'patch',
        DAEMON_SET,
        '-p',
        JSON.stringify({ spec: { template: { spec } } }),
      )

    async function agentPods(): Promise<AgentPod[]> {
      const { items } = (await world.client.request({
        method: 'GET',
        path: '/api/v1/namespaces/akri/pods',
        query: { labelSelector: 'app.kubernetes.io/name=akri-agent' },
      })) as { items: AgentPod[] }
      return items
    }

    /** The entries, claims and brokers of the nodes. */
    async function state() {
      const [instances, pods] = [await world.instances(), await podsIn(world)]
      return {
        instances: instances.map(({ metadata, spec }) => ({ uid: metadata.uid, spec })),
        brokers: pods.filter(isBroker).map(({ metadata, spec }) => [metadata.uid, spec.nodeName]),
      }
    }

    /** Resolves when each node has joined, and has a broker with a slot. */
    function untilComplete(): Promise<void> {
      return eventually(async () => {
        const { instances, brokers } = await state()
        const [spec] = instances.map((instance) => instance.spec)
        expect(spec?.nodes.toSorted()).toEqual(NODES)
        expect(Object.values(spec?.deviceUsage ?? {}).sort()).toEqual(NODES)
        expect(brokers.map(([, node]) => node).sort()).toEqual(NODES)
      })
    }

    /** Resolves when the second node has no agent. @returns a moment before any agent was gone */
    async function untilGone(): Promise<number> {
      let before = performance.now()
      await eventually(async () => {
        const now = performance.now()
        const nodes = (await agentPods()).map(({ spec }) => spec.nodeName)
        if (nodes.length >= NODES.length) before = now
        expect(nodes).not.toContain(NODE_2)
      })
      return before
    }

    /** Expects that nothing changes until the action ends. */
    async function unchangedDuring(action: () => Promise<unknown>): Promise<void> {
      const before = await state()
      let isOver = false
      const end = action().finally(() => {
        isOver = true
      })
      // A failed expectation below must not leave it unhandled.
      end.catch(() => undefined)
      while (!isOver) {
        expect(await state()).toEqual(before)
        await sleep(100)
      }
      await end
      expect(await state()).toEqual(before)
    }

    it.each<[string, { off: () => Promise<unknown>; on: () => Promise<unknown>; left: string[] }]>([
      [
        'by the node selector',
        {
          off: () => kubectl('label', 'node', NODE_2, `${LABEL}-`),
          on: () => kubectl('label', 'node', NODE_2, `${LABEL}=`),
          left: [NODE_1],
        },
      ],
      [
        'by a taint of the node',
        {
          off: () => kubectl('taint', 'node', NODE_2, `${TAINT}=:NoExecute`),
          on: () => kubectl('taint', 'node', NODE_2, `${TAINT}-`),
          left: [NODE_1],
        },
      ],
      [
        'with all others of the DaemonSet',
        {
          off: () => patch({ nodeSelector: { [TAINT]: '' } }),
          on: () => patch({ nodeSelector: { [TAINT]: null } }),
          left: [],
        },
      ],
    ])('keep all for the grace period, and lose it then: %s', async (_, { off, on, left }) => {
      const before = await state()
      try {
        await off()
        const end = (await untilGone()) + GRACE_SECONDS * 1000
        while (true) {
          const now = await state()
          if (performance.now() >= end) break
          expect(now).toEqual(before)
        }
        await eventually(async () => {
          const { instances, brokers } = await state()
          expect(instances.flatMap(({ spec }) => spec.nodes)).toEqual(left)
          const claims = instances.flatMap(({ spec }) => Object.values(spec.deviceUsage))
          expect(claims.filter((usage) => usage !== '')).toEqual(left)
          expect(brokers).toEqual(before.brokers.filter(([, node]) => left.includes(node ?? '')))
        })
      } finally {
        await on()
      }
      await untilComplete()
    })

    it('keep all while the DaemonSet is rolled out', async () => {
      await unchangedDuring(async () => {
        await kubectl('-n', 'akri', 'rollout', 'restart', DAEMON_SET)
        await rolledOut(DAEMON_SET)
      })
    })

    it('keep all in a crash loop', async () => {
      const setLevel = (level: string) =>
        kubectl('-n', 'akri', 'set', 'env', DAEMON_SET, `LOG_LEVEL=${level}`)
      await unchangedDuring(async () => {
        await setLevel('of-no-kind')
        await eventually(async () => {
          const counts = (await agentPods()).flatMap(({ status }) =>
            (status.containerStatuses ?? []).map(({ restartCount }) => restartCount),
          )
          expect(Math.max(...counts)).toBeGreaterThanOrEqual(2)
        })
        await setLevel('info')
        await rolledOut(DAEMON_SET)
      })
    })
  },
)
