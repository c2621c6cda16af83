import type { Instance, InstanceName, SlotName } from '@akrijs/api'
import { type NodeName, objectKey } from '@akrijs/kube'
import type { FakeApiServer } from '@akrijs/kube/testing'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { eventually, passing } from '../../../test/support/eventually.js'
import { FakeKubernetes } from '../testing/fake-kubernetes.js'
import { configurationWith, draftOf, instanceWith, NODE, OTHER } from '../testing/objects.js'
import type { KubernetesCluster } from './kubernetes-cluster.js'

const SHARED = { 'akri.sh/shared': 'true' }
const labelOf = (node: NodeName) => ({ 'akri.sh/node': node })

let clock: ManualClock
let home: FakeKubernetes
let server: FakeApiServer
let cluster: KubernetesCluster

beforeEach(async () => {
  clock = new ManualClock(1_000_000)
  home = await FakeKubernetes.open(clock)
  server = home.server
})

async function start(): Promise<void> {
  cluster = home.start(NODE)
  await cluster.instances.synced
}

const nameOf = (digest: number) => `cam-00000${digest}` as InstanceName
const keyOf = (digest: number) => objectKey('default', nameOf(digest))
const pathOf = (digest: number) => `/apis/akri.sh/v0/namespaces/default/instances/${nameOf(digest)}`
const slotOf = (digest: number) => `${nameOf(digest)}-0` as SlotName

interface Written {
  /** @default of a program that writes no labels */
  readonly labels?: Record<string, string>
  readonly usage?: Record<string, string>
  /** As agents wrote it before 0.13.8. */
  readonly isEarly?: boolean
}

/** An Instance of another program: shared, or local. */
function put(digest: number, shared: boolean, nodes: NodeName[], written: Written = {}): void {
  const { labels, usage = {}, isEarly } = written
  const metadata = { name: nameOf(digest), uid: nameOf(digest), ...(labels && { labels }) }
  const { spec, ...object } = instanceWith(usage, { shared, nodes }, metadata)
  const { cdiName: _, capacity: __, ...early } = spec
  server.put(pathOf(digest), { ...object, spec: isEarly ? early : spec })
}

const shown = () => cluster.instances.list().map(({ metadata }) => metadata.name)
const shows = (...digests: number[]) => expect(shown().toSorted()).toEqual(digests.map(nameOf))
const labelsOf = (digest: number) => server.objects.get(pathOf(digest))?.metadata.labels
const getsLabels = (digest: number, labels: object) =>
  eventually(() => expect(labelsOf(digest)).toEqual(labels))
const create = (digest: number, shared: boolean) => {
  const owner = configurationWith({}, { name: 'cam' as never })
  const draft = draftOf(owner, 1, [NODE], `00000${digest}`)
  return cluster.createInstance({ ...draft, spec: { ...draft.spec, shared } })
}

