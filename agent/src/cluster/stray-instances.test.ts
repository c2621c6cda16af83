import type { Instance, InstanceName, SlotName } from '@akrijs/api'
import { type ApiClient, type NodeName, objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { configurationWith, draftOf, instanceWith } from '../testing/objects.js'
import { KubernetesCluster } from './kubernetes-cluster.js'

const INSTANCES = '/apis/akri.sh/v0/namespaces/default/instances'
const NODE = 'node-a' as NodeName
const OTHER = 'node-b' as NodeName

let clock: ManualClock
let server: FakeApiServer
let client: ApiClient
let cluster: KubernetesCluster
let warnings: string[]

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  server = new FakeApiServer(clock)
  client = await server.open()
  warnings = []
})

afterEach(async () => {
  await cluster.close()
  await server.close()
})

async function start(): Promise<void> {
  const log = {
    ...silentLogger,
    warn: (_: unknown, message: string) => void warnings.push(message),
  }
  cluster = new KubernetesCluster({ client, clock, log, node: NODE })
  cluster.start()
  await cluster.instances.synced
}

/** An Instance of a program that writes no labels. */
function put(
  name: string,
  spec: Partial<Instance['spec']>,
  labels?: Record<string, string>,
  usage: Record<string, string> = {},
): void {
  const metadata = { name: name as InstanceName, uid: name, ...(labels && { labels }) }
  server.put(`${INSTANCES}/${name}`, { ...instanceWith(usage, spec, metadata) })
}

/** An Instance as agents wrote it before 0.13.8. */
function putEarly(
  name: string,
  usage: Record<string, string>,
  labels?: Record<string, string>,
): void {
  const metadata = { name: name as InstanceName, uid: name, ...(labels && { labels }) }
  const { spec, ...object } = instanceWith(usage, { shared: true, nodes: [NODE] }, metadata)
  const { cdiName: _, capacity: __, ...early } = spec
  server.put(`${INSTANCES}/${name}`, { ...object, spec: early })
}

/** As the custom resource does: a changed spec must have all required fields. */
function refuseIncomplete(): void {
  server.refusal = ({ method, path, body }) => {
    const { cdiName } = (server.objects.get(path)?.spec ?? {}) as { cdiName?: string }
    return method === 'PATCH' && cdiName === undefined && !JSON.stringify(body).includes('cdiName')
      ? { status: 422, message: 'spec.cdiName: Required value' }
      : undefined
  }
}

const keyOf = (name: string) => objectKey('default', name)
const shown = () => cluster.instances.list().map(({ metadata }) => metadata.name as string)
const labelsOf = (name: string) => server.objects.get(`${INSTANCES}/${name}`)?.metadata.labels
const local = (node: NodeName) => ({ shared: false, nodes: [node] })
const create = (digest: string, shared: boolean) => {
  const owner = configurationWith({}, { name: 'cam' as never })
  const draft = draftOf(owner, 1, [NODE], digest)
  return cluster.createInstance({ ...draft, spec: { ...draft.spec, shared } })
}
const untilWatched = () => server.untilWatched(3)

