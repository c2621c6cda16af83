import { API_VERSION, type Instance, type InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { RANK } from '../discovery/device-admission.js'
import { collidingIds } from '../testing/colliding-ids.js'
import { configurationWith, instanceWith } from '../testing/objects.js'
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

it('used devices come first, then served ones, then all that this node does not serve', () => {
  const rankOf = deviceRanks({
    configuration,
    node,
    instances: [
      instance('used', { usage: node }),
      instance('used by another', { usage: other }),
      instance('elsewhere', { nodes: [other], usage: other }),
    ],
  })
  const ids = ['used', 'used by another', 'elsewhere', 'new']
  const { used, served } = RANK
  expect(ids.map((id) => rankOf(id, true))).toEqual([used, served, RANK.new, RANK.new])
})

it('a device with a long name has the rank of its Instance', () => {
  const [first, second] = collidingIds()
  const short = instance(first, { nodes: [other] })
  const long = instance(second)
  const digest = deviceDigest(second, { shared: true }, 'long')
  const rankOf = deviceRanks({
    configuration,
    node,
    instances: [
      short,
      { ...long, metadata: { ...long.metadata, name: `lab-${digest}` as InstanceName } },
    ],
  })
  expect([rankOf(first, true), rankOf(second, true)]).toEqual([RANK.new, RANK.served])
})

it('an id with control characters keeps its rank, and ids with the same text get none', () => {
  const id = 'camera\u001b[2J\ud800'
  const rankOf = deviceRanks({
    configuration,
    node,
    instances: [instance(id, { usage: node }), instance('other\u0001')],
  })
  expect([id, 'other\u0001'].map((each) => rankOf(each, true))).toEqual([RANK.used, RANK.served])
  // An API server stores U+FFFD in their place: all these ids have the same annotation.
  for (const twin of ['other\u0002', 'other\u0085', 'other\ufffd'])
    expect(rankOf(twin, true)).toBe(RANK.new)
})

it('the rank of a device is that of the Instance of its node, if only that node sees it', () => {
  const rankOf = deviceRanks({ configuration, node, instances: [instance('foo')] })
  expect([rankOf('foo', true), rankOf('foo', false)]).toEqual([RANK.served, RANK.new])
})

it.each<[string, Made]>([
  ['another Configuration', { uid: 'u2' }],
  ['another node', { nodes: [other] }],
  ['a deletion', { deletionTimestamp: '2026-01-01T00:00:00Z' }],
])('an Instance of %s gives no place', (_, made) => {
  const rankOf = deviceRanks({ configuration, node, instances: [instance('foo', made)] })
  expect(rankOf('foo', true)).toBe(RANK.new)
})

it.each([true, false])(
  'an Instance of another implementation counts by its name (shared: %s)',
  (shared) => {
    const rankOf = deviceRanks({
      configuration,
      node,
      instances: [instance('foo', { annotated: false, shared })],
    })
    expect([rankOf('foo', shared), rankOf('bar', shared)]).toEqual([RANK.served, RANK.new])
  },
)
