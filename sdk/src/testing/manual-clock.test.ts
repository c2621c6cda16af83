import { ManualClock } from '@akrijs/runtime/testing'
import { describe, expect, it } from 'vitest'

describe('ManualClock', () => {
  it('wakes sleepers in order, each at its own time', async () => {
    const clock = new ManualClock(1000)
    const woken: [string, number][] = []
    const sleeper = async (name: string, ms: number) => {
      await clock.sleep(ms)
      woken.push([name, clock.monotonicMs()])
    }
    const all = [sleeper('late', 30), sleeper('early', 10), sleeper('never yet', 31)]
    await clock.advance(30)
    expect(woken).toEqual([
      ['early', 1010],
      ['late', 1030],
    ])
    expect(clock.sleeping).toEqual([1])
    await clock.advance(1)
    await Promise.all(all)
    expect(clock.monotonicMs()).toBe(1031)
  })

  it('wakes a sleeper that sleeps again during an advance', async () => {
    const clock = new ManualClock()
    const times: number[] = []
    const loop = (async () => {
      while (times.length < 3) {
        await clock.sleep(10)
        times.push(clock.monotonicMs())
      }
    })()
    await clock.advance(100)
    await loop
    expect(times).toEqual([10, 20, 30])
  })

  it('rejects with the reason of the signal and forgets the sleeper', async () => {
    const clock = new ManualClock()
    const stop = new AbortController()
    const asleep = clock.sleep(10, stop.signal)
    await clock.untilSleeping()
    stop.abort('enough')
    await expect(asleep).rejects.toBe('enough')
    expect(clock.sleeping).toEqual([])
    await expect(clock.sleep(1, stop.signal)).rejects.toBe('enough')
  })

  it('advances by a text too, and refuses what is no time', async () => {
    const clock = new ManualClock()
    await clock.advance('10s')
    expect(clock.monotonicMs()).toBe(10_000)
    for (const time of [Number.NaN, -1, Number.POSITIVE_INFINITY, 'soon', undefined])
      await expect(Reflect.apply(clock.advance, clock, [time])).rejects.toMatchObject({
        code: 'AKRI_ERR_INVALID_INTERVAL',
      })
    expect(clock.monotonicMs()).toBe(10_000)
  })
})
