import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { checked } from '../testing/objects.js'
import { ageDevices, type EndpointList } from './device-ageing.js'

const options = { unhealthyAfterMs: 30, removeAfterMs: 300 }
const list = (endpoint: string, ids: string[] | undefined, lostSince?: number): EndpointList => ({
  endpoint,
  shared: true,
  devices: ids?.map((id) => checked({ id, properties: { by: endpoint } })),
  leftOut: 0,
  remembered: false,
  lostSince,
})

describe('the devices of a Configuration', () => {
  it('A5 are one device for each id, described by its first handler, also a lost one', () => {
    const described = (lists: EndpointList[], now: number) =>
      [...ageDevices(lists, now, options).devices.values()].map(({ device, endpoint, healthy }) => [
        device.properties,
        endpoint,
        healthy,
      ])
    const [first, second] = [list('b', ['1']), list('a', ['1'])]
    expect(described([first, second], 0)).toEqual([[{ by: 'b' }, 'b', true]])
    const lost = { ...first, lostSince: 0 }
    for (const now of [29, 30, 299])
      expect(described([lost, second], now)).toEqual([[{ by: 'b' }, 'b', true]])
    expect(described([lost, second], 300)).toEqual([[{ by: 'a' }, 'a', true]])
    expect(described([lost, { ...second, lostSince: 0 }], 30)).toEqual([[{ by: 'b' }, 'b', false]])
  })

  it('stay refused if the first handler may not give them, also if others list them', () => {
    const refused = { ...list('b', []), devices: [{ id: '1', hash: '', refusal: 'no' }] }
    const { devices } = ageDevices([refused, list('a', ['1'])], 0, options)
    expect(devices.get('1')).toMatchObject({ endpoint: 'b', healthy: false, refusal: 'no' })
  })

  const anyLists = fc
    .uniqueArray(
      fc.record({
        endpoint: fc.constantFrom('a', 'b', 'c'),
        ids: fc.option(fc.array(fc.constantFrom('1', '2', '3')), { nil: undefined }),
        lost: fc.option(fc.nat({ max: 500 }), { nil: undefined }),
        isRemembered: fc.boolean(),
      }),
      { selector: ({ endpoint }) => endpoint },
    )
    .map((entries) =>
      // Only a stream of this process can be open.
      entries.map(({ endpoint, ids: some, lost, isRemembered }) =>
        some === undefined || isRemembered
          ? { ...list(endpoint, some, lost ?? 0), remembered: some !== undefined }
          : list(endpoint, some, lost),
      ),
    )

  it('A2 A3 are those of open and recent lists, incomplete until each endpoint answers', () => {
    fc.assert(
      fc.property(anyLists, fc.nat({ max: 1000 }), (lists, now) => {
        const { devices, complete } = ageDevices(lists, now, options)
        const counting = lists.filter(
          ({ lostSince }) => lostSince === undefined || now < lostSince + options.removeAfterMs,
        )
        const listed = counting.flatMap(({ devices: some = [] }) => some.map(({ id }) => id))
        expect([...devices.keys()].sort()).toEqual([...new Set(listed)].sort())
        expect(complete).toBe(
          counting.every((endpoint) => endpoint.devices !== undefined && !endpoint.remembered),
        )
      }),
    )
  })

  it('change by time only at `changesAt`', () => {
    fc.assert(
      fc.property(anyLists, fc.nat({ max: 1000 }), fc.nat({ max: 1000 }), (all, now, later) => {
        const set = ageDevices(all, now, options)
        const until = set.changesAt ?? Number.POSITIVE_INFINITY
        expect(until).toBeGreaterThan(now)
        const before = Math.min(now + later, until - 1)
        expect(ageDevices(all, before, options)).toEqual(set)
      }),
    )
  })
})
