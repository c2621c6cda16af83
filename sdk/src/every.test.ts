import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { deviceMap } from './device-map.js'
import { every } from './every.js'
import { atLeastEvery } from './network/at-least-every.js'

describe('every', () => {
  it('yields at once and then at each interval, until it is aborted', async () => {
    const clock = new ManualClock()
    const stop = new AbortController()
    const times: number[] = []
    const loop = (async () => {
      for await (const _ of every('10s', { signal: stop.signal, clock }))
        times.push(clock.monotonicMs())
    })()
    await clock.advance(25_000)
    stop.abort()
    await loop
    expect(times).toEqual([0, 10_000, 20_000])
    expect(clock.sleeping).toEqual([])
  })

  it('skips the rounds that a slow loop body misses', async () => {
    const clock = new ManualClock()
    const stop = new AbortController()
    const times: number[] = []
    const loop = (async () => {
      for await (const round of every(1000, { signal: stop.signal, clock })) {
        times.push(clock.monotonicMs())
        if (round === 0) await clock.sleep(2500)
      }
    })()
    await clock.advance(4500)
    stop.abort()
    await loop
    expect(times).toEqual([0, 3000, 4000])
  })

  it('goes on at once if its next round is due at the end of the loop body', async () => {
    const clock = new ManualClock()
    const stop = new AbortController()
    const rounds = every('10s', { signal: stop.signal, clock })
    expect(await rounds.next()).toEqual({ value: 0, done: false })
    await clock.advance(10_000)
    expect(await rounds.next()).toEqual({ value: 1, done: false })
    stop.abort()
  })

  it('does not keep the process running while it waits', async () => {
    const timers = vi.spyOn(globalThis, 'setTimeout')
    onTestFinished(() => timers.mockRestore())
    const stop = new AbortController()
    const rounds = every('10s', { signal: stop.signal })
    await rounds.next()
    const next = rounds.next()
    expect(timers.mock.results.map(({ value }) => value.hasRef())).toEqual([false])
    stop.abort()
    expect(await next).toEqual({ value: undefined, done: true })
  })

  it.each(['10', '0s', '-1s', 'soon', '600h', 0, Number.NaN, 2 ** 31])(
    'refuses %s as an interval',
    async (interval) => {
      const rounds = every(interval, {
        signal: new AbortController().signal,
        clock: new ManualClock(),
      })
      await expect(
        (async () => {
          await rounds.next()
          await rounds.next()
        })(),
      ).rejects.toThrow(/is not an interval/)
    },
  )

  it.each<[string, unknown, string]>([
    ['a BigInt', 5n, '5n is not an interval'],
    ['no number', Number.NaN, 'NaN is not an interval'],
    ['no interval', undefined, 'undefined is not an interval'],
  ])('names %s as it is in the code', async (_, interval, message) => {
    const { signal } = new AbortController()
    // @ts-expect-error at run time a handler is JavaScript
    await expect(every(interval, { signal }).next()).rejects.toThrow(message)
  })

  it('and the other loops say that their signal is missing', async () => {
    const missing = 'there is no signal; write'
    for (const options of [undefined, {}, { signal: new AbortController() }]) {
      const calls = [
        // @ts-expect-error there is no signal
        () => every('1s', options),
        // @ts-expect-error there is no signal
        () => atLeastEvery(every('1s', { signal: AbortSignal.abort() }), '1s', options),
        // @ts-expect-error there is no signal
        () => deviceMap().lists(options),
      ]
      for (const call of calls) await expect(call().next()).rejects.toThrow(missing)
    }
  })
})
