import type { NodeName } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { RANK } from '../discovery/device-set.js'
import { collidingIds } from '../testing/colliding-ids.js'
import { configurationWith, instanceOfDevice, type Made } from '../testing/objects.js'
import { deviceRanks } from './device-ranks.js'

const [first, second] = collidingIds()
const elsewhere = { nodes: ['node-b'] }
const controlled = 'camera\u001b[2J\ud800'
const ofAnother = [{ apiVersion: 'akri.sh/v0', kind: 'Configuration', name: 'lab', uid: 'u2' }]

it.each<
  [string, present: [string, Made?][], ranks: [string, keyof typeof RANK][], shared?: boolean]
>([
  [
    'used devices come first, then served ones, then all that this node does not serve',
    [
      ['used', { usage: 'node-a' }],
      ['used by another', { usage: 'node-b' }],
      ['elsewhere', { ...elsewhere, usage: 'node-b' }],
    ],
    [
      ['used', 'used'],
      ['used by another', 'served'],
      ['elsewhere', 'new'],
      ['other', 'new'],
    ],
  ],
  [
    'a device with a long name has the rank of its Instance',
    [
      [first, elsewhere],
      [second, { length: 'long' }],
    ],
    [
      [first, 'new'],
      [second, 'served'],
    ],
  ],
  [
    // An API server stores U+FFFD in their place: all these ids have the same annotation.
    'an id with control characters keeps its rank, and ids with the same text get none',
    [[controlled, { usage: 'node-a' }], ['other\u0001']],
    [
      [controlled, 'used'],
      ['other\u0001', 'served'],
      ['other\u0002', 'new'],
      ['other\u0085', 'new'],
      ['other\ufffd', 'new'],
    ],
  ],
  [
    'an Instance that other nodes see too is none of a local device',
    [['a']],
    [['a', 'new']],
    false,
  ],
  [
    'an Instance of another Configuration gives no place',
    [['a', { metadata: { ownerReferences: ofAnother } }]],
    [['a', 'new']],
  ],
  [
    'an Instance that is being deleted gives no place',
    [['a', { metadata: { deletionTimestamp: '2026-01-01T00:00:00Z' } }]],
    [['a', 'new']],
  ],
  ...[true, false].map(
    (shared): [string, [string, Made][], [string, keyof typeof RANK][], boolean] => [
      'an Instance of another implementation counts by its name',
      [['a', { isAnnotated: false, shared }]],
      [
        ['a', 'served'],
        ['b', 'new'],
      ],
      shared,
    ],
  ),
])('%s', (_, present, ranks, shared = true) => {
  const rankOf = deviceRanks({
    configuration: configurationWith(),
    node: 'node-a' as NodeName,
    instances: present.map(([id, made]) => instanceOfDevice(id, made)),
  })
  const expected = ranks.map(([id, rank]) => [id, RANK[rank]])
  expect(ranks.map(([id]) => [id, rankOf(id, shared)])).toEqual(expected)
})
