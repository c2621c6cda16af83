import type { Configuration } from '@akrijs/api'
import type { DeviceReport } from '@akrijs/runtime/handler'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ObjectStore } from '../cluster/object-store.js'
import {
  configuration,
  DiscoveryHarness,
  key,
  ManualEndpoint,
} from '../testing/discovery-harness.js'

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

describe('the reports of a handler', () => {
  const leftOut = (count: number): DeviceReport => ({
    reason: 'HTTP status 401',
    count,
    ids: [],
    listed: false,
  })
  const shown = () => world.discovery.status(key)?.endpoints[0]?.reports?.[0]?.count
  let endpoint: ManualEndpoint
  let changes: number
  const give = async (count: number, ...ids: string[]) => {
    const devices = ids.map((id) => ({ id }))
    endpoint.giveList({ devices, leftOut: 0, reports: count === 0 ? [] : [leftOut(count)] })
    await clock.advance(0)
  }

  beforeEach(async () => {
    configurations.put(configuration('default'))
    endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    changes = 0
    let before: number | undefined
    world.discovery.onChange(() => {
      if (shown() !== before) changes++
      before = shown()
    }, new AbortController().signal)
  })

  it('are shown with the first list, and with each list of other devices', async () => {
    await give(3, 'a')
    expect(shown()).toBe(3)
    await give(2, 'a', 'b')
    expect(shown()).toBe(2)
  })

  it('are shown within 10 s if only they change, and at most once in 10 s', async () => {
    await give(1)
    for (let second = 0; second < 60; second++) {
      await give(second % 7)
      await clock.advance(1000)
    }
    expect(changes).toBeGreaterThan(3)
    expect(changes).toBeLessThanOrEqual(7)
    await give(9)
    await clock.advance(10_000)
    expect(shown()).toBe(9)
  })

  it('are not shown if the devices are left out for less than 10 s', async () => {
    await give(0, 'a')
    const before = changes
    await give(1, 'a')
    await clock.advance(9000)
    await give(0, 'a', 'b')
    await clock.advance(60_000)
    expect([shown(), changes]).toEqual([undefined, before])
  })

  it('are those of the present details', async () => {
    await give(3)
    configurations.put(configuration('default', 'other'))
    await clock.advance(0)
    expect(shown()).toBeUndefined()
    await give(4)
    expect(shown()).toBe(4)
  })
})
