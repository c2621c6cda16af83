import { defineError } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import * as fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import {
  type RecheckAfter,
  ReconcileQueue,
  type ReconcileQueueOptions,
  type ReconcileResult,
} from './reconcile-queue.js'

class TransientError extends defineError('AKRI_ERR_TEST_TRANSIENT', 'transient') {}
class TerminalError extends defineError('AKRI_ERR_TEST_TERMINAL', 'terminal') {}

let clock: ManualClock
let stop: AbortController
let calls: string[]
let errors: [string, number][]
let ran: Promise<void>
let reconcile: (key: string, recheckAfter: RecheckAfter) => Promise<ReconcileResult>

beforeEach(() => {
  clock = new ManualClock()
  stop = new AbortController()
  calls = []
  errors = []
  reconcile = async () => ({})
})

afterEach(async () => {
  stop.abort()
  await ran
})

function start(
  options: Pick<ReconcileQueueOptions<string>, 'concurrency' | 'gatherMs' | 'groupOf'> = {},
  random = () => 0,
): ReconcileQueue<string> {
  const queue = new ReconcileQueue<string>({
    ...options,
    clock,
    random,
    reconcile: (key, _signal, recheckAfter) => {
      calls.push(key)
      return reconcile(key, recheckAfter)
    },
    onError: (key, _error, retryInMs) => errors.push([key, retryInMs]),
  })
  ran = queue.run(stop.signal)
  return queue
}

/** A reconcile that returns when `release` is called. */
function held(result: ReconcileResult = {}): { release: () => void } {
  const gate: { release: () => void } = { release: () => {} }
  reconcile = () =>
    new Promise((resolve) => {
      gate.release = () => resolve(result)
    })
  return gate
}