describe('the Instances that an agent sees', () => {
  it('are the shared ones and those of its node, by the labels alone', async () => {
    put('cam-000001', { shared: true, nodes: [OTHER] }, { 'akri.sh/shared': 'true' })
    put('cam-000002', local(NODE), { 'akri.sh/node': NODE })
    put('cam-000003', local(OTHER), { 'akri.sh/node': OTHER })
    await start()
    expect(shown().toSorted()).toEqual(['cam-000001', 'cam-000002'])
    await untilWatched()
    put('cam-000004', local(OTHER), { 'akri.sh/node': OTHER })
    put('cam-000005', { shared: true, nodes: [OTHER] }, { 'akri.sh/shared': 'true' })
    await eventually(() => expect(shown()).toContain('cam-000005'))
    expect(shown()).not.toContain('cam-000004')
  })

  it('include those of its node by an earlier version, before the cache is synced', async () => {
    put('cam-000001', local(NODE))
    put('cam-000002', { shared: true, nodes: [OTHER, NODE] })
    put('cam-000003', local(OTHER))
    put('cam-000004', { shared: true, nodes: [OTHER] })
    put('cam-000005', { shared: true, nodes: [OTHER] }, undefined, { 'cam-000005-0': NODE })
    await start()
    expect(shown().toSorted()).toEqual(['cam-000001', 'cam-000002', 'cam-000005'])
    await eventually(() => {
      expect(labelsOf('cam-000001')).toEqual({ 'akri.sh/node': NODE })
      expect(labelsOf('cam-000002')).toEqual({ 'akri.sh/shared': 'true' })
      expect(labelsOf('cam-000005')).toEqual({ 'akri.sh/shared': 'true' })
    })
    expect(labelsOf('cam-000003')).toBeUndefined()
    // The watch shows the end of an Instance that has got its label.
    await untilWatched()
    server.remove(`${INSTANCES}/cam-000002`)
    await eventually(() => expect(shown()).not.toContain('cam-000002'))
  })

  it('include those of Akri 0.12, which get the fields that they lack', async () => {
    const usage = { 'cam-000001-0': NODE, 'cam-000001-1': '' }
    putEarly('cam-000001', usage)
    refuseIncomplete()
    await start()
    const spec = { cdiName: 'akri.sh/cam=000001', capacity: 2, deviceUsage: usage }
    expect(cluster.instances.get(keyOf('cam-000001'))?.spec).toMatchObject(spec)
    await eventually(() => expect(labelsOf('cam-000001')).toEqual({ 'akri.sh/shared': 'true' }))
    expect(server.objects.get(`${INSTANCES}/cam-000001`)?.spec).toMatchObject(spec)
    expect(warnings).toEqual([])
  })

  it('include those of Akri 0.12 with a label, which get the fields before a claim', async () => {
    putEarly('cam-000001', { 'cam-000001-0': '' }, { 'akri.sh/shared': 'true' })
    refuseIncomplete()
    await start()
    const slot = 'cam-000001-0' as SlotName
    expect(await cluster.claimSlot(keyOf('cam-000001'), slot, NODE)).toEqual({ outcome: 'claimed' })
    expect(server.objects.get(`${INSTANCES}/cam-000001`)?.spec).toMatchObject({
      cdiName: 'akri.sh/cam=000001',
      capacity: 1,
      deviceUsage: { [slot]: NODE },
    })
  })

  it('include an unlabelled shared one of another agent, if the node sees its device', async () => {
    await start()
    put('cam-000001', { shared: true, nodes: [OTHER] })
    expect(await create('000001', true)).toBe('exists')
    expect(cluster.instances.get(keyOf('cam-000001'))?.spec.nodes).toEqual([OTHER])
    expect(labelsOf('cam-000001')).toEqual({ 'akri.sh/shared': 'true' })
    expect(await cluster.joinInstance(keyOf('cam-000001'), NODE)).toBe('joined')
    // A local one of another node is for that node to label.
    put('cam-000002', local(OTHER))
    expect(await create('000002', false)).toBe('exists')
    expect(labelsOf('cam-000002')).toBeUndefined()
  })

  it('can be left although a policy forbids the label', async () => {
    server.refusal = ({ method, body }) =>
      method === 'PATCH' && JSON.stringify(body).includes('labels')
        ? { status: 403, message: 'forbidden' }
        : undefined
    put('cam-000001', local(NODE))
    put('cam-000002', { shared: true, nodes: [OTHER, NODE] })
    await start()
    await eventually(() => expect(warnings).toHaveLength(1))
    expect(await cluster.leaveInstance(keyOf('cam-000001'), NODE)).toBe('deleted')
    expect(await cluster.leaveInstance(keyOf('cam-000002'), NODE)).toBe('left')
    expect(shown()).toEqual(['cam-000002'])
    // The agent reads it again now and then, and labels it when it may.
    server.refusal = () => undefined
    await clock.advance(90_000)
    await eventually(() => expect(labelsOf('cam-000002')).toEqual({ 'akri.sh/shared': 'true' }))
  })

  it('include a local one of another node whose name is needed, until it is gone', async () => {
    put('cam-000001', local(OTHER), { 'akri.sh/node': OTHER })
    await start()
    expect(shown()).toEqual([])
    expect(await create('000001', false)).toBe('exists')
    expect(shown()).toEqual(['cam-000001'])
    expect(labelsOf('cam-000001')).toEqual({ 'akri.sh/node': OTHER })
    const told: string[] = []
    const stop = new AbortController()
    cluster.instances.onChange((key) => told.push(key), stop.signal)
    server.remove(`${INSTANCES}/cam-000001`)
    await clock.advance(90_000)
    await eventually(() => expect(told).toEqual([keyOf('cam-000001')]))
    expect(shown()).toEqual([])
    expect(await create('000001', false)).toBe('created')
  })

  it('are listed again after a failure of the first list', async () => {
    put('cam-000001', local(NODE))
    let failures = 0
    server.refusal = ({ query }) =>
      query.get('labelSelector')?.startsWith('!') && failures++ < 2
        ? { status: 500, message: 'busy' }
        : undefined
    const starting = start()
    for (let round = 1; round <= 2; round++) {
      await eventually(() => expect(warnings).toHaveLength(round))
      await clock.advance(30_000)
    }
    await starting
    expect(shown()).toEqual(['cam-000001'])
  })
})
