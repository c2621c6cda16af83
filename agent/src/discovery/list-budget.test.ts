import type { Configuration } from '@akrijs/api'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import type { ObjectStore } from '../cluster/object-store.js'
import { configuration, DiscoveryHarness, ManualEndpoint } from '../testing/discovery-harness.js'

let world: DiscoveryHarness
let clock: ManualClock
let configurations: ObjectStore<Configuration>

beforeEach(() => {
  world = new DiscoveryHarness()
  ;({ clock, configurations } = world)
})

afterEach(async () => {
  await world.discovery.close()
})

describe('the bounds of devices', () => {
  let endpoint: ManualEndpoint

  beforeEach(async () => {
    configurations.put(configuration('default'))
    endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
  })

  it('hold for the lists that are read: a burst, and then one list in 200 ms', async () => {
    const seen: string[] = []
    world.discovery.onChange(() => seen.push(world.found().join()), new AbortController().signal)
    for (let index = 0; index < 200; index++) {
      endpoint.give(`id-${index}`)
      await clock.advance(1)
    }
    const read = new Set(seen).size
    expect(read).toBeGreaterThanOrEqual(50)
    expect(read).toBeLessThanOrEqual(52)
    await clock.advance(400)
    // The newest list counts.
    expect(world.found()).toEqual(['id-199'])
  })

  it('let a list of many devices count as several lists', async () => {
    const seen: string[] = []
    world.discovery.onChange(() => seen.push(world.found().join()), new AbortController().signal)
    for (let index = 0; index < 20; index++) {
      endpoint.giveList({ devices: [{ id: `id-${index}` }], leftOut: 100_000 })
      await clock.advance(1)
    }
    expect(new Set(seen)).toEqual(new Set(['id-0']))
  })

  it('let a list count by its new or changed properties and mounts too', async () => {
    const mount = { hostPath: '/a', containerPath: '/a', readOnly: true }
    const device = { id: 'a', mounts: Array(30_000).fill(mount) }
    const read = (lists: number) => eventually(() => expect(world.listsRead).toBe(lists))
    // Of a burst of 50 lists, the first takes 31, and each other one.
    for (let list = 1; list <= 20; list++) {
      endpoint.list(device, { id: `other-${list}` })
      await read(list)
    }
    endpoint.list({ ...device, mounts: [...device.mounts, mount] })
    await read(21)
    endpoint.give('b')
    await clock.advance(6000)
    expect(world.listsRead).toBe(21)
    await clock.advance(400)
    await read(22)
  })
})
