import type { SlotName } from '@akrijs/api'
import { objectKey } from '@akrijs/kube/objects'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import type { SlotClaim } from '../cluster/cluster.js'
import { noopObserver } from '../report/observer.js'
import { SlotClaims } from './slot-claims.js'

const [A, B] = ['cam-8120fe-0', 'cam-8120fe-1'] as [SlotName, SlotName]
const target = (slot: SlotName) => ({
  instance: objectKey('default', 'cam-8120fe'),
  slot,
  usage: 'node-a',
  device: 'a',
})

let clock: ManualClock
let claims: SlotClaims
let done: string[]
let answer: (slot: SlotName) => Promise<SlotClaim>

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  done = []
  answer = async () => ({ outcome: 'claimed' })
  claims = new SlotClaims({
    cluster: {
      claimSlot: (_instance, slot) => answer(slot),
      releaseSlot: async (_instance, slot) => {
        done.push(`released ${slot}`)
        return 'released'
      },
    },
    clock,
    observer: noopObserver,
    directories: {
      prepare: (_instance, slot) => void done.push(`prepared ${slot}`),
      discard: (_instance, slot) => void done.push(`discarded ${slot}`),
    },
  })
})

const request = (...slots: SlotName[]) =>
  claims.forRequest('instance', async (claim) => {
    const results = []
    for (const slot of slots) results.push(await claim(target(slot)))
    return results
  })

describe('the claims of this process', () => {
  it('R84 wait for the work on the same slot, and do not wait for another slot', async () => {
    const slow = async () => {
      await clock.sleep(100)
      done.push('restored')
    }
    answer = async (slot) => {
      done.push(`claimed ${slot}`)
      return { outcome: 'claimed' }
    }
    const running = [claims.restore(A, slow), request(B, A)]
    await clock.advance(0)
    expect(done).toEqual([`prepared ${B}`, `claimed ${B}`, `prepared ${A}`])
    await clock.advance(100)
    await Promise.all(running)
    expect(done.slice(3)).toEqual(['restored', `claimed ${A}`])
  })

  it('A17 wait for the request before, also if that one fails', async () => {
    answer = async (slot) => {
      await clock.sleep(100)
      if (slot === A) throw new TypeError('no answer')
      done.push(`claimed ${slot}`)
      return { outcome: 'claimed' }
    }
    const failing = expect(request(A)).rejects.toThrow('no answer')
    const next = request(B)
    await clock.advance(100)
    expect(done).toEqual([`prepared ${A}`, `discarded ${A}`, `prepared ${B}`])
    await clock.advance(100)
    await Promise.all([failing, next])
    expect(done.at(-1)).toBe(`claimed ${B}`)
  })

  it('R84 let a slot be released after a failure of the work before', async () => {
    const failing = claims.restore(A, () => Promise.reject(new TypeError('no answer')))
    const released = claims.release(A, clock.monotonicMs(), async () => 'released')
    await expect(failing).rejects.toThrow('no answer')
    expect(await released).toBe('released')
  })

  it('R84 R92 keep a slot from a release that was planned before their end', async () => {
    const unanswered = claims.forRequest('instance', async (claim) => {
      await claim(target(A))
      await clock.sleep(5000)
    })
    const release = (since: number) => claims.release(A, since, async () => 'released')
    await clock.advance(1000)
    expect(claims.lastClaimed(A)).toBe(1_001_000)
    expect(await release(1_001_000)).toBeUndefined()
    await clock.advance(4000)
    await unanswered
    await clock.advance(1000)
    expect(claims.lastClaimed(A)).toBe(1_005_000)
    expect(await release(1_005_000)).toBeUndefined()
    expect(await release(1_005_001)).toBe('released')
  })

  it.each<[string, () => Promise<SlotClaim>, boolean]>([
    ['of a free slot', async () => ({ outcome: 'claimed' }), true],
    ['of a slot that this node has', async () => ({ outcome: 'taken', by: 'node-a' }), true],
    ['that another node was faster with', async () => ({ outcome: 'taken', by: 'node-b' }), false],
    ['of a slot that does not exist', async () => ({ outcome: 'gone' }), false],
    ['that fails', () => Promise.reject(new TypeError('no answer')), false],
  ])(
    'R68 a claim %s prepares the directory, and keeps it only with the slot',
    async (_, result, isHeld) => {
      answer = async () => {
        expect(done).toEqual([`prepared ${A}`])
        return result()
      }
      const [claimed] = await request(A).catch(() => [])
      expect(claimed?.held ?? false).toBe(isHeld)
      expect(done).toEqual(isHeld ? [`prepared ${A}`] : [`prepared ${A}`, `discarded ${A}`])
    },
  )

  it('A17 R68 are released if their request fails, with their directories', async () => {
    const failing = claims.forRequest('configuration', async (claim) => {
      for (const slot of [A, B]) await claim(target(slot))
      throw new TypeError('no slot is left')
    })
    await expect(failing).rejects.toThrow('no slot is left')
    expect(done.slice(2).sort()).toEqual([
      `discarded ${A}`,
      `discarded ${B}`,
      `released ${A}`,
      `released ${B}`,
    ])
  })
})
