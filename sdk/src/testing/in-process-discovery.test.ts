import { aborted, currentClock, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { eventually } from '../../../test/support/eventually.js'
import type { DeviceList } from '../handler/device.js'
import { InvalidDetailsError } from '../handler/errors.js'
import { type DiscoverContext, defineDiscoveryHandler } from '../handler/handler.js'
import { deviceMap, every, withTimeLimit } from '../index.js'
import { discover, type InProcessOptions } from './in-process-discovery.js'

const Details = z.strictObject({ url: z.string().default('none') }).nullable()

function open(
  run: (context: DiscoverContext<z.infer<typeof Details>>) => AsyncIterable<DeviceList>,
  details: unknown = {},
  options: InProcessOptions = {},
) {
  const handler = defineDiscoveryHandler({
    name: 'sensor',
    shared: true,
    details: Details,
    discover: run,
  })
  return discover(handler, details, options)
}

const never = () => new Promise<never>(() => {})
/** Longer than any wait of the SDK. */
const LONG_MS = 10_000_000

describe('discover', () => {
  it('gives the lists of a handler with all members of its devices', async () => {
    const session = open(
      async function* ({ details, properties }) {
        yield [{ id: details?.url ?? '', properties: { TOKEN: properties.text('token') ?? '' } }]
      },
      { url: 'http://hall/' },
      { properties: { token: 'x' } },
    )
    // Tests of authors compare with `assert.deepEqual` of node:assert/strict: plain objects.
    expect(await session.next()).toStrictEqual([
      { id: 'http://hall/', properties: { TOKEN: 'x' }, mounts: [], deviceSpecs: [] },
    ])
  })

  it.each([[{}], [{ clock: systemClock }]])(
    'does not keep the process running by the waits of its handler: %j',
    async (options) => {
      const timers = vi.spyOn(globalThis, 'setTimeout')
      onTestFinished(() => timers.mockRestore())
      const waits: Promise<unknown>[] = []
      const session = open(
        async function* ({ signal }) {
          waits.push(currentClock().sleep(LONG_MS, signal), withTimeLimit(LONG_MS, signal, aborted))
          yield []
          yield* deviceMap({ firstAfter: 2 * LONG_MS }).lists({ signal })
        },
        {},
        options,
      )
      await session.next()
      const refs = () =>
        timers.mock.calls.flatMap(([, ms], call) =>
          // A list can be due a little sooner: the time since its map was made counts.
          ms !== undefined && ms >= LONG_MS ? timers.mock.results[call]?.value.hasRef() : [],
        )
      await eventually(() => expect(refs()).toEqual([false, false, false]))
      await session.close()
      await Promise.allSettled(waits)
    },
  )

  it('takes the text of discoveryDetails, and refuses details as an agent does', async () => {
    const first = open(async function* ({ details }) {
      yield [{ id: details?.url ?? '' }]
    }, 'url: http://hall/')
    expect(await first.next()).toMatchObject([{ id: 'http://hall/' }])
    let isCalled = false
    const second = open(
      async function* () {
        isCalled = true
        yield []
      },
      { ulr: 'x' },
    )
    const error: unknown = await second.next().catch((thrown: unknown) => thrown)
    expect(InvalidDetailsError.is(error)).toBe(true)
    expect(error).toMatchObject({ message: expect.stringContaining('ulr') })
    await second.close()
    expect(isCalled).toBe(false)
  })

  it('moves `every` in an unchanged handler by the clock of the test', async () => {
    const clock = new ManualClock()
    let ids = ['hall']
    await using session = open(
      async function* ({ signal }) {
        for await (const _ of every('1h', { signal: AbortSignal.any([signal]) }))
          yield ids.map((id) => ({ id }))
      },
      {},
      { clock },
    )
    expect(await session.next()).toMatchObject([{ id: 'hall' }])
    ids = ['hall', 'door']
    await clock.advance(3_599_999)
    expect(session.pending).toBe(0)
    await clock.advance(1)
    expect(await session.next()).toMatchObject([{ id: 'hall' }, { id: 'door' }])
  })

  it('moves time limits by the clock of the test, and has its own time', async () => {
    const clock = new ManualClock(5000)
    const session = open(
      async function* ({ signal }) {
        yield [{ id: String(currentClock().monotonicMs()) }]
        await withTimeLimit(3000, signal, async (limited) => {
          await new Promise((_, reject) =>
            limited.addEventListener('abort', () => reject(limited.reason)),
          )
        })
      },
      {},
      { clock },
    )
    expect(await session.next()).toMatchObject([{ id: '5000' }])
    await clock.advance(3000)
    await expect(session.next()).rejects.toMatchObject({ name: 'TimeoutError' })
  })

  it('runs two discoveries by two clocks, and the test by the clock of the machine', async () => {
    const clocks = [new ManualClock(1), new ManualClock(2)]
    const sessions = clocks.map((clock) =>
      open(
        async function* ({ signal }) {
          for await (const _ of every(10, { signal }))
            yield [{ id: String(currentClock().monotonicMs()) }]
        },
        {},
        { clock },
      ),
    )
    for (const session of sessions) await session.next()
    await clocks[1]?.advance(10)
    expect(await sessions[1]?.next()).toMatchObject([{ id: '12' }])
    expect(sessions[0]?.pending).toBe(0)
    expect(currentClock().wallMs()).toBeGreaterThan(1e12)
    for (const session of sessions) await session.close()
  })

  it('gives what the handler reports about devices with each list', async () => {
    const session = open(async function* ({ leaveOut, reportProblem, remark }) {
      leaveOut('b', 'HTTP status 401', 'realm x')
      reportProblem('a', 'credential refused')
      remark('no events')
      yield [{ id: 'a' }]
      yield [{ id: 'a' }]
    })
    expect(session.reports).toEqual([])
    await session.next()
    expect(session.leftOut).toEqual([{ id: 'b', reason: 'HTTP status 401', detail: 'realm x' }])
    expect(session.problems).toEqual([{ id: 'a', reason: 'credential refused' }])
    expect(session.remarks).toEqual(['no events'])
    expect(session.reports).toEqual([
      { reason: 'no events', count: 0, ids: [], listed: false },
      { reason: 'credential refused', count: 1, ids: ['a'], listed: true },
      { reason: 'HTTP status 401', count: 1, ids: ['b'], listed: false },
    ])
    await session.next()
    expect([session.leftOut, session.problems, session.remarks]).toEqual([[], [], []])
  })

  it('checks each list by the rules of an agent, and skips equal lists', async () => {
    const session = open(async function* () {
      yield [{ id: 'a' }]
      yield [{ id: 'a' }]
      yield [{ id: 'b', mounts: [{ hostPath: 'relative', containerPath: '/x' }] }]
    })
    expect(await session.next()).toMatchObject([{ id: 'a' }])
    await expect(session.next()).rejects.toMatchObject({
      code: 'AKRI_ERR_INVALID_DEVICE_LIST',
      message: expect.stringContaining('mounts[0].hostPath'),
    })
  })

  it('throws the same error as the handler, with the place in the handler', async () => {
    const failure = new TypeError('no such sensor')
    const session = open(async function* () {
      yield [{ id: 'a' }]
      throw failure
    })
    await session.next()
    await expect(session.next()).rejects.toBe(failure)
    expect(failure.stack).toContain(import.meta.filename)
    await session.close()
  })

  it('ends with the handler: first all its lists, or an empty list', async () => {
    const lists: string[][] = []
    const session = open(async function* () {
      yield [{ id: 'a' }]
      yield [{ id: 'b' }]
    })
    for await (const list of session) lists.push(list.map(({ id }) => id))
    expect(lists).toEqual([['a'], ['b']])
    await expect(session.next()).rejects.toMatchObject({ status: 'OK' })

    const silent = open(async function* () {
      yield* []
    })
    expect(await silent.next()).toEqual([])
    await expect(silent.next()).rejects.toMatchObject({
      status: 'OK',
      message: expect.stringContaining('has returned'),
    })
  })

  it('refuses a list that the handler returns, and does not yield', async () => {
    const session = open(async function* () {
      yield []
      return [{ id: 'hall' }]
    })
    expect(await session.next()).toEqual([])
    await expect(session.next()).rejects.toThrow(
      "handler sensor: discover returned its list at the end; write 'yield' before each list",
    )
    const closing = open(async function* () {
      yield []
      return Promise.all([undefined, 1])
    })
    for await (const list of closing) expect(list).toEqual([])
  })

  it('aborts the handler at the end of a loop, and waits for its end', async () => {
    const events: string[] = []
    const session = open(async function* ({ signal }) {
      try {
        for await (const round of every('1h', { signal })) yield [{ id: String(round) }]
      } finally {
        await new Promise((resolve) => setImmediate(resolve))
        events.push(`ended, aborted: ${signal.aborted}`)
      }
    })
    for await (const list of session) {
      expect(list).toHaveLength(1)
      break
    }
    expect(events).toEqual(['ended, aborted: true'])
  })

  it('reports a handler that goes on after its signal', async () => {
    const session = open(async function* () {
      try {
        yield [{ id: 'a' }]
      } finally {
        await never()
      }
    })
    await session.next()
    await expect(session.close(20)).rejects.toThrow(
      'handler sensor goes on 20 ms after its signal was aborted',
    )
  })

  it('ends without a call of the handler if it is closed at once', async () => {
    let isCalled = false
    const session = open(async function* () {
      isCalled = true
      yield []
    })
    await session.close()
    expect(isCalled).toBe(false)
    await expect(session.next()).rejects.toMatchObject({ status: 'CANCELLED' })
  })

  it('says which time the handler waits for if no list comes', async () => {
    const clock = new ManualClock()
    await using session = open(
      async function* ({ signal }) {
        for await (const _ of every('10s', { signal })) yield [{ id: 'a' }]
      },
      {},
      { clock },
    )
    await session.next()
    await clock.untilSleeping()
    await expect(session.next(20)).rejects.toThrow(
      'no device list within 20 ms; the handler sleeps for 10000 ms of its clock: ' +
        'call `clock.advance(10000)`',
    )
  })

  it('ends each of two waits for a list: with a list, or at its time limit', async () => {
    await using session = open(async function* ({ signal }) {
      yield [{ id: 'a' }]
      await aborted(signal)
    })
    const waits = await Promise.allSettled([session.next(50), session.next(50)])
    expect(waits).toMatchObject([
      { status: 'fulfilled', value: [{ id: 'a' }] },
      { status: 'rejected', reason: { code: 'AKRI_ERR_SIMULATED_AGENT' } },
    ])
    const late = await Promise.allSettled([session.next(20), session.next(40)])
    expect(late.map(({ status }) => status)).toEqual(['rejected', 'rejected'])
  })

  it('waits without a limit, and refuses a limit that is no time', async () => {
    const found = new AbortController()
    const session = open(async function* () {
      await aborted(found.signal)
      yield [{ id: 'late' }]
      await never()
    })
    const list = session.next(Number.POSITIVE_INFINITY)
    const early = session.next(20)
    await expect(early).rejects.toThrow('no device list within 20 ms')
    found.abort()
    expect(await list).toMatchObject([{ id: 'late' }])
    await expect(session.next(Number.NaN)).rejects.toThrow(/^NaN is not an interval/)
    await expect(session.close(Number.NaN)).rejects.toThrow(/^NaN is not an interval/)
  })

  it('ends a handler that yields changed lists without a pause', async () => {
    let round = 0
    const session = open(async function* ({ signal }) {
      while (!signal.aborted) yield [{ id: String(round++) }]
    })
    await expect.poll(() => session.pending).toBeGreaterThan(1000)
    for (let taken = 0; taken <= 1000; taken++) await session.next()
    await expect(session.next()).rejects.toThrow(/more than 1000 lists wait: handler sensor/)
    await session.close()
    expect(round).toBeLessThan(1100)
  })

  it('refuses an object that defineDiscoveryHandler has not made', () => {
    const definition = { name: 'x', shared: false, details: Details, discover: never }
    // @ts-expect-error a handler has a contract
    expect(() => discover(definition)).toThrow(/defineDiscoveryHandler/)
  })
})