describe('the Instances that an agent sees', () => {
  it('are the shared ones and those of its node, by the labels alone', async () => {
    put(1, true, [OTHER], { labels: SHARED })
    put(2, false, [NODE], { labels: labelOf(NODE) })
    put(3, false, [OTHER], { labels: labelOf(OTHER) })
    await start()
    shows(1, 2)
    await server.untilWatched(3)
    put(4, false, [OTHER], { labels: labelOf(OTHER) })
    put(5, true, [OTHER], { labels: SHARED })
    await eventually(() => shows(1, 2, 5))
  })

  it('include those of its node by an earlier version, before the cache is synced', async () => {
    put(1, false, [NODE])
    put(2, true, [OTHER, NODE])
    put(3, false, [OTHER])
    put(4, true, [OTHER])
    put(5, true, [OTHER], { usage: { [slotOf(5)]: NODE } })
    await start()
    shows(1, 2, 5)
    await getsLabels(1, labelOf(NODE))
    for (const digest of [2, 5]) await getsLabels(digest, SHARED)
    expect(labelsOf(3)).toBeUndefined()
    // The watch shows the end of an Instance that has got its label.
    await server.untilWatched(3)
    server.remove(pathOf(2))
    await eventually(() => shows(1, 5))
  })

  it('include those of Akri 0.12, with the fields that they lack before a claim', async () => {
    // As the custom resource does: a changed spec must have all required fields.
    server.refusal = ({ method, path, body }) => {
      const { cdiName } = (server.objects.get(path)?.spec ?? {}) as Partial<Instance['spec']>
      return method === 'PATCH' && !cdiName && !JSON.stringify(body).includes('cdiName')
        ? { status: 422, message: 'spec.cdiName: Required value' }
        : undefined
    }
    const usage = { [slotOf(1)]: NODE, [`${nameOf(1)}-1`]: '' }
    put(1, true, [NODE], { isEarly: true, usage })
    put(2, true, [NODE], { isEarly: true, labels: SHARED, usage: { [slotOf(2)]: '' } })
    await start()
    const spec = { cdiName: 'akri.sh/cam=000001', capacity: 2, deviceUsage: usage }
    expect(cluster.instances.get(keyOf(1))?.spec).toMatchObject(spec)
    await getsLabels(1, SHARED)
    expect(server.objects.get(pathOf(1))?.spec).toMatchObject(spec)
    expect(home.logged).toEqual([])
    expect(await cluster.claimSlot(keyOf(2), slotOf(2), NODE)).toEqual({ outcome: 'claimed' })
    const claimed = { capacity: 1, deviceUsage: { [slotOf(2)]: NODE } }
    expect(server.objects.get(pathOf(2))?.spec).toMatchObject(claimed)
  })

  it('include an unlabelled shared one of another agent, if the node sees its device', async () => {
    await start()
    put(1, true, [OTHER])
    expect(await create(1, true)).toBe('exists')
    expect(cluster.instances.get(keyOf(1))?.spec.nodes).toEqual([OTHER])
    expect(labelsOf(1)).toEqual(SHARED)
    expect(await cluster.joinInstance(keyOf(1), NODE)).toBe('joined')
    // A local one of another node is for that node to label.
    put(2, false, [OTHER])
    expect(await create(2, false)).toBe('exists')
    expect(labelsOf(2)).toBeUndefined()
  })

  it('can be left although a policy forbids the label', async () => {
    server.refusal = ({ method, body }) =>
      method === 'PATCH' && JSON.stringify(body).includes('labels')
        ? { status: 403, message: 'forbidden' }
        : undefined
    put(1, false, [NODE])
    put(2, true, [OTHER, NODE])
    await start()
    await eventually(() => expect(home.logged).toHaveLength(1))
    expect(await cluster.leaveInstance(keyOf(1), NODE)).toBe('deleted')
    expect(await cluster.leaveInstance(keyOf(2), NODE)).toBe('left')
    shows(2)
    // The agent reads it again now and then, and labels it when it may.
    server.refusal = () => undefined
    await passing(clock, () => expect(labelsOf(2)).toEqual(SHARED), 90_000)
  })

  it('include a local one of another node whose name is needed, until it is gone', async () => {
    put(1, false, [OTHER], { labels: labelOf(OTHER) })
    await start()
    shows()
    expect(await create(1, false)).toBe('exists')
    shows(1)
    expect(labelsOf(1)).toEqual(labelOf(OTHER))
    const told: string[] = []
    cluster.instances.onChange((key) => told.push(key), new AbortController().signal)
    server.remove(pathOf(1))
    await clock.advance(90_000)
    await eventually(() => expect(told).toEqual([keyOf(1)]))
    shows()
    expect(await create(1, false)).toBe('created')
  })

  it('are listed again after a failure of the first list', async () => {
    put(1, false, [NODE])
    let failures = 0
    server.refusal = ({ query }) =>
      query.get('labelSelector')?.startsWith('!') && failures++ < 2
        ? { status: 500, message: 'busy' }
        : undefined
    const starting = start()
    for (let round = 1; round <= 2; round++) {
      await eventually(() => expect(home.logged).toHaveLength(round))
      await clock.advance(30_000)
    }
    await starting
    shows(1)
  })
})
