import { CONFIGURATIONS, type Configuration, type ConfigurationName } from '@akrijs/api'
import { keyOf, Resource } from '@akrijs/kube'
import { FakeApiServer } from '@akrijs/kube/testing'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configurationWith } from '../testing/objects.js'
import { WatchedConfigurations } from './watched-configurations.js'

const known = configurationWith({ capacity: 2 }, { generation: 3, labels: { site: 'north' } })
const key = keyOf(known)
const PATH = '/apis/akri.sh/v0/namespaces/default/configurations/lab'

let clock: ManualClock
let server: FakeApiServer
let configurations: WatchedConfigurations
let refused: number
let changes: number
/** The capacity after each change that a listener hears of. */
let heard: (number | undefined)[]
let stop: AbortController
let ran: Promise<void>

beforeEach(() => {
  clock = new ManualClock()
  server = new FakeApiServer(clock)
  const client = server.client()
  stop = new AbortController()
  refused = changes = 0
  heard = []
  configurations = new WatchedConfigurations({
    client,
    clock,
    log: { ...silentLogger, warn: () => void refused++ },
    path: new Resource(client, CONFIGURATIONS).path(),
    onError: () => {},
    invalidChanged: () => void changes++,
  })
  configurations.cache.onChange(() => heard.push(capacity()), stop.signal)
  ran = configurations.cache.run(stop.signal)
})

afterEach(async () => {
  stop.abort()
  await ran
})

const capacity = () => configurations.cache.get(key)?.spec.capacity

async function put(
  spec: Partial<Configuration['spec']>,
  metadata: Partial<Configuration['metadata']>,
  status?: object,
): Promise<void> {
  const { spec: before, metadata: old, ...object } = known
  server.put(PATH, {
    ...object,
    metadata: { ...old, ...metadata },
    spec: { ...before, ...spec },
    ...(status && { status }),
  })
  await clock.advance(0)
}

describe('an agent hears', () => {
  beforeEach(() => put({}, {}))

  it.each<[string, object, object, object | undefined, number]>([
    ['of no status', {}, {}, { nodeCounts: { reporting: 3 } }, 1],
    ['of no fields of managers', {}, { managedFields: [{ manager: 'x' }] }, undefined, 1],
    ['of no label', {}, { labels: { site: 'south' } }, undefined, 1],
    ['of a spec', { capacity: 5 }, { generation: 4 }, undefined, 2],
    ['of another object', {}, { uid: 'other' }, undefined, 2],
    ['of a deletion', {}, { deletionTimestamp: '2026-01-01T00:00:00Z' }, undefined, 2],
    // A server without generations counts no changes of the spec.
    ['of each version without generations', {}, { generation: 0 }, undefined, 2],
  ])('%s', async (_, spec, metadata, status, times) => {
    await put(spec, metadata, status)
    expect(heard).toHaveLength(times)
  })

  it('of no change of another version, and counts the nodes that report', async () => {
    for (const reporting of [30, 20]) await put({}, {}, { nodeCounts: { reporting } })
    expect([...configurations.reporting]).toEqual([[key, 20]])
    server.remove(PATH)
    await clock.advance(0)
    expect(configurations.reporting.size).toBe(0)
    expect(heard).toEqual([2, undefined])
  })
})

describe('an invalid Configuration', () => {
  const invalid = () => [...configurations.invalid.values()].map(({ problem }) => problem)

  it('is read once, and after each change of its spec', async () => {
    for (const reporting of [1, 2, 3])
      await put({ capacity: -1 }, { generation: 1 }, { nodeCounts: { reporting } })
    expect([refused, changes]).toEqual([1, 1])
    expect(invalid()).toEqual([expect.stringMatching(/^spec\.capacity: /)])
    await put({ capacity: -2 }, { generation: 2 })
    expect([refused, changes, capacity()]).toEqual([2, 2, undefined])
    await put({}, { generation: 3 })
    expect([refused, changes, capacity()]).toEqual([2, 3, 2])
    expect(invalid()).toEqual([])
  })

  it.each<object>([
    { brokerSpec: { brokerRobotSpec: {} } },
    { brokerProperties: null, discoveryHandler: null },
  ])('A25 stops no other: %j', async (spec) => {
    const name = 'other' as ConfigurationName
    const other = { ...known, metadata: { ...known.metadata, name, uid: 'other' } }
    await put(spec, {})
    server.put(PATH.replace('lab', name), other)
    await clock.advance(0)
    expect([configurations.cache.get(keyOf(other))?.spec, refused]).toEqual([known.spec, 1])
  })

  it.each([
    ['keeps its last valid spec', 'u1', 2],
    ['gets no spec of a deleted Configuration of its name', 'second', undefined],
  ])('%s', async (_, uid, kept) => {
    await put({}, {})
    // An agent that was away sees only the last of several changes.
    await put({ capacity: -1 }, { generation: 4, uid })
    expect(capacity()).toBe(kept)
    server.remove(PATH)
    await clock.advance(0)
    expect([capacity(), invalid()]).toEqual([undefined, []])
  })
})
