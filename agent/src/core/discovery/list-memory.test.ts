import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { EndpointList } from './device-ageing.js'
import { deviceUnits, UNIT_BYTES } from './device-units.js'
import { trimLists } from './list-memory.js'

const device = fc
  .record({ id: fc.constantFrom(...'abcdefghijkl'), units: fc.integer({ min: 1, max: 3 }) })
  .map(({ id, units }) => ({ id, properties: { T: 'x'.repeat((units - 1) * UNIT_BYTES) } }))
const devices = fc.uniqueArray(device, { selector: ({ id }) => id, maxLength: 12 })
const lists = fc
  .array(fc.option(devices, { nil: undefined }), { maxLength: 6 })
  .map((all) => all.map((each, index) => listOf(`e${index}`, each)))

function listOf(endpoint: string, listed: EndpointList['devices']): EndpointList {
  return {
    endpoint,
    shared: true,
    devices: listed,
    leftOut: 0,
    remembered: false,
    lostSince: undefined,
  }
}

/** The first list that has a device describes it. */
function servedOf(all: readonly EndpointList[], ids: readonly string[]) {
  const served = new Map<string, { readonly endpoint: string }>()
  for (const { endpoint, devices: listed = [] } of all)
    for (const { id } of listed)
      if (ids.includes(id) && !served.has(id)) served.set(id, { endpoint })
  return served
}

const sum = (numbers: readonly number[]) => numbers.reduce((total, each) => total + each, 0)

it('trimmed lists keep within their memory, and keep what is served as it is', () => {
  const ids = fc.uniqueArray(fc.constantFrom(...'abcdefghijkl'))
  fc.assert(
    fc.property(lists, ids, fc.nat(20), fc.nat(2), (before, servedIds, more, lost) => {
      // The devices of the first lists are no longer served: their handlers are away for too long.
      const served = servedOf(before.slice(lost), servedIds)
      const described = before.flatMap(({ endpoint, devices: listed = [] }) =>
        listed.filter(({ id }) => served.get(id)?.endpoint === endpoint),
      )
      const most = sum(described.map(deviceUnits)) + more
      const changed = trimLists(before, most, served, () => 1)
      const after = before.map((list) => changed.get(list) ?? list)
      const kept = after.flatMap((list) => list.devices ?? [])
      expect(sum(kept.map(deviceUnits))).toBeLessThanOrEqual(most)
      expect(kept).toEqual(expect.arrayContaining(described))
      const idsOf = (all: readonly EndpointList[]) =>
        new Set(all.flatMap((list) => (list.devices ?? []).map(({ id }) => id)))
      const forgotten = sum(after.map((list) => list.forgotten ?? 0))
      expect(forgotten).toBe(idsOf(before).size - idsOf(after).size)
    }),
  )
})

it('lists keep a second description of each device before a third description of any', () => {
  const same = () => ['a', 'b', 'c'].map((id) => ({ id }))
  const before = ['x', 'y', 'z'].map((endpoint) => listOf(endpoint, same()))
  const changed = trimLists(before, 6, servedOf(before, ['a', 'b', 'c']), () => 1)
  expect(before.map((list) => (changed.get(list) ?? list).devices?.length)).toEqual([3, 3, 0])
})

it('lists keep a second description of an open stream before those of ended streams', () => {
  const same = () => ['a', 'b', 'c'].map((id) => ({ id }))
  const before = ['x', 'y', 'z'].map((endpoint) => {
    return { ...listOf(endpoint, same()), lostSince: endpoint === 'z' ? undefined : 0 }
  })
  const changed = trimLists(before, 6, servedOf(before, ['a', 'b', 'c']), () => 1)
  expect(before.map((list) => (changed.get(list) ?? list).devices?.length)).toEqual([3, 0, 3])
})
