import type { ManualClock } from '@akrijs/runtime/testing'
import { DiscoveryProperties } from '@akrijs/sdk/handler'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { MissingPropertyError, PropertyForbiddenError, PropertyRefusedError } from '../errors.js'
import {
  configuration,
  DiscoveryHarness,
  key,
  ManualEndpoint,
} from '../testing/discovery-harness.js'
import { configurationWith } from '../testing/objects.js'

let world: DiscoveryHarness
let clock: ManualClock

beforeEach(() => {
  world = new DiscoveryHarness()
  ;({ clock } = world)
})

afterEach(async () => {
  await world.discovery.close()
  // No timer is left, whatever has happened.
  expect(clock.sleeping).toEqual([])
})

describe('a handler that registers', () => {
  it('A5 has one stream for each Configuration, and makes no work if it registers on', async () => {
    world.configurations.put(configuration('other'))
    const endpoint = await world.begin()
    await world.list(endpoint, '1')
    const changed = vi.fn()
    world.discovery.onChange(changed, new AbortController().signal)
    for (let round = 0; round < 100; round++) {
      await world.register(endpoint)
      await clock.advance(100)
    }
    expect([endpoint.open, endpoint.requests.length, world.registry.size]).toEqual([2, 2, 1])
    expect(changed).not.toHaveBeenCalled()
  })

  it('A5 is asked again when its stream has ended', async () => {
    const endpoint = await world.begin()
    await world.list(endpoint, '1')
    // The agent sees the end of the process before only after the next one has registered.
    await world.register(endpoint)
    await world.fail(endpoint)
    expect([endpoint.open, endpoint.requests.length]).toEqual([1, 2])
    expect(world.found()).toEqual(['1'])
  })

  it('A5 is asked ten times while it is dead, and then once in a second', async () => {
    const endpoint = await world.begin()
    endpoint.away = true
    await world.fail(endpoint)
    const asked = vi.spyOn(endpoint, 'discover')
    const register = async (seconds: number) => {
      asked.mockClear()
      for (let round = 0; round < seconds * 10; round++) {
        await world.register(endpoint)
        await clock.advance(100)
      }
      return asked.mock.calls.length
    }
    expect(await register(10)).toBeLessThanOrEqual(20)
    expect(await register(10)).toBeLessThanOrEqual(11)
    // The flood does not delay the handler itself for longer.
    endpoint.away = false
    await world.register(endpoint)
    await clock.advance(1000)
    expect(endpoint.open).toBe(1)
  })
})

describe('a handler that leaves between two attempts', () => {
  it('is asked at once when it comes back, and has its whole budget of lists', async () => {
    const endpoint = await world.begin()
    await world.list(endpoint, '0')
    for (let round = 0; round < 20; round++) {
      await world.fail(endpoint)
      world.registry.drop(endpoint)
      await world.register(endpoint)
    }
    // Another process can be there, whose answer and reports are not known.
    expect(world.discovery.status(key)?.endpoints[0]?.answer).toBe('missing')
    for (const id of ['1', '2']) await world.list(endpoint, id)
    expect(world.found()).toEqual(['2'])
  })
})

describe('discovery', () => {
  it('backs off from a handler that breaks after each list, until a stream lasts', async () => {
    const endpoint = await world.begin()
    const waits: number[] = []
    for (let round = 0; round < 9; round++) {
      const asked = endpoint.requests.length
      await world.list(endpoint, '1')
      await world.fail(endpoint)
      const since = clock.monotonicMs()
      while (endpoint.requests.length === asked) await clock.advance(100)
      waits.push(clock.monotonicMs() - since)
    }
    expect(waits).toEqual([500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000, 30_000])
    endpoint.list('1')
    await clock.advance(30_000)
    const asked = endpoint.requests.length
    await world.fail(endpoint)
    await clock.advance(500)
    expect(endpoint.requests).toHaveLength(asked + 1)
  })
})

describe('after an edit of the Configuration, a handler', () => {
  it('R57 keeps its stream and its devices if other fields were edited', async () => {
    const endpoint = await world.begin()
    await world.list(endpoint, '1')
    const { spec, ...edited } = configuration('default')
    const brokerSpec = { brokerPodSpec: { containers: [] } }
    world.configurations.put({ ...edited, spec: { ...spec, brokerSpec, capacity: 7 } })
    await clock.advance(0)
    expect(world.discovery.deviceSet(key).complete).toBe(true)
    expect([world.found(), endpoint.requests.length, endpoint.open]).toEqual([['1'], 1, 1])
  })

  it('of another name replaces the devices of the handler before once it answers', async () => {
    await world.list(await world.begin(), '1')
    const { uid } = world.configurations.get(key)?.metadata ?? expect.fail()
    world.configurations.put(configurationWith({ handler: 'second' }, { uid }))
    const second = await world.register(new ManualEndpoint('second@a', 'second'))
    expect(world.found()).toEqual(['1'])
    await world.list(second, '2')
    expect(world.found()).toEqual(['2'])
  })

  it('is asked, also if a Secret could not be read before, and the agent can end', async () => {
    world.resolveProperties = () => new Promise(() => {})
    const endpoint = await world.begin('old')
    expect(endpoint.requests).toEqual([])
    world.resolveProperties = async () => new DiscoveryProperties()
    await world.edit('new')
    expect(endpoint.requests.map(({ details }) => details)).toEqual(['new'])
    world.resolveProperties = () => new Promise(() => {})
    await world.edit('newer')
    await world.discovery.close()
    expect(endpoint.open).toBe(0)
  })

  it('A5 A6 is asked again if it has refused the details, or has registered again', async () => {
    const endpoint = await world.begin('wrong')
    endpoint.fail('invalid-details', 'descriptions is missing')
    await clock.advance(1_000_000)
    expect(endpoint.requests).toHaveLength(1)
    expect(world.state).toEqual({ phase: 'refused', message: 'descriptions is missing' })
    await world.register(endpoint)
    await world.fail(endpoint, 'invalid-details')
    await world.edit('right')
    const asked = endpoint.requests.map(({ details }) => details)
    expect(asked).toEqual(['wrong', 'wrong', 'right'])
  })
})

