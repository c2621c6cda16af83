import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it, vi } from 'vitest'
import { atLeastEvery } from './at-least-every.js'

describe('atLeastEvery', () => {
  it('yields a value at once, and repeats the last value at each interval', async () => {
    const clock = new ManualClock()
    const stop = new AbortController()
    let give = (_: string) => {}
    async function* source() {
      for (;;) {
        yield await new Promise<string>((resolve) => {
          give = resolve
        })
      }
    }
    const values = atLeastEvery(source(), 100, { signal: stop.signal, clock })
    const first = values.next()
    give('a')
    expect(await first).toEqual({ value: 'a', done: false })
    const again = values.next()
    await clock.untilSleeping()
    await clock.advance(100)
    expect(await again).toEqual({ value: 'a', done: false })
    const other = values.next()
    give('b')
    expect(await other).toEqual({ value: 'b', done: false })
    const last = values.next()
    await clock.untilSleeping()
    await clock.advance(100)
    expect(await last).toEqual({ value: 'b', done: false })
  })

  it('ends with its source, and rejects with the error of its source', async () => {
    const clock = new ManualClock()
    const { signal } = new AbortController()
    async function* short() {
      yield 1
    }
    const seen: number[] = []
    for await (const value of atLeastEvery(short(), 100, { signal, clock })) seen.push(value)
    expect(seen).toEqual([1])
    expect(clock.sleeping).toEqual([])
    async function* failing() {
      yield 1
      throw new TypeError('broken')
    }
    const values = atLeastEvery(failing(), 100, { signal, clock })
    await values.next()
    await expect(values.next()).rejects.toThrow('broken')
    expect(clock.sleeping).toEqual([])
  })

  it('waits for the end of its source after an abort, and repeats nothing', async () => {
    const stop = new AbortController()
    let hasClosed = false
    async function* source() {
      try {
        yield 1
        await new Promise((resolve) => stop.signal.addEventListener('abort', resolve))
      } finally {
        // As long as the event loop does not turn, no connection ends.
        await new Promise((resolve) => setImmediate(resolve))
        hasClosed = true
      }
    }
    const clock = new ManualClock()
    const values = atLeastEvery(source(), 100, { signal: stop.signal, clock })
    expect(await values.next()).toEqual({ value: 1, done: false })
    const end = values.next()
    await clock.untilSleeping()
    stop.abort()
    expect(await end).toEqual({ value: undefined, done: true })
    expect(hasClosed).toBe(true)
  })

  it('adds nothing to a value that does not come, however often it repeats', async () => {
    const { signal } = new AbortController()
    const coming = new Promise<IteratorResult<number>>(() => {})
    const reactions = vi.spyOn(coming, 'then')
    const results = [Promise.resolve({ value: 1, done: false } as const), coming]
    const source = {
      [Symbol.asyncIterator]: () => ({ next: () => results.shift() ?? expect.fail('too many') }),
    }
    const clock = new ManualClock()
    const values = atLeastEvery(source, 100, { signal, clock })
    await values.next()
    for (let tick = 0; tick < 100; tick++) {
      const next = values.next()
      await clock.untilSleeping()
      await clock.advance(100)
      await next
    }
    expect(reactions).toHaveBeenCalledTimes(1)
  })
})
