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

it('counts devices that have not changed as a tenth of the others', async () => {
  const devices = Array.from({ length: 30_000 }, (_, index) => ({ id: `${index}` }))
  world.discovery = world.make({ perConfiguration: 40_000, perNode: 80_000, slots: 80_000 })
  configurations.put(configuration('default'))
  const endpoint = new ManualEndpoint('told@a')
  world.registry.register(endpoint)
  world.discovery.start()
  await clock.advance(0)
  // A burst of 50: the first list counts 31, the others 4.
  for (const count of [1, 2, 3, 4, 5, 6]) {
    endpoint.list(...devices, { id: `other-${count}` })
    await eventually(() => expect(world.found()).toContain(`other-${count}`))
  }
  endpoint.give('rest')
  await clock.advance(0)
  expect(world.listsRead).toBe(6)
  await clock.advance(200)
  await eventually(() => expect(world.found()).toEqual(['rest']))
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

  it('let a list of many properties and mounts count as several lists', async () => {
    const mount = { hostPath: '/a', containerPath: '/a', readOnly: true }
    const device = { id: 'a', mounts: Array(55_000).fill(mount) }
    endpoint.list(device)
    await clock.advance(0)
    await eventually(() => expect(world.listsRead).toBe(1))
    endpoint.give('b')
    // Six more than the burst.
    await clock.advance(1000)
    expect(world.listsRead).toBe(1)
    await clock.advance(1000)
    await eventually(() => expect(world.listsRead).toBe(2))
  })
})
