import path from 'node:path'
import type { Instance } from '@akrijs/api'
import type { ApiClient, JsonPatch } from '@akrijs/kube'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { withoutRequiredFields } from '../../cluster/support/custom-resources.js'
import { describeUnless } from '../../support/unless.js'
import { kubectl } from '../support/kubectl.js'
import { NODE_1, NODE_2, NODES } from '../support/nodes.js'
import { tidyUp } from '../support/tidy-up.js'
import { echoYaml, eventually, podYaml, World } from '../support/world.js'
import { clientOfAgent, MANIFESTS, removeNamespace } from './installation.js'
import { applyPolicies, missingForPolicies, POLICIES, refused } from './policies.js'

// RBAC cannot keep agents, which share one account, to their own nodes. These tests check each rule
// by writes with tokens of Pods on the nodes. No agent runs.

const lacks = await missingForPolicies()

/** Configurations and Instances that no agent looks at. */
const CONFIGURATION = 'lab'
const DIGEST = '8120fe'

interface Policy {
  readonly kind: string
  readonly metadata: { readonly generation: number }
  readonly status?: {
    readonly observedGeneration?: number
    readonly typeChecking?: { readonly expressionWarnings?: readonly object[] }
  }
}

describeUnless(lacks, 'agents that node-restriction keeps to their nodes', () => {
  let world: World
  /** As the agents of both nodes, and with a token that belongs to no Pod. */
  let first: ApiClient
  let second: ApiClient
  let nodeless: ApiClient

  const instances = () => `/apis/akri.sh/v0/namespaces/${world.namespace}/instances`
  const name = `${CONFIGURATION}-${DIGEST}`
  const slot = (index: number) => `${name}-${index}`
  const object = (
    spec: Partial<Record<keyof Instance['spec'], unknown>> = {},
    metadata: object = {},
  ) => ({
    apiVersion: 'akri.sh/v0',
    kind: 'Instance',
    metadata: { name, ...metadata },
    spec: {
      configurationName: CONFIGURATION,
      cdiName: `akri.sh/${CONFIGURATION}=${DIGEST}`,
      capacity: 3,
      shared: true,
      nodes: [NODE_1, NODE_2],
      brokerProperties: { SITE: 'north' },
      deviceUsage: {
        [slot(0)]: NODE_1,
        [slot(1)]: byConfiguration(0, NODE_2),
        [slot(2)]: '',
      },
      ...spec,
    },
  })
  const make = (client: ApiClient, ...[spec, metadata]: Parameters<typeof object>) =>
    client.request({ method: 'POST', path: instances(), body: object(spec, metadata) })
  const merge = (client: ApiClient, body: object) =>
    client.request({ method: 'PATCH', path: `${instances()}/${name}`, patch: 'merge', body })
  const report = (client: ApiClient, status: object) =>
    client.request({
      method: 'PATCH',
      path: `${instances()}/${name}/status`,
      patch: 'merge',
      body: { status },
    })
  const json = (client: ApiClient, body: JsonPatch) =>
    client.request({ method: 'PATCH', path: `${instances()}/${name}`, patch: 'json', body })
  const spec = (client: ApiClient, changed: object) => merge(client, { spec: changed })
  const usage = (client: ApiClient, changed: Record<string, string | null>) =>
    spec(client, { deviceUsage: changed })
  const byConfiguration = (index: number, node: string) => `C:${CONFIGURATION}-${index}:${node}`
  const no = (node: string, what: string) => `the agent of ${node} may not ${what}`
  const notTaken = (index: number, holder: string) =>
    `take slot ${slot(index)} from who holds it: ${holder}`
  const remove = (client: ApiClient) =>
    client.request({ method: 'DELETE', path: `${instances()}/${name}` })
  /** The Instance, recreated by an administrator. */
  const given = async (...args: Parameters<typeof object>) => {
    await remove(world.client).catch(() => undefined)
    await make(world.client, ...args)
  }

  beforeAll(async () => {
    world = await World.open()
    await applyPolicies(world)
    const clients = await Promise.all(
      NODES.map((node, index) => clientOfPod(world, `agent-${index}`, node)),
    )
    ;[first, second] = clients as [ApiClient, ApiClient]
    nodeless = await clientOfAgent(world.client)
  })

  afterAll(async () => {
    for (const client of [first, second, nodeless]) client?.close()
    await tidyUp(
      () => kubectl('delete', '-k', POLICIES, '--ignore-not-found'),
      async () => world?.close(),
      () => kubectl('delete', '-k', path.join(MANIFESTS, 'agent'), '--ignore-not-found'),
      () => removeNamespace(),
    )
  })

  it('fits the types of the custom resources by the check of the API server', async () => {
    await eventually(async () => {
      const { items } = JSON.parse(await kubectl('get', '-k', POLICIES, '-o', 'json')) as {
        items: Policy[]
      }
      const policies = items.filter(({ kind }) => kind === 'ValidatingAdmissionPolicy')
      expect(policies).not.toEqual([])
      for (const { metadata, status } of policies) {
        expect(status?.observedGeneration).toBe(metadata.generation)
        expect(status?.typeChecking?.expressionWarnings ?? []).toEqual([])
      }
    })
  })

  it('rejects all writes with a token of no Pod', async () => {
    await given()
    await refused(usage(nodeless, { [slot(2)]: NODE_1 }), 'the token is of no node')
    await refused(report(nodeless, { brokerInfo: {} }), 'the token is of no node')
    await refused(remove(nodeless), 'the token is of no node')
  })

  it('lets an agent create Instances only with its own node and claims', async () => {
    await remove(world.client).catch(() => undefined)
    const free = { [slot(0)]: '' }
    const others =
      'enter other nodes in spec.nodes, nor take them out: ' +
      `it is [] and would be [${NODE_1}, ${NODE_2}]`
    for (const [nodes, what] of [
      [[NODE_2], 'make an Instance that its node is not in'],
      [[], 'make an Instance'],
      [[NODE_1, NODE_2], others],
    ] as const)
      await refused(make(first, { nodes, deviceUsage: free }), no(NODE_1, what))
    const nodes = [NODE_1]
    for (const usage of [NODE_2, byConfiguration(0, NODE_2), 'C::', `${NODE_1}:x`])
      await refused(
        make(first, { nodes, deviceUsage: { [slot(0)]: usage } }),
        no(NODE_1, `claim slot ${slot(0)} for another node: ${usage}`),
      )
    await refused(
      make(first, { nodes, deviceUsage: {} }, { finalizers: ['akri.sh/x'] }),
      'finalizers',
    )
    const own = { [slot(0)]: NODE_1, [slot(1)]: byConfiguration(0, NODE_1), [slot(2)]: '' }
    await make(first, { nodes, deviceUsage: own })
  })

  it('lets an agent add its node to a shared Instance, with claims, and remove it', async () => {
    const third = `${NODE_1}-other`
    await given({ nodes: [third], deviceUsage: { [slot(0)]: '', [slot(1)]: third } })
    await json(first, [
      { op: 'add', path: '/spec/nodes/-', value: NODE_1 },
      { op: 'test', path: `/spec/deviceUsage/${slot(0)}`, value: '' },
      { op: 'replace', path: `/spec/deviceUsage/${slot(0)}`, value: NODE_1 },
    ])
    await refused(
      spec(first, { nodes: [third, NODE_1, NODE_2] }),
      `would be [${third}, ${NODE_1}, ${NODE_2}]`,
    )
    await refused(
      spec(first, { nodes: [NODE_1] }),
      `it is [${third}, ${NODE_1}] and would be [${NODE_1}]`,
    )
    const others = no(NODE_2, 'enter other nodes in spec.nodes, nor take them out')
    await refused(spec(second, { nodes: [third] }), others)
    await spec(first, { nodes: [third], deviceUsage: { [slot(0)]: '' } })
  })

  it('does not let an agent join an Instance that is not shared', async () => {
    await given({ shared: false, nodes: [NODE_2], deviceUsage: { [slot(0)]: '' } })
    const message = no(NODE_1, `use a device that is not shared: it is that of ${NODE_2}`)
    await refused(spec(first, { nodes: [NODE_2, NODE_1] }), message)
    await refused(usage(first, { [slot(0)]: NODE_1 }), message)
    await usage(second, { [slot(0)]: NODE_2 })
    // The controller had removed the node.
    await given({ shared: false, nodes: [], deviceUsage: {} })
    await spec(second, { nodes: [NODE_2] })
  })

  it('lets an agent claim free slots and release its own, at both levels', async () => {
    await given()
    for (const value of ['', NODE_2, null])
      await refused(usage(second, { [slot(0)]: value }), no(NODE_2, notTaken(0, NODE_1)))
    for (const value of ['', byConfiguration(0, NODE_1)])
      await refused(
        usage(first, { [slot(1)]: value }),
        no(NODE_1, notTaken(1, byConfiguration(0, NODE_2))),
      )
    const other = byConfiguration(1, NODE_2)
    await refused(
      usage(first, { [slot(2)]: other }),
      no(NODE_1, `claim slot ${slot(2)} for another node: ${other}`),
    )
    const third = `/spec/deviceUsage/${slot(2)}`
    await json(first, [
      { op: 'test', path: third, value: '' },
      { op: 'replace', path: third, value: byConfiguration(1, NODE_1) },
    ])
    await refused(usage(second, { [slot(2)]: '' }), `may not take slot ${slot(2)}`)
    await usage(first, { [slot(0)]: '', [slot(2)]: null })
    await usage(second, { [slot(1)]: NODE_2, [slot(2)]: other })
    await usage(second, { [slot(1)]: '', [slot(2)]: '' })
    // A form that neither this system nor the existing one writes belongs to no node.
    await given({ deviceUsage: { [slot(0)]: `${NODE_1}:x` } })
    await refused(usage(first, { [slot(0)]: '' }), no(NODE_1, notTaken(0, `${NODE_1}:x`)))
  })

  it('lets any node of an Instance write its capacity and properties', async () => {
    await given()
    await spec(second, {
      capacity: 4,
      brokerProperties: { SITE: 'south' },
      deviceUsage: { [slot(3)]: '' },
    })
    await spec(first, { capacity: 2, deviceUsage: { [slot(2)]: null, [slot(3)]: null } })
    await refused(
      spec(first, { capacity: 1, deviceUsage: { [slot(1)]: null } }),
      `may not take slot ${slot(1)}`,
    )
    await given({ nodes: [NODE_2] })
    const what =
      'change capacity and brokerProperties of an Instance that its node is not in: ' +
      `spec.nodes is [${NODE_2}]`
    for (const changed of [
      { capacity: 1 },
      { brokerProperties: { SITE: 'x' } },
      { brokerProperties: null },
    ])
      await refused(spec(first, changed), no(NODE_1, what))
  })

  it('lets agents complete an Instance of Akri before 0.13.8, once', async () => {
    const { cdiName, capacity } = object().spec
    for (const nodes of [[NODE_1], [NODE_2]]) {
      await withoutRequiredFields(world.client, () =>
        given({ cdiName: undefined, capacity: undefined, nodes, deviceUsage: {} }),
      )
      await spec(first, { cdiName, capacity })
      await refused(spec(first, { cdiName: 'akri.sh/other=8120fe' }), 'may not change')
    }
  })

  it('does not let an agent change the identity and the owner of an Instance', async () => {
    const owner = { apiVersion: 'akri.sh/v0', kind: 'Configuration', name: CONFIGURATION, uid: 'x' }
    await given({}, { finalizers: [`akri.sh/${NODE_2}`] })
    try {
      for (const changed of [
        { configurationName: 'other' },
        { cdiName: 'akri.sh/other=8120fe' },
        { shared: false },
      ])
        await refused(
          spec(first, changed),
          'an agent may not change configurationName, cdiName and shared of an Instance',
        )
      for (const changed of [
        { ownerReferences: [owner] },
        { annotations: { 'akri.sh/device-id': 'x' } },
      ])
        await refused(
          merge(first, { metadata: changed }),
          'an agent may not change ownerReferences and annotations of an Instance',
        )
      for (const finalizers of [null, [], [`akri.sh/${NODE_1}`]])
        await refused(merge(first, { metadata: { finalizers } }), 'finalizers of an Instance')
    } finally {
      await merge(world.client, { metadata: { finalizers: null } })
    }
  })

  it('lets an agent add the labels that an Instance lacks, and change no label', async () => {
    const shared = { 'akri.sh/shared': 'true' }
    const local = { shared: false, nodes: [NODE_1], deviceUsage: {} }
    const label = (client: ApiClient, labels: object) => merge(client, { metadata: { labels } })
    const refuses = (work: Promise<unknown>, key: string) =>
      refused(work, no(NODE_1, `change the label ${key} of this Instance`))

    await given({}, { labels: { site: 'north' } })
    await refuses(label(first, { site: 'south' }), 'site')
    await refuses(label(first, { site: null }), 'site')
    await refuses(label(first, { 'akri.sh/node': NODE_1 }), 'akri.sh/node')
    await refuses(label(first, { 'akri.sh/shared': 'yes' }), 'akri.sh/shared')
    await label(first, shared)
    await refuses(label(first, { 'akri.sh/shared': null }), 'akri.sh/shared')
    await usage(first, { [slot(2)]: NODE_1 })

    await given(local)
    await refuses(label(first, shared), 'akri.sh/shared')
    await refuses(label(first, { 'akri.sh/node': NODE_2 }), 'akri.sh/node')
    await refused(label(second, { 'akri.sh/node': NODE_2 }), 'may not change the label')
    await label(first, { 'akri.sh/node': NODE_1 })
    await refuses(label(first, { 'akri.sh/node': NODE_2 }), 'akri.sh/node')

    await remove(world.client)
    await refuses(make(first, local, { labels: shared }), 'akri.sh/shared')
    await refuses(make(first, local, { labels: { 'akri.sh/node': NODE_2 } }), 'akri.sh/node')
    await make(first, local, { labels: { 'akri.sh/node': NODE_1, site: 'north' } })
  })

  it('lets an agent delete an Instance that only its own node is in', async () => {
    for (const [nodes, which] of [
      [[NODE_1, NODE_2], 'other nodes are in too'],
      [[NODE_2], 'its node is not in'],
    ] as const) {
      await given({ nodes })
      const what = `delete an Instance that ${which}: spec.nodes is [${nodes.join(', ')}]`
      await refused(remove(first), no(NODE_1, what))
    }
    await given({ nodes: [] })
    await refused(remove(first), 'spec.nodes is []')
    await given({ nodes: [NODE_2] })
    await remove(second)
  })

  it('lets an agent publish and remove reports of its node and of free slots', async () => {
    await given()
    await report(first, { brokerInfo: { version: '1' }, brokerInfoSlots: { version: slot(0) } })
    const foisted = (entry: string) =>
      no(NODE_1, `write status.brokerInfo.${entry}: its slot is not held by this node`)
    const brokerInfo = { x: '1' }
    for (const brokerInfoSlots of [{ x: slot(1) }, { x: slot(2) }, undefined])
      await refused(report(first, { brokerInfo, brokerInfoSlots }), foisted('x'))
    await refused(report(first, { brokerInfoSlots: { version: slot(1) } }), foisted('version'))
    const brokerJob = { name: 'x', specHash: 'y' }
    const ofController = 'an agent may not change status.'
    await refused(report(first, { brokerJob }), `${ofController}brokerJob`)
    const lastTransitionTime = '2026-01-01T00:00:00Z'
    const reason = { reason: 'ReportedByHandler', message: 'x', lastTransitionTime }
    const conditions = [{ type: 'DeviceProblem', status: 'True', ...reason }]
    await refused(report(first, { conditions }), `${ofController}conditions`)
    // A workload of the other node wrote this entry last.
    await report(second, { brokerInfo: { version: '2' }, brokerInfoSlots: { version: slot(1) } })
    await refused(report(first, { brokerInfo: { version: '3' } }), foisted('version'))
    await usage(first, { [slot(0)]: '' })
    const silenced =
      `the agent of ${NODE_1}, which holds no slot, may not take away ` +
      'status.brokerInfo.version: its slot is held'
    const none = { brokerInfo: { version: null }, brokerInfoSlots: { version: null } }
    await refused(report(first, none), silenced)
    await refused(report(first, { brokerInfoSlots: none.brokerInfoSlots }), silenced)
    await usage(second, { [slot(1)]: '' })
    // The agent's node can have left the Instance.
    await spec(first, { nodes: [NODE_2] })
    await report(first, none)
    // The controller's entry stays.
    await report(world.client, { brokerJob })
    await refused(report(second, { brokerJob: null }), `${ofController}brokerJob`)
  })

  it('lets no agent write the status of a Configuration', async () => {
    await world.apply(echoYaml(CONFIGURATION, [], 1))
    const configurations = `/apis/akri.sh/v0/namespaces/${world.namespace}/configurations`
    const path = `${configurations}/${CONFIGURATION}/status`
    const body = { status: { devices: 7 } }
    await refused(
      first.request({ method: 'PATCH', path, patch: 'merge', body }),
      'cannot patch resource "configurations/status"',
    )
  })

  it('lets an agent write the report of its node only', async () => {
    const reports = '/apis/akri.sh/v0/nodereports'
    const ownedBy = async (name: string) => {
      const uid = await kubectl('get', 'node', name, '-o', 'jsonpath={.metadata.uid}')
      return { ownerReferences: [{ apiVersion: 'v1', kind: 'Node', name, uid }] }
    }
    const create = (client: ApiClient, name: string, more: object = {}) => {
      const metadata = { name, ...more }
      const body = { apiVersion: 'akri.sh/v0', kind: 'NodeReport', metadata }
      return client.request({ method: 'POST', path: reports, body })
    }
    const removeAll = () => kubectl('delete', 'nodereports.akri.sh', ...NODES, '--ignore-not-found')
    const write = (client: ApiClient, node: string, body: object) =>
      client.request({ method: 'PATCH', path: `${reports}/${node}`, patch: 'merge', body })
    const counts = { configurations: 0, ready: 0, devices: 1 }
    try {
      await removeAll()
      const foreign = (node: string) => `may not write the report of ${node}`
      await refused(create(first, NODE_2), foreign(NODE_2))
      await refused(create(first, 'other'), foreign('other'))
      await refused(create(first, NODE_1, await ownedBy(NODE_2)), 'only its Node as the owner')
      await refused(create(first, NODE_1, { finalizers: ['a.b/c'] }), 'neither set finalizers')
      await create(first, NODE_1, await ownedBy(NODE_1))
      await create(second, NODE_2)
      await write(first, NODE_1, { counts })
      await refused(write(first, NODE_2, { counts }), foreign(NODE_2))
      await refused(write(nodeless, NODE_1, { counts }), 'the token is of no node')
      const finalizers = ['a.b/c']
      await refused(write(first, NODE_1, { metadata: { finalizers } }), 'neither set finalizers')
      await write(world.client, NODE_2, { counts })
    } finally {
      await removeAll()
    }
  })

  it('does not affect other accounts', async () => {
    await given()
    await spec(world.client, {
      nodes: [NODE_2],
      deviceUsage: { [slot(0)]: NODE_2 },
      capacity: 7,
      configurationName: 'other',
    })
    await remove(world.client)
  })

  it('stays within the cost limits if a node holds 10,000 slots', async () => {
    const capacity = 10_000
    const nodes = [
      NODE_1,
      ...Array.from({ length: 99 }, (_, index) => `node-${index}.of-a-large-cluster.example`),
      NODE_2,
    ]
    const slots = Array.from({ length: capacity - 1 }, (_, index) => slot(index))
    const free = slot(capacity - 1)
    const claims = Object.fromEntries(slots.map((each, index) => [each, `C:${index}:${NODE_1}`]))
    await given({ nodes, capacity, deviceUsage: { ...claims, [free]: '' } })
    const names = slots.slice(0, 128).map((held, index) => [`entry-${index}`, held] as const)
    const brokerInfo = Object.fromEntries(names.map(([entry]) => [entry, 'x'.repeat(500)]))
    await report(first, { brokerInfo, brokerInfoSlots: Object.fromEntries(names) })
    await usage(first, { [free]: NODE_1 })
    await refused(usage(second, { [slot(0)]: NODE_2 }), `may not take slot ${slot(0)}`)
    const released = slots.map((held) => [held, ''] as const)
    await spec(first, {
      nodes: nodes.slice(1),
      deviceUsage: { ...Object.fromEntries(released), [free]: '' },
    })
    await remove(world.client)
  })
})

/** The API as the agent of that node sees it. */
async function clientOfPod(world: World, name: string, node: string): Promise<ApiClient> {
  const pod = JSON.parse(podYaml(name, {}, { node, graceSeconds: 0 }))
  pod.metadata.namespace = 'akri'
  pod.spec.serviceAccountName = 'akri-agent-sa'
  await world.apply(JSON.stringify(pod))
  return eventually(async () => {
    const { metadata, spec } = JSON.parse(
      await kubectl('-n', 'akri', 'get', 'pod', name, '-o', 'json'),
    ) as {
      metadata: { uid: string }
      spec: { nodeName?: string }
    }
    // A token names the node of its Pod at the time of its creation.
    expect(spec.nodeName).toBe(node)
    return clientOfAgent(world.client, { apiVersion: 'v1', kind: 'Pod', name, uid: metadata.uid })
  })
}
