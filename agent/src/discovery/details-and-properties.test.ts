import type { Configuration } from '@akrijs/api'
import { DiscoveryProperties } from '@akrijs/runtime/handler'
import type { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { ObjectStore } from '../cluster/object-store.js'
import { MissingPropertyError, PropertyForbiddenError, PropertyRefusedError } from '../errors.js'
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

describe('discovery', () => {
  it('A6 asks with the new details after an edit, and keeps the old list until then', async () => {
    configurations.put(configuration('default', 'old'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    configurations.put(configuration('default', 'new'))
    await clock.advance(0)
    expect(endpoint.requests.map(({ details }) => details)).toEqual(['old', 'new'])
    expect(world.found()).toEqual(['1'])
    endpoint.give('2')
    await clock.advance(0)
    expect(world.found()).toEqual(['2'])
  })

  it('R57 keeps stream and devices after any other edit of the Configuration', async () => {
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    const edited = configuration('default')
    const brokers = [
      { brokerPodSpec: { containers: [] } },
      { brokerJobSpec: { template: {} } },
      undefined,
    ]
    for (const brokerSpec of brokers) {
      configurations.put({
        ...edited,
        spec: { ...edited.spec, ...(brokerSpec && { brokerSpec }), capacity: 7 },
      })
      await clock.advance(0)
      expect(world.found()).toEqual(['1'])
      expect(world.discovery.deviceSet(key).complete).toBe(true)
    }
    expect(endpoint.requests).toHaveLength(1)
    expect(endpoint.open).toBe(1)
  })

  it('asks with an edited Configuration, and ends, while a Secret cannot be read', async () => {
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.resolveProperties = () => new Promise(() => {})
    configurations.put(configuration('default', 'old'))
    world.discovery.start()
    await clock.advance(0)
    expect(endpoint.requests).toEqual([])
    world.resolveProperties = async () => new DiscoveryProperties()
    configurations.put(configuration('default', 'new'))
    await clock.advance(0)
    expect(endpoint.requests.map(({ details }) => details)).toEqual(['new'])
    world.resolveProperties = () => new Promise(() => {})
    configurations.put(configuration('default', 'newer'))
    await clock.advance(0)
    await world.discovery.close()
    expect(endpoint.open).toBe(0)
  })

  it('A7 asks again when a Secret changes, and when a missing Secret is created', async () => {
    world.resolveProperties = async () => {
      throw new MissingPropertyError('there is no Secret default/lab')
    }
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    expect(world.discovery.status(key)?.endpoints[0]?.state).toMatchObject({
      phase: 'failed',
      reason: 'MissingProperty',
      message: expect.stringContaining('default/lab'),
    })
    world.resolveProperties = async () => DiscoveryProperties.fromTexts({ token: 'first' })
    await clock.advance(1000)
    expect(endpoint.requests.map(({ properties }) => properties.text('token'))).toEqual(['first'])
    world.resolveProperties = async () => DiscoveryProperties.fromTexts({ token: 'second' })
    world.propertiesChanged(key)
    await clock.advance(0)
    expect(endpoint.requests.map(({ properties }) => properties.text('token'))).toEqual([
      'first',
      'second',
    ])
  })

  it('ends a stream whose value is refused, and loses its devices later', async () => {
    world.resolveProperties = async () => DiscoveryProperties.fromTexts({ token: 's3cret' })
    configurations.put(configuration('default'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.give('1')
    await clock.advance(0)
    expect(endpoint.open).toBe(1)
    world.resolveProperties = () => Promise.reject(new PropertyRefusedError('no consent'))
    world.propertiesChanged(key)
    await clock.advance(0)
    expect(endpoint.open).toBe(0)
    expect(world.discovery.status(key)?.endpoints[0]?.state).toMatchObject({
      reason: 'PropertyRefused',
    })
    await clock.advance(301_000)
    expect(world.found()).toEqual([])
    expect(endpoint.requests).toHaveLength(1)
  })

  it.each([
    [
      new MissingPropertyError('there is no Secret default/lab'),
      'MissingProperty',
      'there is no Secret default/lab',
    ],
    [new PropertyForbiddenError('no Role'), 'PropertyForbidden', 'no Role'],
    [
      new PropertyRefusedError('Secret factory/lab is in another namespace'),
      'PropertyRefused',
      'Secret factory/lab is in another namespace',
    ],
    [new Error('the connection broke'), 'UnreadableProperty', 'the connection broke'],
  ])(
    'A7 A23 says nothing about a handler that is not asked, because of "%s"',
    async (error, reason, message) => {
      world.resolveProperties = () => Promise.reject(error)
      configurations.put(configuration('default'))
      const endpoint = new ManualEndpoint('told@a')
      world.registry.register(endpoint)
      world.discovery.start()
      await clock.advance(0)
      expect(world.discovery.status(key)?.endpoints[0]?.state).toEqual({
        phase: 'failed',
        reason,
        message,
      })
      expect(world.failures).toEqual([])
      world.resolveProperties = async () => new DiscoveryProperties()
      await clock.advance(1000)
      endpoint.fail('failed')
      await clock.advance(0)
      expect(world.failures).toEqual(['told'])
    },
  )

  it('does not ask again with details that the handler refused, until an edit', async () => {
    configurations.put(configuration('default', 'wrong'))
    const endpoint = new ManualEndpoint('told@a')
    world.registry.register(endpoint)
    world.discovery.start()
    await clock.advance(0)
    endpoint.fail('invalid-details', 'descriptions is missing')
    await clock.advance(1_000_000)
    expect(endpoint.requests).toHaveLength(1)
    expect(world.discovery.status(key)?.endpoints[0]?.state).toEqual({
      phase: 'refused',
      message: 'descriptions is missing',
    })
    configurations.put(configuration('default', 'right'))
    await clock.advance(0)
    expect(endpoint.requests.map(({ details }) => details)).toEqual(['wrong', 'right'])
  })
})
