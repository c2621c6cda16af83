import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'
import { type DeviceMapOptions, deviceMap } from './device-map.js'

/** A map with a consumer that keeps the ids of each list. */
function open(options: DeviceMapOptions = {}) {
  const clock = new ManualClock()
  const devices = deviceMap({ clock, ...options })
  const stop = new AbortController()
  const lists: string[][] = []
  const done = (async () => {
    for await (const list of devices.lists({ signal: stop.signal }))
      lists.push(list.map(({ id, properties }) => `${id}${properties?.V ?? ''}`))
  })()
  done.catch(() => undefined)
  return { clock, devices, stop, lists, done }
}

describe('deviceMap', () => {
  it('gives the first list after its time, with all devices until then', async () => {
    const { clock, devices, lists } = open({ firstAfter: '5s' })
    devices.set({ id: 'a' })
    await clock.advance(4_999)
    devices.set({ id: 'b' })
    expect(lists).toEqual([])
    await clock.advance(1)
    expect(lists).toEqual([['a', 'b']])
  })

  it('gives an empty first list if no device has announced itself', async () => {
    const { clock, lists } = open()
    await clock.advance(1_999)
    expect(lists).toEqual([])
    await clock.advance(1)
    expect(lists).toEqual([[]])
  })

  it('gives a complete list for all changes of 100 ms', async () => {
    const { clock, devices, lists } = open()
    devices.set({ id: 'a' })
    devices.set({ id: 'b' })
    await clock.advance(2_000)
    devices.set({ id: 'c' })
    await clock.advance(50)
    expect(devices.delete('a')).toBe(true)
    expect(devices.delete('x')).toBe(false)
    devices.set({ id: 'b', properties: { V: '2' } })
    await clock.advance(49)
    expect(lists).toEqual([['a', 'b']])
    await clock.advance(1)
    expect(lists).toEqual([
      ['a', 'b'],
      ['c', 'b2'],
    ])
    devices.clear()
    await clock.advance(100)
    expect(lists.at(-1)).toEqual([])
    expect(devices.size).toBe(0)
  })

  it('gives at most a list in 100 ms, also to a reader that is busy', async () => {
    const clock = new ManualClock()
    const devices = deviceMap({ clock })
    const lists = devices.lists({ signal: new AbortController().signal })
    const first = lists.next()
    await clock.advance(2_000)
    await first
    devices.set({ id: 'a' })
    let isHere = false
    const second = lists.next().then(() => {
      isHere = true
    })
    await clock.advance(99)
    expect(isHere).toBe(false)
    await clock.advance(1)
    await second
  })

  it('forgets a device that is not set again in time', async () => {
    const { clock, devices, lists } = open({ forgetAfter: '10s' })
    devices.set({ id: 'a' })
    devices.set({ id: 'b' })
    await clock.advance(9_000)
    devices.set({ id: 'a' })
    await clock.advance(999)
    expect(lists).toEqual([['a', 'b']])
    await clock.advance(1)
    expect(lists).toEqual([['a', 'b'], ['a']])
    await clock.advance(9_000)
    expect(lists).toEqual([['a', 'b'], ['a'], []])
    expect(clock.sleeping).toEqual([])
  })

  it('gives no list for a device that is set again without a change', async () => {
    const { clock, devices, lists } = open()
    const changed = { id: 'b', properties: { V: '1' } }
    devices.set({ id: 'a', properties: { V: '1' } })
    devices.set(changed)
    await clock.advance(2_000)
    devices.set({ id: 'a', properties: { V: '1' } })
    await clock.advance(1_000)
    expect(lists).toHaveLength(1)
    changed.properties.V = '2'
    devices.set(changed)
    await clock.advance(100)
    expect(lists.at(-1)).toEqual(['a1', 'b2'])
  })

  it('refuses devices for which a list has no room, and takes them when others have gone', () => {
    const { devices } = open()
    for (let n = 0; n < 10_000; n++) expect(devices.set({ id: String(n) })).toBe(true)
    expect(devices.set({ id: 'more' })).toBe(false)
    expect(devices.set({ id: '1', properties: { V: '2' } })).toBe(true)
    devices.delete('2')
    expect(devices.set({ id: 'more' })).toBe(true)
    devices.clear()
    const large = (id: string) => ({ id, properties: { V: 'x'.repeat(1024 * 1024) } })
    expect(['a', 'b', 'c', 'b', 'd'].map((id) => devices.set(large(id)))).toEqual([
      true,
      true,
      false,
      true,
      false,
    ])
    expect(devices.get('c')).toBeUndefined()
    devices.delete('a')
    expect(devices.set(large('c'))).toBe(true)
  })

  it('has methods that a library can call as they are', () => {
    const { devices } = open()
    const { set, get, delete: remove, clear } = devices
    set({ id: 'a' })
    expect(get('a')).toEqual({ id: 'a' })
    remove('a')
    set({ id: 'b' })
    clear()
    expect(devices.size).toBe(0)
  })

  it('ends with its last changes, or with an error', async () => {
    const ended = open()
    ended.devices.set({ id: 'a' })
    ended.devices.end()
    await ended.done
    expect(ended.lists).toEqual([['a']])

    const failed = open()
    await failed.clock.advance(2_000)
    failed.devices.set({ id: 'a' })
    failed.devices.end(new TypeError('connection lost'))
    failed.devices.end()
    await expect(failed.done).rejects.toThrow('connection lost')
    expect(failed.lists).toEqual([[]])
  })

  it.each([0, 2_000, 2_050])('ends with its signal after %s ms, and keeps no timer', async (ms) => {
    const { clock, devices, stop, done } = open({ forgetAfter: '10s' })
    await clock.advance(ms)
    devices.set({ id: 'a' })
    await clock.advance(0)
    stop.abort()
    await done
    expect(clock.sleeping).toEqual([])
  })

  it('refuses a wrong time', () => {
    expect(() => deviceMap({ forgetAfter: 'soon' })).toThrow(/"soon" is not an interval/)
    expect(() => deviceMap({ firstAfter: 0 })).toThrow(/0 is not an interval/)
  })
})
