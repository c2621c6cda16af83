import path from 'node:path'
import { expect, it } from 'vitest'
import { describeUnless } from '../support/unless.js'
import { useAgents } from './support/node-agents.js'
import { access, missing, NODE_1, NODES, onNode } from './support/nodes.js'
import {
  configurationYaml,
  container,
  deploymentYaml,
  echoYaml,
  eventually,
  podYaml,
  type World,
} from './support/world.js'

// Pods of every kind, created and ended by people and by the controllers of Kubernetes.

const ONE_BY_ONE = { type: 'RollingUpdate', rollingUpdate: { maxSurge: 0, maxUnavailable: 1 } }
const ALL_AT_ONCE = { type: 'Recreate' }
const sum = (counts: readonly (number | undefined)[]) =>
  counts.reduce<number>((all, count = 0) => all + count, 0)
/** The longest name of a Configuration. */
const LONG_NAME = 'a-camera-behind-the-third-door-of-the-second-floor-north'
/** Shorter than Pods of these tests run: what they use is kept for another reason. */
const SLOT_GRACE_SECONDS = 2

interface DeploymentState {
  readonly metadata: { readonly generation: number }
  readonly status: object
}

describeUnless(missing(), 'Pods that use devices', () => {
  let world: World

  const offered = (resource: string, ...counts: number[]) =>
    eventually(async () => expect(await world.allocatables(resource)).toEqual(counts))

  const rolledOut = (name: string, replicas: number) =>
    eventually(async () => {
      const { metadata, status } =
        (await world.get<DeploymentState>('Deployment', name)) ??
        expect.fail(`no Deployment ${name}`)
      const all = { replicas, updatedReplicas: replicas, availableReplicas: replicas }
      expect(status).toMatchObject({ observedGeneration: metadata.generation, ...all })
    })

  useAgents(
    (opened) => {
      world = opened.world
    },
    { env: () => ({ AKRI_SLOT_GRACE: String(SLOT_GRACE_SECONDS) }) },
  )

  it('A16 R9 R41 R76 Deployments hold all slots and roll over; more Pods wait', async () => {
    await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
    await world.apply(echoYaml('lab', ['foo0'], 2))
    await offered('akri.sh/cam', 2, 2)
    await offered('akri.sh/lab-8120fe', 2, 2)
    const applyBoth = async (version: string, strategy: object, replicas: number) => {
      const options = { strategy, version, replicas }
      await world.apply(deploymentYaml('cl', { 'akri.sh/cam': 1 }, options))
      await world.apply(
        deploymentYaml('il', { 'akri.sh/lab-8120fe': 1 }, { ...options, replicas: 2 }),
      )
    }
    for (const [version, strategy] of [
      ['v1', ONE_BY_ONE],
      ['v2', ONE_BY_ONE],
      ['v3', ALL_AT_ONCE],
    ] as const) {
      await applyBoth(version, strategy, 2)
      await Promise.all([rolledOut('cl', 2), rolledOut('il', 2)])
      await eventually(async () => expect(await world.pods()).toHaveLength(4))
      expect(await world.refused()).toEqual([])
      expect(await world.holders()).toHaveLength(4)
      // The scheduler can send a Pod to a full node until it knows that no slot is left.
      for (const resource of ['akri.sh/cam', 'akri.sh/lab-8120fe'])
        await eventually(async () => expect(sum(await world.allocatables(resource))).toBe(2))
    }
    await applyBoth('v3', ALL_AT_ONCE, 4)
    await eventually(async () => {
      const pods = await world.pods()
      expect(pods.filter(({ status }) => status.phase === 'Running')).toHaveLength(4)
      const waiting = pods.filter(
        ({ spec, status }) => status.phase === 'Pending' && spec.nodeName === undefined,
      )
      expect(waiting).toHaveLength(2)
    })
    expect(await world.holders()).toHaveLength(4)
  })

  it('A16 R84 R92 init containers keep their devices, and leave them to those after', async () => {
    const shared = await access.makeDirectory(NODE_1)
    try {
      await world.apply(echoYaml('cam', ['foo0', 'foo1'], 1))
      await world.apply(echoYaml('lab', ['foo0'], 4))
      await offered('akri.sh/cam', 2, 2)
      await offered('akri.sh/lab-8120fe', 4, 4)
      // While this init container runs, the kubelet does not list its two devices.
      const limits = (count: number) => ({ 'akri.sh/lab-8120fe': count })
      const pod = JSON.parse(podYaml('p', limits(1), { node: NODE_1, shared }))
      const [{ volumeMounts }] = pod.spec.containers
      const { volumes } = pod.spec
      const script = 'until [ -e /shared/go ]; do sleep 0.2; done'
      pod.spec.initContainers = [{ ...container('i', limits(2), script), volumeMounts }]
      await world.apply(JSON.stringify(pod))
      await eventually(async () => expect(await world.holders()).toEqual([NODE_1, NODE_1]))

      const levels = [
        { name: 'cl', resource: 'akri.sh/cam', devices: ['foo0', 'foo1'] },
        { name: 'il', resource: 'akri.sh/lab-8120fe', devices: ['foo0'] },
      ]
      for (const { name, resource } of levels)
        await world.apply(manyContainers(name, { [resource]: 1 }, volumes, volumeMounts))
      await eventually(() => world.running('cl', 'il'))
      const ofNode = Array.from({ length: 4 }, () => NODE_1)
      expect(await world.holders()).toEqual([`C:0:${NODE_1}`, `C:1:${NODE_1}`, ...ofNode])
      for (const { name, devices } of levels) {
        const described = async (container: string) =>
          /^DEBUG_ECHO_DESCRIPTION=(.*)$/m.exec(await world.logs(name, container))?.[1] ??
          expect.fail('no device yet')
        const given = await eventually(() => Promise.all(['i0', 'i1', 'c0', 'c1'].map(described)))
        for (const device of given) expect(devices).toContain(device)
        expect(new Set(given.slice(2))).toEqual(new Set(devices))
      }
      await onNode(NODE_1, 'touch', path.join(shared, 'seen'))
      // Each end of a Pod makes the agent look for slots without a container.
      await eventually(async () =>
        expect(await world.phases()).toEqual({ p: 'Pending', cl: 'Succeeded', il: 'Succeeded' }),
      )
      await eventually(async () => expect(await world.holders()).toEqual([NODE_1, NODE_1]))
      await onNode(NODE_1, 'touch', path.join(shared, 'go'))
      await eventually(() => world.running('p'))
      await eventually(async () => expect(await world.holders()).toEqual([NODE_1]))
    } finally {
      await onNode(NODE_1, 'rm', '-rf', shared)
    }
  })

  it('A16 R33 R90 a Pod has the last slots of its predecessor of the name at once', async () => {
    await world.apply(echoYaml('cam', ['foo0'], 1))
    await world.apply(echoYaml('lab', ['foo0'], 1))
    const limits = { 'akri.sh/cam': 1, 'akri.sh/lab-8120fe': 1 }
    for (const resource of Object.keys(limits)) await offered(resource, 1, 1)
    // By force, and in peace: the kubelet reports the end of a Pod late then.
    for (const [round, graceSeconds] of [0, 0, 0, 1, 1].entries()) {
      if (round > 0) {
        await world.remove('Pod', 'p')
        await eventually(async () => expect(await world.get('Pod', 'p')).toBeUndefined())
      }
      await world.apply(podYaml('p', limits, { node: NODE_1, graceSeconds }))
      await eventually(async () => {
        expect(await world.refused()).toEqual([])
        await world.running('p')
      })
    }
  })

  it('R94 A23 a Pod gets a device of its node, and one of the network, by long names', async () => {
    expect(LONG_NAME).toHaveLength(56)
    await world.apply(echoYaml(LONG_NAME, ['foo0'], 2))
    const udev = { name: 'udev', discoveryDetails: 'udevRules: [KERNEL=="null"]' }
    await world.apply(configurationYaml('nulls', udev))
    await offered('akri.sh/nulls', 1, 1)
    await offered(`akri.sh/${LONG_NAME}`, 1, 1)
    await offered(`akri.sh/${LONG_NAME}-8120fe`, 2, 2)
    const resources = [LONG_NAME, `${LONG_NAME}-8120fe`, 'nulls'].map((name) => `akri.sh/${name}`)
    await world.apply(podYaml('p', Object.fromEntries(resources.map((name) => [name, 1]))))
    const env = await eventually(async () => {
      const text = await world.logs('p')
      expect(text).toMatch(/^UDEV_DEVNODE=\/dev\/null$/m)
      return text
    })
    expect(env).toMatch(/^DEBUG_ECHO_DESCRIPTION=foo0$/m)
    const node = (await world.pods())[0]?.spec.nodeName ?? expect.fail('the Pod has no node')
    expect(await world.holders()).toEqual([`C:0:${node}`, `C:0:${node}`, node])
    // A local device has an Instance for each node.
    const held = (await world.instances()).filter(({ spec }) =>
      Object.values(spec.deviceUsage).includes(`C:0:${node}`),
    )
    expect(
      held
        .map(({ spec }) => [spec.configurationName, spec.shared, spec.nodes.toSorted()])
        .toSorted(),
    ).toEqual([
      [LONG_NAME, true, [...NODES]],
      ['nulls', false, [node]],
    ])
    await world.remove('Pod', 'p')
    await eventually(async () => expect(await world.holders()).toEqual([]))
  })
})

/**
 * Two containers one after the other, then two at once, on one node: until the file `seen` is in
 * the shared directory, and then as long as the agent needs to see them too.
 */
function manyContainers(
  name: string,
  limits: Readonly<Record<string, number>>,
  volumes: unknown,
  volumeMounts: unknown,
): string {
  const script = 'env; until [ -e /shared/seen ]; do sleep 0.2; done; sleep 3'
  return JSON.stringify({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name },
    spec: {
      restartPolicy: 'Never',
      nodeSelector: { 'kubernetes.io/hostname': NODE_1 },
      initContainers: ['i0', 'i1'].map((name) => container(name, limits, 'env')),
      containers: ['c0', 'c1'].map((name) => ({
        ...container(name, limits, script),
        volumeMounts,
      })),
      volumes,
    },
  })
}
