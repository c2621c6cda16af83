import { expect, it } from 'vitest'
import { ManualEndpoint } from '../testing/discovery-harness.js'
import { HandlerRegistry } from './handler-registry.js'

it('a registry looks for handlers that have left again after a look that failed', async () => {
  const registry = new HandlerRegistry()
  const endpoint = new ManualEndpoint('told@a')
  endpoint.away = true
  registry.register(endpoint)
  const listening = new AbortController()
  registry.onChange(() => {
    throw new TypeError('on purpose')
  }, listening.signal)
  await expect(registry.dropAbsent()).rejects.toThrow('on purpose')
  listening.abort()
  registry.register(endpoint)
  await registry.dropAbsent()
  expect(registry.size).toBe(0)
})
