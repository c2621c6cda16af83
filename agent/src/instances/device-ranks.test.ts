import type { NodeName } from '@akrijs/kube/objects'
import { expect, it } from 'vitest'
import { RANK } from '../discovery/device-set.js'
import { COLLIDING, configurationWith, instanceOfDevice, type Made } from '../testing/objects.js'
import { deviceRanks } from './device-ranks.js'

const elsewhere = { nodes: ['node-b'] }
const NAMES = Object.fromEntries(Object.entries(RANK).map(([name, rank]) => [rank, name]))

/** The ranks of devices beside the Instances of these devices. */
function ranksOf(ids: readonly string[], present: [string, Made?][], shared = true) {
  const instances = present.map(([id, made]) => instanceOfDevice(id, made))
  const rankOf = deviceRanks(configurationWith(), instances, 'node-a' as NodeName)
  return ids.map((id) => NAMES[rankOf(id, shared)])
}

it('used devices come first, then served ones, then all that this node does not serve', () => {
  const present: [string, Made][] = [
    ['used', { usage: 'node-a' }],
    ['used by another', { usage: 'node-b' }],
    ['elsewhere', { ...elsewhere, usage: 'node-b' }],
  ]
  const ids = ['used', 'used by another', 'elsewhere', 'other']
  expect(ranksOf(ids, present)).toEqual(['used', 'served', 'new', 'new'])
})

it('a device with a long name has the rank of its Instance', () => {
  const [first, second] = COLLIDING
  const present: [string, Made][] = [
    [first, elsewhere],
    [second, { length: 'long' }],
  ]
  expect(ranksOf([first, second], present)).toEqual(['new', 'served'])
})

it('an id with control characters keeps its rank, and ids with the same text get none', () => {
  // An API server stores U+FFFD in their place: all these ids have the same annotation.
  const others = ['\u0001', '\u0002', '\u0085', '\ufffd'].map((each) => `other${each}`)
  const ids = ['camera\u001b[2J\ud800', ...others] as const
  const ranks = ranksOf(ids, [[ids[0], { usage: 'node-a' }], ['other\u0001']])
  expect(ranks).toEqual(['used', 'served', 'new', 'new', 'new'])
})

it('an Instance that other nodes see too is none of a local device', () => {
  expect(ranksOf(['a'], [['a']], false)).toEqual(['new'])
})

it.each([
  ['of another Configuration', { ownerReferences: [] }],
  ['that is being deleted', { deletionTimestamp: '2026-01-01T00:00:00Z' }],
])('an Instance %s gives no place', (_, metadata) => {
  expect(ranksOf(['a'], [['a', { metadata }]])).toEqual(['new'])
})

it.each([true, false])('an Instance of another implementation counts by its name', (shared) => {
  const ranks = ranksOf(['a', 'b'], [['a', { isAnnotated: false, shared }]], shared)
  expect(ranks).toEqual(['served', 'new'])
})
