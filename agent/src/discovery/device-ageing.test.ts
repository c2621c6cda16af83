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
/** From before a restart, at that time. */
const remembered = (endpoint: string, ids: string[], since: number): EndpointList => ({
  ...list(endpoint, ids, since),
  remembered: true,
})
const ids = (lists: EndpointList[], now: number, waitingSince?: number) => {
  const { devices, complete } = ageDevices(lists, now, options, waitingSince)
  return {
    complete,
    devices: [...devices.values()].map(
      ({ device, healthy }) => `${device.id}${healthy ? '' : '!'}`,
    ),
  }
}

describe('the devices of a Configuration', () => {
  it('are those of the list of an open stream', () => {
    expect(ids([list('a', ['1', '2'])], 1000)).toEqual({ complete: true, devices: ['1', '2'] })
    expect(ids([list('a', [])], 1000)).toEqual({ complete: true, devices: [] })
  })

  it('A2 A3 stay when their handler is lost, become unhealthy, and go later', () => {
    const lost = [list('a', ['1'], 1000)]
    expect(ids(lost, 1029)).toEqual({ complete: true, devices: ['1'] })
    expect(ids(lost, 1030)).toEqual({ complete: true, devices: ['1!'] })
    expect(ids(lost, 1299)).toEqual({ complete: true, devices: ['1!'] })
    expect(ids(lost, 1300)).toEqual({ complete: true, devices: [] })
  })

  it('A3 of one handler follow its lists at once, although another handler is lost', () => {
    expect(ids([list('a', ['1']), list('b', ['3'], 1000)], 1010)).toEqual({
      complete: true,
      devices: ['1', '3'],
    })
    expect(ids([list('a', []), list('b', ['3'], 1000)], 1010)).toEqual({
      complete: true,
      devices: ['3'],
    })
  })

  it('R104 of a list from the checkpoint are incomplete: it may be outdated', () => {
    const lists = [list('a', ['1']), remembered('b', ['3'], 1000)]
    expect(ids(lists, 1010)).toEqual({ complete: false, devices: ['1', '3'] })
    expect(ids(lists, 1300)).toEqual({ complete: true, devices: ['1'] })
  })

  it('A3 are not gone before a handler has come, and are gone if none comes for long', () => {
    expect(ids([], 1000, 900).complete).toBe(false)
    expect(ids([], 1200, 900).complete).toBe(true)
  })

  it('are incomplete before the first list of an open stream', () => {
    expect(ids([list('a', undefined, 1000), list('b', ['1'])], 1010)).toEqual({
      complete: false,
      devices: ['1'],
    })
  })

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