describe('the properties of a Configuration', () => {
  it('are sent ten times at once, and then once in a second, if they always change', async () => {
    const endpoint = await world.begin()
    for (let change = 0; change < 200; change++) {
      world.propertiesChanged(key)
      await clock.advance(100)
    }
    // The first time, a burst, and 20 s.
    expect(endpoint.requests.length).toBeGreaterThanOrEqual(29)
    expect(endpoint.requests.length).toBeLessThanOrEqual(31)
  })

  it('end a stream if a value is refused by now, and its devices are lost later', async () => {
    const endpoint = await world.begin()
    await world.list(endpoint, '1')
    world.resolveProperties = () => Promise.reject(new PropertyRefusedError('no consent'))
    world.propertiesChanged(key)
    await clock.advance(0)
    expect([endpoint.open, world.found()]).toEqual([0, ['1']])
    await clock.advance(301_000)
    expect([world.found(), endpoint.requests.length]).toEqual([[], 1])
  })

  it.each([
    [new MissingPropertyError('there is no Secret default/lab'), 'MissingProperty'],
    [new PropertyForbiddenError('no Role'), 'PropertyForbidden'],
    [new PropertyRefusedError('Secret factory/lab is in another namespace'), 'PropertyRefused'],
    [new Error('the connection broke'), 'UnreadableProperty'],
  ])('A7 A23 are no failure of the handler, which is not asked: %s', async (error, reason) => {
    world.resolveProperties = () => Promise.reject(error)
    const endpoint = await world.begin()
    expect(world.state).toEqual({ phase: 'failed', reason, message: error.message })
    expect(world.failures).toEqual([])
    world.resolveProperties = async () => new DiscoveryProperties()
    await clock.advance(1000)
    await world.fail(endpoint)
    expect(world.failures).toEqual(['told'])
  })
})

describe('the lists of an endpoint', () => {
  let endpoint: ManualEndpoint

  beforeEach(async () => {
    endpoint = await world.begin()
  })

  it('are read in a burst, and then one in 200 ms; the newest counts', async () => {
    for (let index = 0; index < 200; index++) {
      endpoint.list(`id-${index}`)
      await clock.advance(1)
    }
    expect(world.listsRead).toBe(52)
    await clock.advance(400)
    expect(world.found()).toEqual(['id-199'])
  })

  const mount = { hostPath: '/a', containerPath: '/a', readOnly: true }
  const withMounts = (mounts: number) => ({ id: 'a', mounts: Array(mounts).fill(mount) })
  // A burst of 50 lists, and the list that is read before its budget is missing.
  it.each([
    ['as several if they have many devices', [{ id: 'a' }], 30_000, [], 51 - 30],
    ['as several if they have many mounts', [withMounts(30_000)], 0, [], 51 - 30],
    ['once if few of many have changed', [withMounts(3000)], 0, [withMounts(3000)], 51 - 3],
  ])('count %s', async (_, devices, leftOut, others, read) => {
    endpoint.giveList({ devices, leftOut })
    await clock.advance(0)
    for (let index = 0; index < 100; index++) await world.list(endpoint, ...others, `id-${index}`)
    expect(world.listsRead).toBe(read)
  })
})

describe('the reports of a handler', () => {
  const shown = () => world.discovery.status(key)?.endpoints[0]?.reports?.[0]?.count
  let endpoint: ManualEndpoint
  let changes: number
  const give = async (count: number, ...ids: string[]) => {
    const report = { reason: 'HTTP status 401', count, ids: [], listed: false }
    const devices = ids.map((id) => ({ id }))
    endpoint.giveList({ devices, leftOut: 0, reports: count === 0 ? [] : [report] })
    await clock.advance(0)
  }

  beforeEach(async () => {
    endpoint = await world.begin()
    changes = 0
    let before: number | undefined
    world.discovery.onChange(() => {
      if (shown() !== before) changes++
      before = shown()
    }, new AbortController().signal)
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

  it('are shown with each list of other devices, and those of the present details', async () => {
    await give(3, 'a')
    expect(shown()).toBe(3)
    await give(2, 'a', 'b')
    expect(shown()).toBe(2)
    await world.edit('other')
    expect(shown()).toBeUndefined()
    await give(4)
    expect(shown()).toBe(4)
  })
})
