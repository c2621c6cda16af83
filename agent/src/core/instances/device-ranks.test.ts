import { API_VERSION, type Instance, type InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { collidingIds } from '../../testing/colliding-ids.js'
import { configurationWith, instanceWith } from '../../testing/objects.js'
import { deviceRanks } from './device-ranks.js'
import { deviceIdAnnotation } from './existing-instances.js'
import { deviceDigest } from './instance-name.js'

const node = 'node-a' as NodeName
const other = 'node-b' as NodeName
const configuration = configurationWith()

interface Made {
  nodes?: NodeName[]
  shared?: boolean
  usage?: string
  uid?: string
  annotated?: boolean
  deletionTimestamp?: string
}

function instance(id: string, made: Made = {}): Instance {
  const { nodes = [node], shared = true, usage = '', uid = 'u1', annotated = true } = made
  const name = `lab-${deviceDigest(id, shared ? { shared } : { shared, node })}` as InstanceName
  return instanceWith(
    { [`${name}-0`]: usage },
    { nodes, shared },
    {
      name,
      ownerReferences: [{ apiVersion: API_VERSION, kind: 'Configuration', name: 'lab', uid }],
      ...(annotated && { annotations: deviceIdAnnotation(id) }),
      ...(made.deletionTimestamp && { deletionTimestamp: made.deletionTimestamp }),
    },
  )
}

it('used devices come first, then served ones, those of other nodes, and new ones', () => {
  const { rankOf, isServed } = deviceRanks({
    configuration,
    node,
    instances: [
      instance('used', { usage: node }),
      instance('used by another', { usage: other }),
      instance('elsewhere', { nodes: [other], usage: other }),
    ],
  })
  const ids = ['used', 'used by another', 'elsewhere', 'new']
  const ranks = ids.map((id) => rankOf(id, true, 1))
  expect(ranks).toEqual([...new Set(ranks)].sort())
  expect(ids.map((id) => isServed(id, true))).toEqual([true, true, false, false])
})

it('a device with a long name has the rank of its Instance', () => {
  const [first, second] = collidingIds()
  const short = instance(first, { nodes: [other] })
  const long = instance(second)
  const digest = deviceDigest(second, { shared: true }, 'long')
  const { isServed } = deviceRanks({
    configuration,
    node,
    instances: [
      short,
      { ...long, metadata: { ...long.metadata, name: `lab-${digest}` as InstanceName } },
    ],
  })
  expect([isServed(first, true), isServed(second, true)]).toEqual([false, true])
})

it('an id with control characters keeps its rank, and ids with the same text get none', () => {
  const id = 'camera\u001b[2J\ud800'
  const { rankOf, isServed } = deviceRanks({
    configuration,
    node,
    instances: [instance(id, { usage: node }), instance('other\u0001')],
  })
  expect(rankOf(id, true, 1)).toBeLessThan(rankOf('other\u0001', true, 1))
  expect([id, 'other\u0001'].map((served) => isServed(served, true))).toEqual([true, true])
  // An API server stores U+FFFD in their place: all these ids have the same annotation.
  for (const twin of ['other\u0002', 'other\u0085', 'other\ufffd'])
    expect(rankOf(twin, true, 1)).toBe(rankOf('new', true, 1))
})

it('the rank of a device is that of the Instance of its node, if only that node sees it', () => {
  const { isServed } = deviceRanks({ configuration, node, instances: [instance('foo')] })
  expect([isServed('foo', true), isServed('foo', false)]).toEqual([true, false])
})

it('a large device comes after other served devices, and before new devices', () => {
  const { rankOf } = deviceRanks({
    configuration,
    node,
    instances: [instance('used', { usage: node }), instance('served')],
  })
  const ranks = [rankOf('served', true, 1), rankOf('used', true, 2), rankOf('served', true, 64)]
  expect([...ranks, rankOf('new', true, 1)]).toEqual([...ranks, rankOf('new', true, 64)].sort())
})

it.each<[string, Made]>([
  ['another Configuration', { uid: 'u2' }],
  ['another node, which alone sees its device', { nodes: [other], shared: false }],
  ['a deletion', { deletionTimestamp: '2026-01-01T00:00:00Z' }],
])('an Instance of %s gives no place', (_, made) => {
  const { rankOf } = deviceRanks({ configuration, node, instances: [instance('foo', made)] })
  expect(rankOf('foo', true, 1)).toBe(rankOf('new', true, 1))
})

it.each([true, false])(
  'an Instance of another implementation counts by its name (shared: %s)',
  (shared) => {
    const { isServed } = deviceRanks({
      configuration,
      node,
      instances: [instance('foo', { annotated: false, shared })],
    })
    expect([isServed('foo', shared), isServed('bar', shared)]).toEqual([true, false])
  },
)
