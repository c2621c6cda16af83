import { execFile } from 'node:child_process'
import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import type { Configuration } from '@akrijs/api'
import { expect, it, onTestFinished } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { HostController } from './support/host-controller.js'
import { kubectl } from './support/kubectl.js'
import { type NodeAgents, useAgents } from './support/node-agents.js'
import { missingHere, NODE_1, NODE_2, onNode } from './support/nodes.js'
import { powerOff, powerOn } from './support/power.js'
import { checkSlots } from './support/slots.js'
import {
  deploymentYaml,
  echoYaml,
  eventually,
  type PodState,
  podYaml,
  type World,
} from './support/world.js'

const PAGE = path.join(import.meta.dirname, '../../docs/devices.md')
const LAB = 'akri.sh/lab-8120fe'

interface RestartedPod extends PodState {
  readonly status: PodState['status'] & {
    readonly containerStatuses?: readonly { readonly restartCount: number }[]
  }
}

describeUnless(missingHere(), 'a node', () => {
  let world: World
  let agents: NodeAgents

  useAgents((opened) => {
    world = opened.world
    agents = opened.agents
  })

  const status = async () => (await world.get<Configuration>('Configuration', 'cam'))?.status
  const readyBecomes = (expected: object) =>
    eventually(async () =>
      expect((await status())?.conditions.find(({ type }) => type === 'Ready')).toMatchObject(
        expected,
      ),
    )
  const uids = async () => (await world.instances()).map(({ metadata }) => metadata.uid)

  it('whose kubelet hangs keeps its claims, makes Ready unknown, and goes on', async () => {
    // A node is silent when its kubelet is not ready for that long, and leaves its Instances.
    const controller = new HostController('one', world.namespace, { AKRI_NODE_GRACE: '2' })
    onTestFinished(async () => void (await controller.stop()))
    await controller.lead()
    await world.apply(echoYaml('cam', ['foo0'], 2))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([1, 1]))
    await world.apply(podYaml('p', { 'akri.sh/cam': 1 }, { node: NODE_2 }))
    await eventually(() => world.running('p'))
    await eventually(() => world.joined())
    const before = await uids()
    await onNode(NODE_2, '--restart', 'kubelet', 'STOP')
    try {
      await eventually(async () => expect(await world.isReady(NODE_2)).toBe(false))
      await readyBecomes({
        status: 'Unknown',
        reason: 'AgentSilent',
        message: expect.stringContaining(`1 node is silent: ${NODE_2}`),
      })
      expect((await status())?.nodeCounts).toMatchObject({ ready: 1, silent: 1 })
      await world.apply(podYaml('q', { 'akri.sh/cam': 1 }, { node: NODE_1 }))
      await eventually(async () =>
        expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:0:${NODE_2}`]),
      )
      await eventually(async () => expect((await world.phases()).q).toBe('Running'))
    } finally {
      await onNode(NODE_2, '--restart', 'kubelet', 'CONT')
    }
    await eventually(async () => expect(await world.isReady(NODE_2)).toBe(true))
    await eventually(() => world.joined())
    await readyBecomes({ status: 'True', reason: 'AllDevicesServed' })
    await world.running('p', 'q')
    expect(await uids()).toEqual(before)
    expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:0:${NODE_2}`])
    await eventually(async () => {
      const table = await kubectl('-n', world.namespace, 'get', 'akric', 'cam')
      const [header, row] = table.split('\n')
      expect(header).toMatch(
        /^NAME +HANDLER +CAPACITY +DEVICES +SLOTS +FREE +READY +REASON +AGE *$/,
      )
      expect(row).toMatch(/^cam +debugEcho +2 +1 +2 +0 +True +All/)
    })
    const [{ metadata } = expect.fail('no Instance')] = await world.instances()
    await eventually(async () =>
      expect(await usedSlots(`${world.namespace}/${metadata.name}`)).toMatch(
        new RegExp(`^${NODE_1} ${metadata.name}-[01] ${world.namespace}/q 20[0-9-]+T[0-9:]+Z\n`),
      ),
    )
  })

  const podsOfDeployments = async () =>
    (await world.list<RestartedPod>('Pod')).filter(({ metadata }) => /^[ci]l-/.test(metadata.name))
  const restartsOf = ({ status }: RestartedPod) => status.containerStatuses?.[0]?.restartCount ?? 0

  it('A2 A21 R90 that loses power has Pods and devices again, but no bare Pod', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await world.apply(echoYaml('lab', ['foo0'], 4))
    await eventually(async () => expect(await world.allocatables('akri.sh/cam')).toEqual([2, 2]))
    await eventually(async () => expect(await world.allocatables(LAB)).toEqual([4, 4]))
    const options = { replicas: 2, strategy: { type: 'Recreate' }, node: NODE_1 }
    await world.apply(deploymentYaml('cl', { 'akri.sh/cam': 1 }, options))
    await world.apply(deploymentYaml('il', { [LAB]: 1 }, options))
    const instances = await uids()
    for (const first of ['kubelet', 'agent'] as const) {
      await loseAndGetPower(first)
      expect(await uids()).toEqual(instances)
      for (const name of ['once', 'next']) await world.remove('Pod', name)
      for (const { metadata, status } of await podsOfDeployments())
        if (status.phase === 'Failed') await world.remove('Pod', metadata.name)
      await eventually(async () => expect(await world.holders()).toHaveLength(4))
    }
  })

  /** @param first what starts first */
  async function loseAndGetPower(first: 'kubelet' | 'agent'): Promise<void> {
    const agent = agents.on(NODE_1)
    await world.apply(podYaml('gone', { [LAB]: 1 }, { node: NODE_1, graceSeconds: 0 }))
    await world.apply(podYaml('once', { [LAB]: 1 }, { node: NODE_1, graceSeconds: 0 }))
    await eventually(async () => {
      const pods = await world.pods()
      expect(
        pods.map(({ status }) => status.phase),
        first,
      ).toEqual(Array(6).fill('Running'))
    })
    const before = new Map(
      (await podsOfDeployments()).map((pod) => [pod.metadata.name, restartsOf(pod)]),
    )
    const isRestarted = (pod: RestartedPod) =>
      expect(restartsOf(pod), first).toBeGreaterThan(before.get(pod.metadata.name) ?? -1)
    const bare = (await world.get<PodState>('Pod', 'once'))?.metadata.uid

    await agent.stop('SIGKILL')
    await powerOff(NODE_1)
    await world.remove('Pod', 'gone')
    await powerOn(NODE_1, 'containerd')
    if (first === 'kubelet') {
      await powerOn(NODE_1, 'kubelet')
      // The kubelet starts or rejects the Pods without the agent.
      await eventually(async () => {
        for (const pod of await podsOfDeployments())
          if (before.has(pod.metadata.name) && pod.status.phase !== 'Failed') isRestarted(pod)
      })
      await agent.start()
    } else {
      const lives = async () => (await agent.output()).split('agent started').length
      const soFar = await lives()
      await agent.start()
      await eventually(async () => expect(await lives()).toBeGreaterThan(soFar))
      await powerOn(NODE_1, 'kubelet')
    }

    await eventually(async () => {
      const running = (await podsOfDeployments()).filter(({ status }) => status.phase === 'Running')
      expect(running, first).toHaveLength(4)
      for (const pod of running) isRestarted(pod)
    })
    // A kubelet that asks its plugins before it starts admitted Pods can reject each Pod once, but
    // not again and again. The Pods are those of Deployments and the one that has ended.
    const refused = await world.refused()
    expect(refused.length, refused.join()).toBeLessThanOrEqual(before.size + 1)
    await eventually(() => checkSlots(world, `after the restart, the ${first} first`))
    expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:1:${NODE_1}`, NODE_1, NODE_1])
    // A refused Pod may have no container whose log could be read.
    for (const { metadata, status } of await podsOfDeployments())
      if (status.phase === 'Running')
        await eventually(async () =>
          expect(await world.logs(metadata.name)).toMatch(/^DEBUG_ECHO_DESCRIPTION=foo[01]$/m),
        )
    // The node accepts new Pods.
    await world.apply(podYaml('next', { [LAB]: 2 }, { node: NODE_1, graceSeconds: 0 }))
    await eventually(() => world.running('next'))
    // Deployments have Pods again. Nothing makes a Pod again that has no controller.
    expect(await world.get('Pod', 'once')).toMatchObject({
      metadata: { uid: bare },
      status: { phase: 'Failed' },
    })
  }
})

/** What the command of the docs shows. @param instance `NAMESPACE/NAME` */
async function usedSlots(instance: string): Promise<string> {
  const page = await readFile(PAGE, 'utf8')
  const [, command = expect.fail('the page has no such command')] =
    /^## Which Pod uses which slot$.*?^```sh\n(.*?)^```$/ms.exec(page) ?? []
  const script = command.replace('factory/cameras-8120fe', instance)
  return (await promisify(execFile)('sh', ['-ec', script])).stdout
}
