import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import type { Change, Uevent } from './device-monitor.js'
import { UeventBurst } from './uevent-burst.js'

let clock: ManualClock
let stop: AbortController
let gathering: UeventBurst
/** The reported changes and their times. */
let told: { readonly at: number; readonly change: Change }[]
let telling: Promise<void>

beforeEach(async () => {
  clock = new ManualClock()
  stop = new AbortController()
  gathering = new UeventBurst({ clock, quietMs: 20, ceilingMs: 80 }, stop.signal)
  told = []
  telling = (async () => {
    for await (const change of gathering) told.push({ at: clock.monotonicMs(), change })
  })()
  await clock.advance(0)
})

afterEach(async () => {
  stop.abort()
  await telling
})

const uevent = (number: number): Uevent => ({
  source: 'kernel',
  action: 'add',
  devpath: `/devices/${number}`,
  properties: new Map(),
})

const numbers = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index)

/** Adds events at an interval in milliseconds. */
async function burst(first: number, last: number, everyMs: number): Promise<void> {
  for (const number of numbers(first, last)) {
    gathering.add(uevent(number))
    await clock.advance(everyMs)
  }
}

const changeOf = (first: number, last: number): Change => ({
  kind: 'events',
  events: numbers(first, last).map(uevent),
})

describe('a burst of device events', () => {
  it('becomes one change of ten events in order, after 20 ms without an event', async () => {
    await burst(1, 10, 2)
    expect(told).toEqual([])
    await clock.advance(100)
    expect(told).toEqual([{ at: 18 + 20, change: changeOf(1, 10) }])
  })

  it('becomes two changes if it pauses', async () => {
    await burst(1, 2, 5)
    await clock.advance(50)
    await burst(3, 4, 5)
    await clock.advance(50)
    expect(told.map(({ change }) => change)).toEqual([changeOf(1, 2), changeOf(3, 4)])
  })

  it('without an end is reported every 80 ms', async () => {
    await burst(1, 30, 10)
    await clock.advance(100)
    expect(told.map(({ at }) => at).slice(0, 3)).toEqual([80, 160, 240])
    expect(told.flatMap(({ change }) => (change.kind === 'events' ? change.events : []))).toEqual(
      numbers(1, 30).map(uevent),
    )
  })

  it('keeps a thousand events', async () => {
    for (const number of numbers(1, 1000)) gathering.add(uevent(number))
    await clock.advance(100)
    expect(told).toEqual([{ at: 20, change: changeOf(1, 1000) }])
  })

  it('becomes a rescan with more than a thousand events, and restarts after it', async () => {
    for (const number of numbers(1, 1001)) gathering.add(uevent(number))
    await clock.advance(100)
    expect(told).toEqual([
      { at: 20, change: { kind: 'rescan', reason: 'a burst has more than 1000 events' } },
    ])
    await burst(1, 1, 100)
    expect(told.slice(1)).toEqual([{ at: 120, change: changeOf(1, 1) }])
  })

  it('reports a rescan immediately, without earlier events', async () => {
    gathering.rescan('the first look')
    await clock.advance(0)
    expect(told).toEqual([{ at: 0, change: { kind: 'rescan', reason: 'the first look' } }])
    gathering.add(uevent(1))
    gathering.rescan('events were lost')
    await clock.advance(100)
    expect(told.slice(1)).toEqual([
      { at: 20, change: { kind: 'rescan', reason: 'events were lost' } },
    ])
  })

  it('can end early and leaves no timer behind', async () => {
    gathering.add(uevent(1))
    await clock.advance(1)
    stop.abort()
    await telling
    expect([told, clock.sleeping]).toEqual([[], []])
  })
})
