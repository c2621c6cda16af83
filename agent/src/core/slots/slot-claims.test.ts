import type { SlotName } from '@akrijs/api'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { SlotClaims } from './slot-claims.js'

const [A, B] = ['cam-8120fe-0', 'cam-8120fe-1'] as [SlotName, SlotName]

let clock: ManualClock
let claims: SlotClaims
let done: string[]

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  claims = new SlotClaims(clock)
  done = []
})

/** Work that takes 100 ms. */
const work = (name: string) => async () => {
  await clock.sleep(100)
  done.push(name)
}

describe('the claims of this process', () => {
  it('R84 wait for the work on the same slot, and do not wait for another slot', async () => {
    const running = [
      claims.restore(A, work('restore')),
      claims.forRequest(({ claim }) => claim(A, work('claim'))),
      claims.forRequest(({ claim }) => claim(B, work('other'))),
    ]
    await clock.advance(100)
    expect(done.toSorted()).toEqual(['other', 'restore'])
    await clock.advance(100)
    expect(done.at(-1)).toBe('claim')
    await Promise.all(running)
  })

  it('R84 let a slot be released after a failure of the work before', async () => {
    const failing = claims.restore(A, () => Promise.reject(new TypeError('no answer')))
    const released = claims.release(A, clock.monotonicMs(), async () => 'released')
    await expect(failing).rejects.toThrow('no answer')
    expect(await released).toBe('released')
  })

  it('R84 R92 keep a slot from a release that was planned before their end', async () => {
    const request = claims.forRequest(async ({ claim }) => {
      await claim(A, async () => {})
      await clock.sleep(5000)
    })
    const release = (since: number) => claims.release(A, since, async () => 'released')
    await clock.advance(1000)
    expect(claims.lastClaimed(A)).toBe(1_001_000)
    expect(await release(1_001_000)).toBeUndefined()
    await clock.advance(4000)
    await request
    await clock.advance(1000)
    expect(claims.lastClaimed(A)).toBe(1_005_000)
    expect(await release(1_005_000)).toBeUndefined()
    expect(await release(1_005_001)).toBe('released')
  })
})
