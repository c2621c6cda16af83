import { AkriError, silentLogger } from '@akrijs/runtime'
import {
  type DeviceList,
  type DiscoverContext,
  DiscoveryProperties,
  defineDiscoveryHandler,
  InvalidDetailsError,
} from '@akrijs/runtime/handler'
import { describe, expect, it } from 'vitest'
import { openDiscovery } from './discovery.js'
import { InvalidDeviceListError } from './errors.js'

type Discover = (context: DiscoverContext<unknown>) => AsyncIterable<DeviceList>
type Validate = (value: unknown) => { value: unknown } | Promise<{ value: unknown }>

function open(
  discover: Discover,
  {
    details = '',
    validate = (value) => ({ value }),
  }: { details?: string; validate?: Validate } = {},
) {
  const stop = new AbortController()
  const schema = { '~standard': { version: 1, vendor: 'test', validate } } as const
  const handler = defineDiscoveryHandler({ name: 'test', shared: false, details: schema, discover })
  const request = {
    details,
    properties: new DiscoveryProperties(),
    signal: stop.signal,
    log: silentLogger,
  }
  return { stop, lists: openDiscovery(handler, request) }
}

const idsOf = (list: DeviceList | undefined) => list?.map(({ id }) => id)

describe('openDiscovery', () => {
  it('keeps the last list of a handler that returned, and ends only with the signal', async () => {
    const { stop, lists } = open(async function* () {
      yield [{ id: 'a' }]
    })
    expect(idsOf((await lists.next()).value ?? undefined)).toEqual(['a'])
    const end = lists.next()
    const first = await Promise.race([
      end,
      new Promise((resolve) => setImmediate(() => resolve('open'))),
    ])
    expect(first).toBe('open')
    stop.abort()
    expect(await end).toEqual({ done: true, value: undefined })
  })

  it('gives only the newest list to a slow reader', async () => {
    let given = 0
    const { stop, lists } = open(async function* () {
      for (; given < 100; given++) yield [{ id: `n${given}` }]
      yield [{ id: 'last' }]
      given = 1000
    })
    await lists.next()
    while (given < 1000) await new Promise((resolve) => setImmediate(resolve))
    expect(idsOf((await lists.next()).value ?? undefined)).toEqual(['last'])
    stop.abort()
  })

  it('runs the finally block of a handler after an abort, and when the reader stops', async () => {
    for (const end of ['abort', 'return'] as const) {
      let told: () => void = () => undefined
      const cleaned = new Promise<void>((resolve) => {
        told = resolve
      })
      const { stop, lists } = open(async function* ({ signal }) {
        try {
          yield [{ id: 'a' }]
          await new Promise((resolve) => signal.addEventListener('abort', resolve))
          yield [{ id: 'too late' }]
        } finally {
          told()
        }
      })
      await lists.next()
      if (end === 'abort') stop.abort()
      else await lists.return()
      await cleaned
      expect((await lists.next()).done).toBe(true)
    }
  })

  it('ends at an abort, even if the handler or its schema never answers', async () => {
    const deaf = open(async function* () {
      await new Promise(() => undefined)
      yield []
    })
    const stuck = open(async function* () {}, { validate: () => new Promise(() => undefined) })
    for (const { stop, lists } of [deaf, stuck]) {
      const next = lists.next()
      setImmediate(() => stop.abort())
      expect((await next).done).toBe(true)
    }
  })

  it('has different errors for wrong details, a wrong list and a handler that throws', async () => {
    await expect(
      open(async function* () {}, { details: 'a: [' }).lists.next(),
    ).rejects.toBeInstanceOf(InvalidDetailsError)
    const twins = open(async function* () {
      yield [{ id: 'a' }, { id: 'a' }]
    })
    await expect(twins.lists.next()).rejects.toBeInstanceOf(InvalidDeviceListError)
    const cause = new TypeError('no bus')
    const thrown = open(async function* () {
      yield* []
      throw cause
    })
    await expect(thrown.lists.next()).rejects.toMatchObject({
      code: 'AKRI_ERR_HANDLER_FAILED',
      cause,
    })
  })

  it('treats a schema that throws as a failure of the handler', async () => {
    const validate = () => {
      throw new TypeError('schema is broken')
    }
    const error: unknown = await open(async function* () {}, { validate })
      .lists.next()
      .catch((reason: unknown) => reason)
    expect(AkriError.is(error) && error.code).toBe('AKRI_ERR_HANDLER_FAILED')
  })
})
