import { objectKey } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger, systemClock } from '@akrijs/runtime'
import { expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { KubernetesCluster } from '../cluster/kubernetes-cluster.js'
import { configurationWith } from '../testing/objects.js'
import { isStatusChange } from './status-change.js'

const PATH = '/apis/akri.sh/v0/namespaces/default/configurations/lab'
const known = configurationWith({ capacity: 2 }, { labels: { site: 'north' }, generation: 3 })

it.each([
  ['the version', { resourceVersion: '7' }, {}, true],
  ['the status', {}, { status: { nodeCounts: { reporting: 3 } } }, true],
  ['fields of managers', { managedFields: [{ manager: 'x' }] }, {}, true],
  ['the generation', { generation: 4 }, {}, false],
  ['the object', { uid: 'other' }, {}, false],
  ['a label', { labels: { site: 'south' } }, {}, false],
  ['an annotation', { annotations: { note: 'x' } }, {}, false],
  ['the deletion', { deletionTimestamp: '2026-01-01T00:00:00Z' }, {}, false],
  ['the finalizers', { finalizers: ['x/y'] }, {}, false],
])('a change of %s', (_what, metadata, more, expected) => {
  const changed = { ...known, ...more, metadata: { ...known.metadata, ...metadata } }
  expect(isStatusChange(changed, known)).toBe(expected)
})

it('a change of an object without generations is never of its status alone', () => {
  const counted = configurationWith({}, { generation: 0 })
  expect(isStatusChange(counted, counted)).toBe(false)
  expect(isStatusChange(counted, undefined)).toBe(false)
})

it('an agent hears of no status, and counts the nodes of the cluster', async () => {
  const server = new FakeApiServer(systemClock)
  const client = await server.open()
  const node = 'node-a' as never
  const cluster = new KubernetesCluster({ client, clock: systemClock, log: silentLogger, node })
  const stop = new AbortController()
  const heard: (number | undefined)[] = []
  const capacity = () => cluster.configurations.get(objectKey('default', 'lab'))?.spec.capacity
  try {
    server.put(PATH, { ...known })
    cluster.start()
    await cluster.configurations.synced
    await server.untilWatched(3)
    cluster.configurations.onChange(() => heard.push(capacity()), stop.signal)
    expect(cluster.knownNodes).toBe(1)
    for (const reporting of [30, 20])
      server.put(PATH, { ...known, status: { nodeCounts: { reporting } } })
    const { metadata, spec } = known
    server.put(PATH, {
      ...known,
      metadata: { ...metadata, generation: 4 },
      spec: { ...spec, capacity: 5 },
    })
    await eventually(() => expect(capacity()).toBe(5))
    expect(heard).toEqual([5])
    expect(cluster.knownNodes).toBe(30)
  } finally {
    stop.abort()
    await cluster.close()
    await server.close()
  }
})

it('an agent reads an invalid Configuration once, and after each change of its spec', async () => {
  const server = new FakeApiServer(systemClock)
  const client = await server.open()
  const refused: unknown[] = []
  const log = { ...silentLogger, warn: (fields: object) => refused.push(fields) }
  const cluster = new KubernetesCluster({ client, clock: systemClock, log, node: 'a' as never })
  const put = (generation: number, capacity: number, reporting = 0) =>
    server.put(PATH, {
      ...known,
      metadata: { ...known.metadata, generation },
      spec: { ...known.spec, capacity },
      status: { nodeCounts: { reporting } },
    })
  try {
    put(1, -1)
    cluster.start()
    await cluster.configurations.synced
    await server.untilWatched(3)
    for (const reporting of [2, 3, 4]) put(1, -1, reporting)
    await eventually(() => expect(cluster.knownNodes).toBe(4))
    expect(refused).toHaveLength(1)
    put(2, -2)
    await eventually(() => expect(refused).toHaveLength(2))
    put(3, 2)
    await eventually(() => expect(cluster.configurations.list()).toHaveLength(1))
    put(4, -2)
    await eventually(() => expect(refused).toHaveLength(3))
    expect(cluster.configurations.list()).toHaveLength(1)
  } finally {
    await cluster.close()
    await server.close()
  }
})
