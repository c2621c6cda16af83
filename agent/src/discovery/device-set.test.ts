import type { ObjectKey } from '@akrijs/kube/objects'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { DeviceBounds } from '../limits.js'
import { checked, configurationWith } from '../testing/objects.js'
import { admitDevices, ageDevices, type ListedDevices, RANK, type Rank } from './device-set.js'

it('a device that its first handler may not give stays refused, also if others list it', () => {
  const list = { shared: true, leftOut: 0 }
  const refused = { ...list, endpoint: 'b', devices: [{ id: '1', hash: '', refusal: 'no' }] }
  const other = { ...list, endpoint: 'a', devices: [checked({ id: '1' })] }
  const { devices } = ageDevices([refused, other], 0, { unhealthyAfterMs: 30, removeAfterMs: 300 })
  expect(devices.get('1')).toMatchObject({ endpoint: 'b', healthy: false, refusal: 'no' })
})

type Listed = ReadonlyMap<ObjectKey, ListedDevices>

interface Draft {
  readonly capacity: number
  readonly ranks: Readonly<Record<string, Rank>>
}

const discovered = (id: string) => ({
  ...{ device: checked({ id }), shared: true, endpoint: 'e', healthy: true },
})

const listedOf = (drafts: Readonly<Record<string, Draft>>): Listed =>
  new Map(
    Object.entries(drafts).map(([key, { capacity, ranks }]) => [
      key as ObjectKey,
      {
        configuration: configurationWith({ capacity }, { namespace: key.slice(0, 1) }),
        listed: {
          devices: new Map(Object.keys(ranks).map((id) => [id, discovered(id)])),
          complete: true,
          leftOut: 0,
          changesAt: Infinity,
        },
        ranks: () => (id) => ranks[id] ?? RANK.new,
      },
    ]),
  )

const idsOf = (listed: Listed, bounds: DeviceBounds): ReadonlyMap<string, readonly string[]> =>
  new Map([...admitDevices(listed, bounds)].map(([key, { devices }]) => [key, [...devices.keys()]]))

/** Devices that were admitted are served. */
function served(listed: Listed, before: ReadonlyMap<string, readonly string[]>): Listed {
  return new Map(
    [...listed].map(([key, each]) => {
      const rankOf = each.ranks()
      const ranks = () => (id: string, shared: boolean) =>
        before.get(key)?.includes(id) === true
          ? (Math.min(rankOf(id, shared), RANK.served) as Rank)
          : rankOf(id, shared)
      return [key, { ...each, ranks }]
    }),
  )
}

const draft = fc.record({
  capacity: fc.integer({ min: 1, max: 4 }),
  ranks: fc.dictionary(fc.stringMatching(/^[a-p]$/), fc.constantFrom(...Object.values(RANK))),
})
const drafts = fc.dictionary(fc.constantFrom('a/x', 'a/y', 'b/x', 'c/x'), draft)
/** Devices without an Instance. */
const arrivals = fc.dictionary(
  fc.constantFrom('a/x', 'a/y', 'b/x', 'c/x', 'd/x'),
  fc.uniqueArray(fc.stringMatching(/^[A-Z]$/)),
)
const bounds = fc.record({
  perConfiguration: fc.integer({ min: 1, max: 12 }),
  perNode: fc.integer({ min: 1, max: 30 }),
  slots: fc.integer({ min: 1, max: 60 }),
})

/** The ids that one pass over all devices admits, while there is room. */
function expectedIds(
  given: Readonly<Record<string, Draft>>,
  { perConfiguration, perNode, slots }: DeviceBounds,
): ReadonlyMap<string, readonly string[]> {
  const taken = new Map<string, number>()
  const expected = new Map(Object.keys(given).map((key): [string, string[]] => [key, []]))
  const all = Object.entries(given).flatMap(([key, { capacity, ranks }]) =>
    Object.entries(ranks).map(([id, rank]) => ({
      key,
      id,
      capacity,
      order: `${rank} ${id} ${key}`,
    })),
  )
  for (const { key, id, capacity } of all.sort((a, b) => (a.order < b.order ? -1 : 1))) {
    const namespace = key.slice(0, 1)
    const after = [
      { room: key, most: perConfiguration, amount: 1 },
      { room: `${namespace} devices`, most: Math.ceil(perNode / 2), amount: 1 },
      { room: `${namespace} slots`, most: Math.ceil(slots / 2), amount: capacity },
      { room: 'devices', most: perNode, amount: 1 },
      { room: 'slots', most: slots, amount: capacity },
    ].map((each) => ({ ...each, sum: (taken.get(each.room) ?? 0) + each.amount }))
    if (after.some(({ sum, most }) => sum > most)) continue
    for (const { room, sum } of after) taken.set(room, sum)
    expected.get(key)?.push(id)
  }
  return expected
}

describe('the devices that are admitted', () => {
  it('keep within each bound, in use first, then by id, and stay when others come', () => {
    fc.assert(
      fc.property(drafts, arrivals, bounds, (given, later, limits) => {
        const listed = listedOf(given)
        const admitted = idsOf(listed, limits)
        const sorted = (ids: ReadonlyMap<string, readonly string[]>) =>
          Object.fromEntries([...ids].map(([key, each]) => [key, each.toSorted()]))
        expect(sorted(admitted)).toEqual(sorted(expectedIds(given, limits)))
        for (const [key, { leftOut, devices }] of admitDevices(listed, limits))
          expect(leftOut?.devices ?? 0).toBe(
            (listed.get(key)?.listed.devices.size ?? 0) - devices.size,
          )

        const more: Record<string, Draft> = { ...given }
        for (const [key, ids] of Object.entries(later)) {
          const { capacity = 1, ranks = {} } = given[key] ?? {}
          const arrived = Object.fromEntries(ids.map((id) => [id, RANK.new]))
          more[key] = { capacity, ranks: { ...ranks, ...arrived } }
        }
        const after = idsOf(served(listedOf(more), admitted), limits)
        for (const [key, ids] of admitted)
          expect(after.get(key)).toEqual(expect.arrayContaining([...ids]))
      }),
    )
  })

  const flood = (count: number) => ({
    capacity: 1,
    ranks: Object.fromEntries(
      Array.from({ length: count }, (_, index) => [`0-${index}`, RANK.new]),
    ),
  })
  const few = { capacity: 1, ranks: { x: RANK.new, y: RANK.new } }

  it.each([
    ['Configuration', { 'a/x': flood(900), 'a/y': few }, 'perConfiguration'],
    ['namespace', { 'a/x': flood(400), 'a/z': flood(400), 'b/y': few }, 'perNamespace'],
    [
      'namespace with many slots',
      { 'a/x': { ...flood(400), capacity: 100 }, 'b/y': few },
      'slotsPerNamespace',
    ],
  ])('are all of another %s, however many devices one lists', (_, given, bound) => {
    const limits = { perConfiguration: 400, perNode: 1000, slots: 10_000 }
    const admitted = admitDevices(listedOf(given), limits)
    const [flooded, ...others] = [...admitted.values()].sort(
      (a, b) => b.devices.size - a.devices.size,
    )
    expect([flooded?.leftOut?.bound, others.at(-1)?.devices.size]).toEqual([bound, 2])
  })
})
