import { describe, expect, it } from 'vitest'
import { shownItem } from '../../server/shown-item.js'
import { configurationNamed, deviceNamed, MemorySource } from '../../testing/memory-source.js'
import { type DeviceMap, deviceMap, edgesOf, relatedTo } from './device-map.js'
import { type Items, NO_ITEMS, withChanges } from './store.js'

function itemsOf(source: MemorySource): Items {
  return withChanges(
    NO_ITEMS,
    [...source.keys()].map((key) => {
      const item = source.item(key)
      return [key, item === undefined ? null : shownItem(item)]
    }),
  )
}

/** A Configuration with so many devices. */
function withDevices(source: MemorySource, configuration: string, count: number): void {
  source.putObject(configurationNamed(configuration, 'udev'))
  for (let index = 0; index < count; index++)
    source.putObject(
      deviceNamed(`${configuration}-${index}`, { NAME: `device ${index}` }, { configuration }),
    )
}

const titles = ({ items }: DeviceMap, column: number) =>
  items.filter((item) => item.column === column).map(({ title }) => title)

describe('the map', () => {
  it('has the way of a device from its handler to its broker, in boxes and in words', () => {
    const source = new MemorySource()
    source.putObject(configurationNamed('lab', 'udev'))
    source.putObject(deviceNamed('lab-1', { NAME: 'scale' }, { used: 1 }), { phase: 'running' })
    const map = deviceMap(itemsOf(source))
    expect(map.items.map(({ column, title }) => [column, title])).toEqual([
      [2, 'scale'],
      [4, 'broker running'],
      [1, 'lab'],
      [0, 'udev'],
      [3, 'node-a'],
    ])
    expect(map.paths).toHaveLength(1)
    expect(map.paths[0]).toHaveLength(5)
    const words = map.items.map(({ relation }) => relation)
    expect(words).toEqual([
      'of lab; seen by node-a; broker running',
      'uses scale',
      'asks udev; 0 devices',
      'finds devices for lab',
      'sees 1 device',
    ])
  })

  it('ends the way of a Configuration that has no devices', () => {
    const source = new MemorySource()
    source.putObject(configurationNamed('lab', 'udev'))
    const map = deviceMap(itemsOf(source))
    expect(map.paths).toEqual([['handler udev', 'configuration plant/lab']])
    expect(map.rows).toBe(1)
  })

  it('shows devices with a problem first, and counts all that have no box of their own', () => {
    const source = new MemorySource()
    withDevices(source, 'lab', 1000)
    const broken = deviceNamed('lab-999', { NAME: 'device 999' })
    source.putObject(broken, { phase: 'failed', reason: 'no answer' })
    const map = deviceMap(itemsOf(source))
    expect(titles(map, 2)).toEqual([
      'device 999',
      ...[0, 1, 2, 3, 4].map((index) => `device ${index}`),
      '994 more devices',
    ])
    expect(map.items.find(({ title }) => title === '994 more devices')?.href).toBe(
      '/devices?configuration=plant%2Flab',
    )
    expect(titles(map, 3)).toEqual(['node-a'])
    expect(map.items.find(({ column }) => column === 3)?.relation).toBe('sees 1,000 devices')
  })

  it('shows more devices of a chosen Configuration, and only that', () => {
    const source = new MemorySource()
    withDevices(source, 'lab', 1000)
    withDevices(source, 'other', 3)
    const map = deviceMap(itemsOf(source), 'plant/lab')
    expect(titles(map, 1)).toEqual(['lab'])
    expect(titles(map, 2)).toHaveLength(61)
    expect(titles(map, 2).at(-1)).toBe('940 more devices')
  })

  it('says how many Configurations it leaves out', () => {
    const source = new MemorySource()
    for (let index = 0; index < 100; index++) withDevices(source, `lab-${index}`, 0)
    expect(deviceMap(itemsOf(source))).toMatchObject({ leftOut: 60, rows: 40 })
    expect(deviceMap(itemsOf(source), 'plant/lab-99')).toMatchObject({ leftOut: 0, rows: 1 })
  })

  it('gives each box of a column a row of its own', () => {
    const source = new MemorySource()
    for (const [index, count] of [0, 5, 20, 0, 1, 8].entries())
      withDevices(source, `lab-${index}`, count)
    const { items, rows } = deviceMap(itemsOf(source))
    for (const column of [0, 1, 2, 3, 4]) {
      const own = items.filter((item) => item.column === column).map(({ row }) => row)
      for (const [index, row] of own.slice(1).entries())
        expect(row - (own[index] ?? row)).toBeGreaterThanOrEqual(1)
      for (const row of own) expect(row).toBeLessThanOrEqual(rows - 1)
    }
  })

  it('follows the ways through one device, and not those of other devices of its node', () => {
    const source = new MemorySource()
    withDevices(source, 'lab', 2)
    const map = deviceMap(itemsOf(source))
    expect([...relatedTo(map.paths, 'device plant/lab-0')].sort()).toEqual([
      'configuration plant/lab',
      'device plant/lab-0',
      'handler udev',
      'node node-a',
    ])
    const lit = edgesOf(map, 'device plant/lab-0').filter(({ isLit }) => isLit)
    expect(lit.map(({ to }) => to.id).sort()).toEqual([
      'configuration plant/lab',
      'device plant/lab-0',
      'node node-a',
    ])
    expect(edgesOf(map, 'node node-a').every(({ isLit }) => isLit)).toBe(true)
    expect(edgesOf(map, undefined).some(({ isLit }) => isLit)).toBe(false)
  })
})
