import { AkriError, defineError, errorFields, messageOf, silentLogger } from '@akrijs/runtime'
import { describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { followDiscovery, openDiscovery } from './discovery.js'
import { InvalidDeviceListError } from './errors.js'
import type { DeviceList } from './handler/device.js'
import { InvalidDetailsError } from './handler/errors.js'
import { type DiscoverContext, defineDiscoveryHandler } from './handler/handler.js'
import { DiscoveryProperties } from './handler/properties.js'
import type { ReportedDevices } from './reported-devices.js'

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
  const leftOut: string[][] = []
  const schema = { '~standard': { version: 1, vendor: 'test', validate } } as const
  const handler = defineDiscoveryHandler({ name: 'test', shared: false, details: schema, discover })
  const request = {
    details,
    properties: new DiscoveryProperties(),
    signal: stop.signal,
    log: silentLogger,
    onLeftOut: ({ devices }: ReportedDevices) => leftOut.push(devices.map(({ id }) => id)),
  }
  return { stop, handler, lists: openDiscovery(handler, request), leftOut }
}

const fail = () => {
  throw new TypeError('refused')
}

const idsOf = (list: DeviceList | undefined) => list?.map(({ id }) => id)

describe('openDiscovery', () => {
  it('lets other work go on while it checks a list of thousands of devices', async () => {
    let turns = 0
    const count = () => {
      turns++
      immediate = setImmediate(count)
    }
    let immediate = setImmediate(count)
    const devices = Array.from({ length: 50_000 }, (_, index) => ({
      id: `device-${index}`,
      properties: { SERIAL: `serial-${index}` },
    }))
    let before = 0
    const { stop, lists } = open(async function* () {
      before = turns
      yield devices
    })
    const { value } = await lists.next()
    const during = turns - before
    clearImmediate(immediate)
    stop.abort()
    expect(value).toHaveLength(devices.length)
    expect(during).toBeGreaterThan(1)
  })

  it('passes on what a handler left out of a list, before the list, when it changes', async () => {
    const { stop, lists, leftOut } = open(async function* ({ leaveOut }) {
      yield []
      for (const id of ['a', 'b']) leaveOut(id, 'too far away')
      yield []
      for (const id of ['a', 'b']) leaveOut(id, 'too far away')
      yield [{ id: 'c' }]
      leaveOut('b', 'too far away')
      yield [{ id: 'c' }, { id: 'a' }]
      yield [{ id: 'c' }, { id: 'a' }, { id: 'b' }]
    })
    let list = await lists.next()
    while (list.value?.length !== 3) list = await lists.next()
    expect(leftOut).toEqual([['a', 'b'], ['b'], []])
    stop.abort()
  })

  it('logs at debug what a handler reported, each time that it changes', async () => {
    const { handler, stop } = open(async function* ({ leaveOut, reportProblem, remark }) {
      leaveOut('b', 'too far away', 'at 10.0.0.7')
      yield []
      leaveOut('b', 'too far away', 'at 10.0.0.7')
      reportProblem('a', 'credential refused')
      remark('no events')
      yield [{ id: 'a' }]
      yield [{ id: 'a' }]
    })
    const logged: object[] = []
    const log = {
      ...silentLogger,
      debug: (fields: object, message: string) => logged.push({ ...fields, message }),
    }
    const request = { details: '', properties: new DiscoveryProperties(), log, signal: stop.signal }
    let lists = 0
    for await (const _ of followDiscovery(handler, request)) if (++lists === 3) stop.abort()
    const leftOut = { id: 'b', reason: 'too far away', detail: 'at 10.0.0.7' }
    expect(logged).toMatchObject([
      { devices: [leftOut], reasons: { 'too far away': 1 }, message: 'devices left out' },
      {
        devices: [{ id: 'a', reason: 'credential refused' }],
        reasons: { 'credential refused': 1 },
        message: 'device problems',
      },
      { remarks: ['no events'], message: 'discovery remarks' },
      { remarks: [], message: 'discovery remarks' },
    ])
  })

  it('follows reports that change alone, with the same devices as before', async () => {
    const { handler, stop } = open(async function* ({ leaveOut, reportProblem }) {
      yield [{ id: 'a' }]
      reportProblem('a', 'credential refused')
      yield [{ id: 'a' }]
      reportProblem('a', 'credential refused')
      yield [{ id: 'a' }]
      reportProblem('a', 'credential refused')
      leaveOut('b', 'too far away')
      yield [{ id: 'a' }]
    })
    const request = {
      details: '',
      properties: new DiscoveryProperties(),
      signal: stop.signal,
      log: silentLogger,
    }
    const seen: [devices: unknown, problems: number, leftOut: number][] = []
    for await (const { devices, problems, leftOut } of followDiscovery(handler, request)) {
      seen.push([devices, problems.devices.length, leftOut.devices.length])
      if (leftOut.devices.length > 0) stop.abort()
    }
    expect(seen.map(([, ...counts]) => counts)).toEqual([
      [0, 0],
      [1, 0],
      [1, 1],
    ])
    expect(new Set(seen.map(([devices]) => devices)).size).toBe(1)
  })

  it('has an empty list of a handler that returned without a list', async () => {
    const { stop, lists } = open(async function* ({ signal }) {
      if (signal.aborted) yield [{ id: 'a' }]
    })
    let first: unknown
    void lists.next().then(({ value }) => {
      first = value
    })
    await eventually(() => expect(first).toEqual([]))
    stop.abort()
  })

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
    const refused = twins.lists.next()
    await expect(refused).rejects.toBeInstanceOf(InvalidDeviceListError)
    await expect(refused).rejects.toThrow(/^handler test: .*"a"/)
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

  it('keeps an error with a code of its author as the cause', async () => {
    class BusError extends defineError('AKRI_ERR_BUS', 'transient') {}
    const cause = new BusError('no bus')
    const { lists } = open(async function* () {
      yield* []
      throw cause
    })
    const error: unknown = await lists.next().catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'AKRI_ERR_HANDLER_FAILED', cause })
    expect(messageOf(error)).toBe('handler test failed: AKRI_ERR_BUS no bus')
  })

  it.each<[string, () => unknown, RegExp]>([
    ['nothing', () => undefined, /^handler test failed: undefined was thrown$/],
    ['an object', () => ({ status: 401 }), /^handler test failed: \{ status: 401 \}$/],
    [
      'a Proxy',
      () => new Proxy(new Error('x'), { get: fail, has: fail }),
      /^handler test failed: /,
    ],
    [
      'an error whose message cannot be read',
      () => Object.defineProperty(new Error('x'), 'message', { get: fail }),
      /^handler test failed: /,
    ],
  ])('names the handler that throws %s', async (_, thrown, message) => {
    const { lists } = open(async function* () {
      yield* []
      throw thrown()
    })
    const error: unknown = await lists.next().catch((reason: unknown) => reason)
    expect(error).toMatchObject({ code: 'AKRI_ERR_HANDLER_FAILED' })
    expect(messageOf(error)).toMatch(message)
    expect(errorFields(error)).toMatchObject({ code: 'AKRI_ERR_HANDLER_FAILED' })
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
