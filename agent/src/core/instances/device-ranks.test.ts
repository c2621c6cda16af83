import { API_VERSION, type Instance, type InstanceName } from '@akrijs/api'
import type { NodeName } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { configurationWith, instanceWith } from '../../testing/objects.js'
import { deviceRanks } from './device-ranks.js'
import { deviceDigest } from './instance-name.js'
import { DEVICE_ID_ANNOTATION } from './instance-plan.js'

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
      ...(annotated && { annotations: { [DEVICE_ID_ANNOTATION]: id } }),
      ...(made.deletionTimestamp && { deletionTimestamp: made.deletionTimestamp }),
    },
  )
}

it('used devices come first, then served devices, then devices of other nodes, then new devices', () => {
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
  const ranks = ids.map((id) => rankOf(id, true))
  expect(ranks).toEqual([...new Set(ranks)].sort())
  expect(ids.map((id) => isServed(id, true))).toEqual([true, true, false, false])
})

it.each<[string, Made]>([
  ['another Configuration', { uid: 'u2' }],
  ['another node, which alone sees its device', { nodes: [other], shared: false }],
  ['a deletion', { deletionTimestamp: '2026-01-01T00:00:00Z' }],
])('an Instance of %s gives no place', (_, made) => {
  const { rankOf } = deviceRanks({ configuration, node, instances: [instance('foo', made)] })
  expect(rankOf('foo', true)).toBe(rankOf('new', true))
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
