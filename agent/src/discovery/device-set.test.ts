import type { ObjectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { DeviceBounds } from '../limits.js'
import { checked, configurationWith, found } from '../testing/objects.js'
import { admitDevices, ageDevices, type ListedDevices, RANK, type Rank } from './device-set.js'

it('a device that its first handler may not give stays refused, also if others list it', () => {
  const list = { shared: true, leftOut: 0 }
  const refused = { ...list, endpoint: 'b', devices: [{ id: '1', hash: '', refusal: 'no' }] }
  const other = { ...list, endpoint: 'a', devices: [checked({ id: '1' })] }
  const { devices } = ageDevices([refused, other], 0, { unhealthyAfterMs: 30, removeAfterMs: 300 })
  expect(devices.get('1')).toMatchObject({ endpoint: 'b', healthy: false, refusal: 'no' })
})

/** Configurations by their keys, which begin with their namespace. */
type Drafts = Readonly<
  Record<string, { readonly capacity: number; readonly ranks: Readonly<Record<string, Rank>> }>
>

function admitted(drafts: Drafts, bounds: DeviceBounds) {
  const listed = Object.entries(drafts).map(
    ([key, { capacity, ranks }]): ListedDevices => ({
      key: key as ObjectKey,
      configuration: configurationWith({ capacity }, { namespace: key.slice(0, 1) }),
      listed: {
        devices: new Map(Object.keys(ranks).map((id) => [id, found({ id })])),
        ...{ complete: true, leftOut: 0, changesAt: Infinity },
      },
      ranks: () => (id) => ranks[id] ?? RANK.new,
    }),
  )
  return Object.fromEntries(
    Array.from(admitDevices(listed, bounds), ([{ key }, { devices, leftOut }]) => [
      key,
      { ids: [...devices.keys()].sort(), leftOut: leftOut?.devices, bound: leftOut?.bound },
    ]),
  )
}

/** One pass over all devices, by rank and id, which admits a device while it has room. */
function expected(drafts: Drafts, { perConfiguration, perNode, slots }: DeviceBounds) {
  const taken = new Map<string, number>()
  const roomsOf = (key: string, { capacity }: Drafts[string]) => {
    const namespace = key.slice(0, 1)
    return [
      { bound: 'perConfiguration', room: key, most: perConfiguration, amount: 1 },
      { bound: 'perNamespace', room: `${namespace} 1`, most: Math.ceil(perNode / 2), amount: 1 },
      {
        ...{ bound: 'slotsPerNamespace', room: `${namespace} 2` },
        ...{ most: Math.ceil(slots / 2), amount: capacity },
      },
      { bound: 'perNode', room: '1', most: perNode, amount: 1 },
      { bound: 'slots', room: '2', most: slots, amount: capacity },
    ]
  }
  const isFull = ({ room, most, amount }: ReturnType<typeof roomsOf>[number]) =>
    (taken.get(room) ?? 0) + amount > most
  const all = Object.entries(drafts).flatMap(([key, draft]) =>
    Object.entries(draft.ranks).map(([id, rank]) => ({ key, draft, id, order: [rank, id, key] })),
  )
  const kept = new Map(Object.keys(drafts).map((key): [string, string[]] => [key, []]))
  for (const { key, draft, id } of all.sort((a, b) => (`${a.order}` < `${b.order}` ? -1 : 1))) {
    const rooms = roomsOf(key, draft)
    if (rooms.some(isFull)) continue
    for (const { room, amount } of rooms) taken.set(room, (taken.get(room) ?? 0) + amount)
    kept.get(key)?.push(id)
  }
  return Object.fromEntries(
    Array.from(kept, ([key, ids]) => {
      const draft = drafts[key] ?? expect.fail()
      const leftOut = Object.keys(draft.ranks).length - ids.length
      const bound = roomsOf(key, draft).find(isFull)?.bound
      return [key, { ids: ids.sort(), ...(leftOut > 0 && { leftOut, bound }) }]
    }),
  )
}

const draft = fc.record({
  capacity: fc.integer({ min: 1, max: 4 }),
  ranks: fc.dictionary(fc.stringMatching(/^[a-p]$/), fc.constantFrom(...Object.values(RANK))),
})
const keys = fc.constantFrom('a/x', 'a/y', 'b/x', 'c/x', 'd/x')
const arrivals = fc.dictionary(keys, fc.uniqueArray(fc.stringMatching(/^[A-Z]$/)))
const bounds = fc.record({
  perConfiguration: fc.integer({ min: 1, max: 12 }),
  perNode: fc.integer({ min: 1, max: 30 }),
  slots: fc.integer({ min: 1, max: 60 }),
})

it('admitted devices keep within each bound, those in use first, and stay when others come', () => {
  fc.assert(
    fc.property(fc.dictionary(keys, draft), arrivals, bounds, (drafts, later, limits) => {
      const before = admitted(drafts, limits)
      expect(before).toEqual(expected(drafts, limits))
      const more: Record<string, Drafts[string]> = {}
      for (const key of Object.keys({ ...drafts, ...later })) {
        const { capacity, ranks } = drafts[key] ?? { capacity: 1, ranks: {} }
        const now = { ...ranks }
        for (const id of before[key]?.ids ?? []) if (ranks[id] !== RANK.used) now[id] = RANK.served
        for (const id of later[key] ?? []) now[id] = RANK.new
        more[key] = { capacity, ranks: now }
      }
      const after = admitted(more, limits)
      for (const [key, { ids }] of Object.entries(before))
        expect(after[key]?.ids).toEqual(expect.arrayContaining(ids))
    }),
  )
})
