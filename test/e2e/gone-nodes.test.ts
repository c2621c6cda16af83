import { setTimeout as sleep } from 'node:timers/promises'
import { objectKey } from '@akrijs/kube'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { freePort } from './support/free-port.js'
import { HostController } from './support/host-controller.js'
import { NodeAgent } from './support/node-agent.js'
import { missing, NODE_1, setAvailable, unless } from './support/nodes.js'
import { echoYaml, eventually, type InstanceState, World } from './support/world.js'

// Nodes that exist in the API only, without a kubelet. A controller cannot tell them from a machine
// that burned down.

const GRACE_SECONDS = 5

describe.skipIf(missing() !== undefined)(`nodes that have gone${unless}`, () => {
  let world: World
  let controller: HostController
  let configuration: { readonly metadata: { readonly uid: string } }

  const nodePath = '/api/v1/nodes'
  const spec = async (name: string) => (await world.get<InstanceState>('Instance', name))?.spec

  beforeAll(async () => {
    await setAvailable(true)
    world = await World.open()
    controller = new HostController('one', world.namespace, {
      AKRI_NODE_GRACE: String(GRACE_SECONDS),
    })
    await controller.lead()
    await world.apply(echoYaml('cam', [], 2))
    // Reports of nodes without an agent are deleted after the grace period.
    await controller.settled((GRACE_SECONDS + 2) * 1000)
    configuration = (await world.get('Configuration', 'cam')) ?? expect.fail()
  })

  afterEach(async () => {
    for (const name of ['ghost-1', 'ghost-2'])
      await world.client
        .request({ method: 'DELETE', path: `${nodePath}/${name}` })
        .catch(() => undefined)
    for (const { metadata } of await world.instances())
      await world.remove('Instance', metadata.name)
  })

  afterAll(async () => {
    await controller?.stop()
    await world?.close()
  })

  it('C1 C3 R64 R103 leave every Instance when they are deleted, and join again', async () => {
    await createNode('ghost-1')
    await instance('cam-8120fe', {
      nodes: [NODE_1, 'ghost-1'],
      deviceUsage: { 'cam-8120fe-0': 'C:0:ghost-1', 'cam-8120fe-1': NODE_1 },
    })
    await instance('cam-a19705', {
      nodes: ['ghost-1'],
      deviceUsage: { 'cam-a19705-0': 'ghost-1', 'cam-a19705-1': '' },
    })
    await world.client.request({ method: 'DELETE', path: `${nodePath}/ghost-1` })
    await eventually(async () =>
      expect(await spec('cam-8120fe')).toMatchObject({
        nodes: [NODE_1],
        deviceUsage: { 'cam-8120fe-0': '', 'cam-8120fe-1': NODE_1 },
      }),
    )
    // No other node sees this device.
    await eventually(async () => expect(await spec('cam-a19705')).toBeUndefined())
    await createNode('ghost-1')
    await join('cam-8120fe', 'ghost-1')
    await claim('cam-8120fe', 'cam-8120fe-0', 'ghost-1')
    expect(await spec('cam-8120fe')).toMatchObject({
      nodes: [NODE_1, 'ghost-1'],
      deviceUsage: { 'cam-8120fe-0': 'ghost-1' },
    })
  })

  it('C1 are also cleaned up if they were deleted while no controller ran', async () => {
    await controller.stop('SIGKILL')
    await instance('cam-8120fe', {
      nodes: [NODE_1, 'ghost-1'],
      deviceUsage: { 'cam-8120fe-0': 'ghost-1', 'cam-8120fe-1': '' },
    })
    await controller.lead()
    await eventually(async () =>
      expect(await spec('cam-8120fe')).toMatchObject({
        nodes: [NODE_1],
        deviceUsage: { 'cam-8120fe-0': '', 'cam-8120fe-1': '' },
      }),
    )
  })

  it('are joined again by an agent that lives only when their Node exists again', async () => {
    await createNode('ghost-1')
    const port = await freePort()
    const env = { AGENT_NODE_NAME: 'ghost-1', METRICS_PORT: String(port) }
    const agent = await NodeAgent.create(NODE_1, env)
    try {
      await agent.start()
      await world.apply(echoYaml('echo', ['foo0'], 1))
      const seen = async () => (await world.instances()).map(({ spec }) => spec.nodes)
      await eventually(async () => expect(await seen()).toEqual([['ghost-1']]))
      await world.client.request({ method: 'DELETE', path: `${nodePath}/ghost-1` })
      await eventually(async () =>
        expect(await agent.output()).toContain('the Node was deleted: the agent is in no Instance'),
      )
      await eventually(async () => expect(await seen()).toEqual([]))
      const writes = async () => {
        const { GET: _reads, ...ofController } = await controller.requests()
        const text = await (await fetch(`http://127.0.0.1:${port}/metrics`)).text()
        const ofAgent = text.matchAll(
          /^akri_api_requests_total\{(method="(?!GET)[A-Z]+".*)\} (\d+)$/gm,
        )
        return {
          ofController,
          ofAgent: Object.fromEntries(Array.from(ofAgent, ([, ...all]) => all)),
        }
      }
      const count = ({ ofController, ofAgent }: Awaited<ReturnType<typeof writes>>) =>
        [...Object.values(ofController), ...Object.values(ofAgent)]
          .map(Number)
          .reduce((sum, each) => sum + each, 0)
      const start = performance.now()
      const before = await writes()
      // As long as the agent took for many joins before.
      while (performance.now() < start + 5000) {
        expect(await seen()).toEqual([])
        await sleep(250)
      }
      const after = await writes()
      // Events, the report of the node, and the Lease of the controller.
      expect(count(after) - count(before), JSON.stringify({ before, after })).toBeLessThan(
        5 + (performance.now() - start) / 1000,
      )
      await createNode('ghost-1')
      await eventually(async () => expect(await seen()).toEqual([['ghost-1']]))
    } finally {
      await agent.dispose()
      await world.remove('Configuration', 'echo')
    }
  })

  it('leave Instances after the grace period, and keep slots of possible Pods', async () => {
    await createNode('ghost-1')
    await createNode('ghost-2')
    await world.client.request({
      method: 'POST',
      path: `/api/v1/namespaces/${world.namespace}/pods`,
      body: {
        metadata: { name: 'user' },
        spec: {
          nodeName: 'ghost-1',
          tolerations: [{ operator: 'Exists' }],
          containers: [
            { name: 'c', image: 'x', resources: { limits: { 'akri.sh/cam-8120fe': '1' } } },
          ],
        },
      },
    })
    await instance('cam-8120fe', {
      nodes: [NODE_1, 'ghost-1', 'ghost-2'],
      deviceUsage: { 'cam-8120fe-0': 'ghost-1', 'cam-8120fe-1': 'ghost-2' },
    })
    // Without a kubelet nothing renews the node's Lease, so the node controller marks the node as
    // not ready.
    await eventually(async () =>
      expect(await spec('cam-8120fe')).toMatchObject({
        nodes: [NODE_1],
        deviceUsage: { 'cam-8120fe-0': 'ghost-1', 'cam-8120fe-1': '' },
      }),
    )
    await world.client.request({
      method: 'DELETE',
      path: `/api/v1/namespaces/${world.namespace}/pods/user`,
      query: { gracePeriodSeconds: 0 },
    })
    await eventually(async () =>
      expect((await spec('cam-8120fe'))?.deviceUsage['cam-8120fe-0']).toBe(''),
    )
  })

  it('A13 C3 lose finalizers of the existing system, and keep all others', async () => {
    // Written as these agents do: by server-side apply, as <node>-fin.
    await instance('cam-8120fe', { nodes: ['ghost-1', NODE_1], deviceUsage: {} })
    for (const [finalizer, manager] of [
      ['ghost-1', 'ghost-1-fin'],
      ['ghost-2', 'somebody-else'],
    ] as const)
      await world.api('Instance').apply(
        world.key('cam-8120fe'),
        {
          apiVersion: 'akri.sh/v0',
          kind: 'Instance',
          metadata: { name: 'cam-8120fe', finalizers: [finalizer] },
        },
        manager,
      )
    await eventually(async () => {
      const found = await world.get<{ metadata: { finalizers?: string[] } }>(
        'Instance',
        'cam-8120fe',
      )
      expect(found?.metadata.finalizers).toEqual(['ghost-2'])
    })
    await world
      .api('Instance')
      .patch(world.key('cam-8120fe'), 'merge', { metadata: { finalizers: null } })
  })

  it('are removed from the status of a Configuration, which can be ready then', async () => {
    await createNode('ghost-1')
    const says = (status: 'True' | 'False') => ({
      observedGeneration: 1,
      devices: 0,
      conditions: [{ type: 'Ready', status, reason: 'Said', message: 'so' }],
    })
    const summary = {
      observedGeneration: 1,
      conditions: [
        {
          type: 'Ready',
          status: 'False',
          reason: 'Said',
          message: '1 of 2',
          lastTransitionTime: '2026-01-01T00:00:00Z',
        },
      ],
      devices: 0,
      slots: { total: 0, claimed: 0 },
    }
    const status = { ...summary, nodes: { 'ghost-1': says('False'), [NODE_1]: says('True') } }
    await world
      .api('Configuration')
      .patch(world.key('cam'), 'merge', { status }, { subresource: 'status' })
    await world.client.request({ method: 'DELETE', path: `${nodePath}/ghost-1` })
    await eventually(async () => {
      const now = await world.get<{ status: { nodes: object; conditions: object[] } }>(
        'Configuration',
        'cam',
      )
      expect(Object.keys(now?.status.nodes ?? {})).toEqual([NODE_1])
      expect(now?.status.conditions).toMatchObject([
        { type: 'Ready', status: 'True', message: 'so' },
      ])
    })
  })

  /** A ready node, until the cluster notices that the node has no kubelet. */
  async function createNode(name: string): Promise<void> {
    const heartbeat = new Date().toISOString()
    const body = {
      metadata: { name },
      status: {
        conditions: [
          {
            type: 'Ready',
            status: 'True',
            reason: 'x',
            lastHeartbeatTime: heartbeat,
            lastTransitionTime: heartbeat,
          },
        ],
      },
    }
    await world.client.request({ method: 'POST', path: nodePath, body })
    await world.client.request({
      method: 'PATCH',
      path: `${nodePath}/${name}/status`,
      body: { status: body.status },
      patch: 'merge',
    })
  }

  async function instance(
    name: string,
    { nodes, deviceUsage }: { nodes: string[]; deviceUsage: Record<string, string> },
  ): Promise<void> {
    await world.api('Instance').create(world.namespace, {
      apiVersion: 'akri.sh/v0',
      kind: 'Instance',
      metadata: {
        name,
        ownerReferences: [
          {
            apiVersion: 'akri.sh/v0',
            kind: 'Configuration',
            name: 'cam',
            uid: configuration.metadata.uid,
            controller: true,
          },
        ],
      },
      spec: {
        configurationName: 'cam',
        cdiName: 'akri.sh/cam=x',
        capacity: 2,
        shared: true,
        nodes,
        deviceUsage,
      },
    })
  }

  /** Writes the claim as an agent does. */
  async function join(name: string, node: string): Promise<void> {
    await world
      .api('Instance')
      .patch(world.key(name), 'json', [{ op: 'add', path: '/spec/nodes/-', value: node }])
  }

  async function claim(name: string, slot: string, usage: string): Promise<void> {
    await world.api('Instance').patch(objectKey(world.namespace, name), 'json', [
      { op: 'test', path: `/spec/deviceUsage/${slot}`, value: '' },
      { op: 'replace', path: `/spec/deviceUsage/${slot}`, value: usage },
    ])
  }
})
