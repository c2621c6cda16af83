import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { configuration, DiscoveryHarness, key } from '../testing/discovery-harness.js'

let world: DiscoveryHarness
let clock: ManualClock

beforeEach(() => {
  world = new DiscoveryHarness()
  ;({ clock } = world)
})

afterEach(() => world.discovery.close())

const devices = () => [...world.discovery.deviceSet(key).devices.values()]

describe('the devices of the checkpoint', () => {
  it('R104 are there at once, and go if their handler does not list them', async () => {
    await world.list(await world.begin(), '1', '2')
    await world.restart()
    expect(world.found()).toEqual(['1', '2'])
    expect(world.discovery.deviceSet(key).complete).toBe(false)
    await world.list(await world.register('told@a'), '2')
    expect(world.found()).toEqual(['2'])
  })

  it('stay in the checkpoint if the agent ends early, and go with the Configuration', async () => {
    await world.list(await world.begin(), '1')
    const snapshot = world.discovery.snapshot()
    await world.discovery.close()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    expect(world.discovery.snapshot()).toEqual(snapshot)
    world.configurations.remove(key)
    world.discovery.start()
    expect(world.discovery.snapshot()).toEqual({})
  })

  it('are not those of a Configuration that is created again, before or after', async () => {
    await world.list(await world.begin(), '1')
    const snapshot = world.discovery.snapshot()
    world.configurations.put(configuration('default', '', 'another'))
    expect(world.found()).toEqual([])
    await world.discovery.close()
    world.discovery = world.make()
    await world.discovery.restore(snapshot)
    world.discovery.start()
    expect(world.found()).toEqual([])
  })

  it('are checked by the rules, as those of a list are', async () => {
    const state = () => devices().map(({ device, healthy, refusal }) => [device, healthy, refusal])
    const endpoint = await world.begin()
    await world.list(endpoint, { id: '1', properties: { URL: 'u', LD_PRELOAD: '/x.so' } })
    const before = state()
    const refused = { properties: { URL: 'u' } }
    expect(before).toMatchObject([[refused, false, expect.stringContaining('LD_PRELOAD')]])
    await world.restart()
    expect(state()).toEqual(before)
  })
})

it('A5 a device is described by its first endpoint, also after a restart', async () => {
  const urls = () => devices().map(({ device }) => device.properties?.URL)
  const described = (URL: string) => ({ id: '1', properties: { URL } })
  world.configurations.put(configuration('default'))
  world.discovery.start()
  const first = await world.register('told@z')
  await world.list(first, described('first'))
  await world.list(await world.register('told@a'), described('second'))
  expect(urls()).toEqual(['first'])
  // The first endpoint does not see the device for a moment.
  await world.list(first)
  await world.list(first, described('first'))
  expect(urls()).toEqual(['first'])
  // The first endpoint is replaced by its next process.
  await world.fail(first)
  world.registry.drop(first)
  await clock.advance(60_000)
  expect([urls(), world.unhealthy()]).toEqual([['first'], []])
  await world.register(first)
  await world.list(first, described('moved'))
  expect(urls()).toEqual(['moved'])

  await world.restart()
  await world.list(await world.register('told@a'), described('second'))
  expect(urls()).toEqual(['moved'])
})
