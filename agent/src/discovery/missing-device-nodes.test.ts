import type { Device } from '@akrijs/runtime/handler'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { DiscoveryHarness, key, type ManualEndpoint } from '../testing/discovery-harness.js'

let world: DiscoveryHarness
let clock: ManualClock

beforeEach(() => {
  world = new DiscoveryHarness()
  ;({ clock } = world)
})

afterEach(() => world.discovery.close())

describe('a device node that the kernel does not name', () => {
  const withNode = (id: string): Device => {
    const path = `/dev/${id}`
    return { id, deviceSpecs: [{ hostPath: path, containerPath: path, permissions: 'rw' }] }
  }
  let endpoint: ManualEndpoint

  beforeEach(async () => {
    endpoint = await world.begin()
  })

  it.each([
    ['because it does not answer', false, /before the kernel has named/],
    ['because the node comes later', true, /no device node of this name/],
  ])('%s is offered as soon as it has a name, without a new list', async (_why, complete, text) => {
    world.kernel.complete = complete
    await world.list(endpoint, withNode('video0'), withNode('video1'))
    await world.list(await world.register('told@b'), 'other')
    expect(world.unhealthy()).toEqual(['video0', 'video1'])
    expect(world.refusals()).toEqual([expect.stringMatching(text), expect.stringMatching(text)])
    const changed = vi.fn()
    world.discovery.onChange(changed, new AbortController().signal)
    await clock.advance(10_000)
    expect(changed).not.toHaveBeenCalled()
    world.kernel.present.add('/dev/video0').add('/dev/video1')
    await clock.advance(10_000)
    expect(world.unhealthy()).toEqual([])
    expect(world.found()).toEqual(['video0', 'video1', 'other'])
    expect(changed).toHaveBeenCalledWith(key)
    const device = world.discovery.deviceSet(key).devices.get('video0')?.device
    expect(device).toMatchObject(withNode('video0'))
    // Nothing is left to ask for.
    expect(clock.sleeping).toEqual([])
  })

  it('is asked for with growing pauses, and with short ones after another list', async () => {
    await world.list(endpoint, withNode('video0'))
    const after = async (ms: number) => {
      world.kernel.asked = 0
      await clock.advance(ms)
      return world.kernel.asked
    }
    expect(await after(1000)).toBe(1)
    expect(await after(1999)).toBe(0)
    expect(await after(1)).toBe(1)
    expect(await after(3600_000)).toBeLessThan(20)
    expect(await after(3600_000)).toBe(12)
    endpoint.list(withNode('video0'), withNode('video1'))
    expect(await after(0)).toBe(1)
    expect(await after(1000)).toBe(1)
    // Another reason that does not pass by itself.
    endpoint.list({ ...withNode('video0'), properties: { PATH: '/x' } })
    expect(await after(0)).toBe(1)
    expect(await after(3600_000)).toBe(0)
    expect(clock.sleeping).toEqual([])
  })

  it('is offered after a restart of the agent, although its handler is away', async () => {
    world.kernel.present.add('/dev/video0')
    await world.list(endpoint, withNode('video0'))
    world.kernel = { present: new Set(), complete: false, asked: 0 }
    await world.restart()
    expect(world.unhealthy()).toEqual(['video0'])
    world.kernel.present.add('/dev/video0')
    await clock.advance(1000)
    expect(world.unhealthy()).toEqual([])
  })

  it('of a list from before does not replace a newer list, and leaves no timer', async () => {
    endpoint.list(withNode('video0'))
    await clock.advance(999)
    let answer: () => void = () => expect.fail()
    world.kernel.answer = new Promise((resolve) => {
      answer = resolve
    })
    await clock.advance(1)
    delete world.kernel.answer
    await world.list(endpoint, 'other')
    world.kernel.present.add('/dev/video0')
    answer()
    await clock.advance(300_000)
    expect(world.found()).toEqual(['other'])
    await world.list(endpoint, withNode('video1'))
    await world.discovery.close()
    expect(clock.sleeping).toEqual([])
  })
})