describe('the reconcile queue', () => {
  it('makes one call for many waiting additions, and one more for later ones', async () => {
    const queue = start({ concurrency: 1 })
    const gate = held()
    queue.add('a')
    for (let n = 0; n < 10; n++) queue.add('a')
    expect(calls).toEqual(['a'])
    gate.release()
    await clock.advance(0)
    expect(calls).toEqual(['a', 'a'])
    gate.release()
    await clock.advance(0)
    expect(calls).toEqual(['a', 'a'])
  })

  it('gathers the additions of each key before the call', async () => {
    const queue = start({ gatherMs: 100 })
    queue.add('a')
    await clock.advance(60)
    queue.add('a')
    queue.add('b')
    await clock.advance(39)
    expect(calls).toEqual([])
    await clock.advance(1)
    expect(calls).toEqual(['a'])
    queue.add('a')
    await clock.advance(59)
    expect(calls).toEqual(['a'])
    await clock.advance(1)
    expect(calls).toEqual(['a', 'b'])
    await clock.advance(40)
    expect(calls).toEqual(['a', 'b', 'a'])
  })

  it('gathers for the shorter of two times', async () => {
    const queue = start({ gatherMs: 100 })
    queue.add('a', 1000)
    await clock.advance(500)
    queue.add('a')
    queue.add('a', 1000)
    await clock.advance(99)
    expect(calls).toEqual([])
    await clock.advance(1)
    expect(calls).toEqual(['a'])
    queue.add('a', 50)
    queue.add('a', 0)
    await clock.advance(0)
    expect(calls).toEqual(['a', 'a'])
    await clock.advance(1000)
    expect(calls).toEqual(['a', 'a'])
  })

  it('gathers also during a call, and in place of a retry', async () => {
    const queue = start({ gatherMs: 100 })
    const gate = held({ requeueAfterMs: 1000 })
    queue.add('a')
    await clock.advance(100)
    queue.add('a')
    gate.release()
    await clock.advance(99)
    expect(calls).toEqual(['a'])
    reconcile = () => Promise.reject(new TransientError('no answer'))
    await clock.advance(1)
    expect(calls).toEqual(['a', 'a'])
    expect(errors).toEqual([['a', 500]])

    await clock.advance(450)
    queue.add('a')
    // The retry would be due now.
    await clock.advance(50)
    expect(calls).toEqual(['a', 'a'])
    await clock.advance(50)
    expect(calls).toEqual(['a', 'a', 'a'])
  })

  it('gathers for half to all of its time, so that programs do not write together', async () => {
    const rolls = [1, 0.5]
    const queue = start({ gatherMs: 100 }, () => rolls.shift() ?? 0)
    for (const key of ['a', 'b', 'c']) queue.add(key)
    for (const [until, called] of [
      [49, 0],
      [50, 1],
      [74, 1],
      [75, 2],
      [99, 2],
      [100, 3],
    ] as const) {
      await clock.advance(until - clock.monotonicMs())
      expect([until, calls.length]).toEqual([until, called])
    }
  })

  it('gathers no more for a key that waits for its turn', async () => {
    const queue = start({ gatherMs: 100, concurrency: 1 })
    const gate = held()
    queue.add('a')
    queue.add('b')
    await clock.advance(100)
    queue.add('b')
    gate.release()
    await clock.advance(0)
    gate.release()
    await clock.advance(1000)
    expect(calls).toEqual(['a', 'b'])
  })

  it('drops gathered keys when it is stopped', async () => {
    const queue = start({ gatherMs: 100 })
    queue.add('a')
    stop.abort()
    queue.add('b')
    await ran
    await clock.advance(1000)
    expect(calls).toEqual([])
  })

  const groupOf = (key: string) => key.slice(0, 1)

  it('leaves a quarter of its calls to other groups, which take turns', async () => {
    const queue = start({ concurrency: 8, groupOf })
    const gates = new Map<string, () => void>()
    reconcile = (key) => new Promise((resolve) => gates.set(key, () => resolve({})))
    const release = async (key: string) => {
      gates.get(key)?.()
      await clock.advance(0)
    }
    for (let n = 0; n < 20; n++) queue.add(`a${n}`)
    expect(calls).toEqual(['a0', 'a1', 'a2', 'a3', 'a4', 'a5'])
    for (const key of ['b0', 'b1', 'b2', 'c0']) queue.add(key)
    expect(calls.slice(6)).toEqual(['b0', 'b1'])
    await release('a0')
    await release('b0')
    await release('b1')
    expect(calls.slice(8)).toEqual(['c0', 'b2', 'a6'])
    stop.abort()
    for (const key of gates.keys()) await release(key)
  })

  it('leaves a quarter of its calls to others than the groups whose calls are slow', async () => {
    const queue = start({ concurrency: 8, groupOf })
    const gates = new Map<string, () => void>()
    reconcile = (key) =>
      groupOf(key) === 'g'
        ? Promise.resolve({})
        : new Promise((resolve) => gates.set(key, () => resolve({})))
    const releaseAll = async () => {
      const waiting = [...gates.values()]
      gates.clear()
      for (const release of waiting) release()
      await clock.advance(0)
    }
    for (const group of ['a', 'b', 'c']) for (let n = 0; n < 20; n++) queue.add(`${group}${n}`)
    for (const slowCalls of [8, 16]) {
      expect(calls).toHaveLength(slowCalls)
      await clock.advance(5000)
      await releaseAll()
    }
    // Each of the three has had slow calls.
    expect(calls).toHaveLength(22)
    for (let n = 0; n < 50; n++) queue.add(`g${n}`)
    await clock.advance(0)
    expect(calls.slice(22).map(groupOf)).toEqual(Array.from({ length: 50 }, () => 'g'))
    // Calls that still run keep their groups slow.
    await clock.advance(60_000)
    queue.add('g')
    await clock.advance(0)
    expect(calls).toHaveLength(22 + 51)
    stop.abort()
    await releaseAll()
  })

  it('loses no key of any group, runs none twice at once, and leaves no call unused', async () => {
    const key = fc.constantFrom('a1', 'a2', 'a3', 'a4', 'b1', 'b2', 'c1')
    const step = fc.oneof(fc.record({ add: key }), fc.record({ end: fc.nat(10) }))
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 8 }),
        fc.array(step, { maxLength: 60 }),
        async (concurrency, steps) => {
          const stopped = new AbortController()
          const limit = concurrency - Math.floor(concurrency / 4)
          const wanted = new Set<string>()
          const running = new Map<string, () => void>()
          const queue = new ReconcileQueue<string>({
            clock,
            concurrency,
            groupOf,
            reconcile(called) {
              expect(running.has(called)).toBe(false)
              expect(wanted.delete(called)).toBe(true)
              return new Promise((resolve) => running.set(called, () => resolve({})))
            },
            onError: (_key, error) => expect.fail(String(error)),
          })
          const countOf = (of: string) =>
            [...running.keys()].filter((each) => groupOf(each) === groupOf(of)).length
          const end = async (index: number) => {
            const [ended, release] = [...running][index % running.size] ?? []
            if (ended === undefined) return
            running.delete(ended)
            release?.()
            await clock.advance(0)
          }
          const done = queue.run(stopped.signal)
          for (const each of steps) {
            if ('end' in each) await end(each.end)
            else {
              wanted.add(each.add)
              queue.add(each.add)
            }
            expect(queue.depth).toBe(wanted.size)
            expect(running.size).toBeLessThanOrEqual(concurrency)
            for (const each of running.keys()) expect(countOf(each)).toBeLessThanOrEqual(limit)
            const isFree = running.size < concurrency
            for (const each of wanted)
              expect(isFree && !running.has(each) && countOf(each) < limit).toBe(false)
          }
          while (running.size > 0) await end(0)
          expect(wanted).toEqual(new Set())
          stopped.abort()
          await done
        },
      ),
    )
  })

  it('A1 retries with a back-off that doubles to its ceiling, until a success', async () => {
    const queue = start()
    let fail = true
    reconcile = async () => {
      if (fail) throw new TransientError('no answer')
      return {}
    }
    queue.add('a')
    const waits = [500, 1000, 2000, 4000, 8000, 16_000, 30_000, 30_000]
    for (const wait of waits) await clock.advance(wait)
    expect(errors.map(([, retryInMs]) => retryInMs)).toEqual([...waits, 30_000])
    fail = false
    await clock.advance(30_000)
    fail = true
    queue.add('a')
    await clock.advance(0)
    expect(errors.at(-1)).toEqual(['a', 500])
  })

  it('A1 does not wait for the back-off after an addition', async () => {
    const queue = start()
    reconcile = async () => {
      throw new TransientError('no answer')
    }
    queue.add('a')
    await clock.advance(10)
    queue.add('a')
    await clock.advance(0)
    expect(calls).toEqual(['a', 'a'])
    expect(clock.sleeping).toHaveLength(1)
  })

  it('A1 backs off from a bug in one key, and goes on with other keys', async () => {
    const handedOver: unknown[] = []
    const bug = new TypeError('undefined is not a function')
    const queue = new ReconcileQueue<string>({
      clock,
      random: () => 0,
      // Thrown before there is a promise.
      reconcile: (key) => {
        calls.push(key)
        if (key === 'poisoned') throw bug
        return Promise.resolve({})
      },
      onError: (key, error, retryInMs) => handedOver.push([key, error, retryInMs]),
    })
    ran = queue.run(stop.signal)
    queue.add('poisoned')
    queue.add('well')
    await clock.advance(500)
    expect(calls).toEqual(['poisoned', 'well', 'poisoned'])
    expect(handedOver).toEqual([
      ['poisoned', bug, 500],
      ['poisoned', bug, 1000],
    ])
  })

  it('retries a terminal error after minutes: a policy that refuses can change', async () => {
    const queue = start()
    reconcile = async () => {
      throw new TerminalError('no such handler')
    }
    queue.add('a')
    await clock.advance(299_999)
    expect(errors).toEqual([['a', 300_000]])
    reconcile = async () => ({})
    await clock.advance(1)
    expect(calls).toEqual(['a', 'a'])
    await clock.advance(300_000)
    expect(calls).toEqual(['a', 'a'])
  })

  it('calls again after the earliest time that a failed call has named', async () => {
    const queue = start()
    reconcile = async (_key, recheckAfter) => {
      for (const ms of [4000, 2000, undefined]) recheckAfter(ms)
      throw new TerminalError('no such handler')
    }
    queue.add('a')
    await clock.advance(1999)
    expect(calls).toHaveLength(1)
    await clock.advance(1)
    expect(calls).toHaveLength(2)
    expect(errors[0]).toEqual(['a', 2000])
  })

  it('calls again after the time that the result names', async () => {
    const queue = start()
    reconcile = async () => ({ requeueAfterMs: 500 })
    queue.add('a')
    await clock.advance(499)
    expect(calls).toHaveLength(1)
    await clock.advance(1)
    expect(calls).toHaveLength(2)
  })

  it('ends with its signal: waits for running calls, and starts no other', async () => {
    const queue = start({ concurrency: 1 })
    const gate = held()
    queue.add('a')
    queue.add('b')
    let ended = false
    void ran.then(() => {
      ended = true
    })
    stop.abort()
    await clock.advance(0)
    expect(ended).toBe(false)
    gate.release()
    await ran
    expect(calls).toEqual(['a'])
    expect(clock.sleeping).toEqual([])
  })
})
