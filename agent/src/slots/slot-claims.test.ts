import type { SlotName } from '@akrijs/api'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import type { SlotClaim } from '../cluster/cluster.js'
import { ObjectStore } from '../cluster/object-store.js'
import { noopObserver } from '../report/observer.js'
import { instanceWith, NODE, resourcesOf, servedWith, slot } from '../testing/objects.js'
import { SlotBook } from './slot-book.js'
import { SlotClaims } from './slot-claims.js'

const [A, B, C] = [slot(0), slot(1), slot(2)] as const
const { one, any } = resourcesOf(servedWith())

let clock: ManualClock
let instances: ObjectStore<ReturnType<typeof instanceWith>>
let book: SlotBook
let claims: SlotClaims
let done: string[]
/** The answer to a claim. */
let answer: (slot: SlotName) => Promise<SlotClaim>

beforeEach(() => {
  clock = new ManualClock(1_000_000)
  done = []
  answer = async () => ({ outcome: 'claimed' })
  instances = new ObjectStore()
  instances.put(instanceWith({}, { capacity: 3 }))
  book = new SlotBook({ cluster: { instances }, node: NODE, kubelet: { pods: undefined }, clock })
  serve()
  claims = new SlotClaims({
    cluster: {
      claimSlot: (_instance, which, usage) => {
        done.push(`claim ${which} ${usage}`)
        return answer(which)
      },
      releaseSlot: async (_instance, which, usage) => {
        done.push(`release ${which} ${usage}`)
        return 'released'
      },
    },
    clock,
    book,
    observer: noopObserver,
    directories: {
      open: async (_instance, which) => {
        done.push(`open ${which}`)
        return `/reports/${which}`
      },
    },
  })
})

const serve = () => book.serve(servedWith({ capacity: 3 }))
const allocate = (...requests: SlotName[][]) => claims.allocate(one, requests)
const doneTo = (what: string) => done.filter((each) => each.startsWith(what))

describe('an allocation', () => {
  it('R31 R68 has the slots of each container, with a claim and a directory per slot', async () => {
    // One of them is this node's already.
    answer = async (which) =>
      which === B ? { outcome: 'taken', by: 'node-a' } : { outcome: 'claimed' }
    const allocations = await allocate([A, B], [C], [B])
    const slots = allocations.map(({ annotations }) => Object.values(annotations))
    expect(slots).toEqual([[A, B], [C], [B]])
    const mounted = allocations.map(({ mounts }) => mounts[0]?.hostPath)
    expect(mounted).toEqual([A, C, B].map((each) => `/reports/${each}`))
    const claimed = [A, B, C].map((each) => `claim ${each} node-a`)
    expect(done).toEqual([...claimed, ...[A, B, C].map((each) => `open ${each}`)])
    expect(book.allocations.list().map(({ id }) => id)).toEqual([A, B, C])
  })

  it('R18 R68 R87 R112 A17 that fails releases its claims, and no earlier one', async () => {
    answer = async (which) =>
      which === C
        ? { outcome: 'taken', by: 'node-b' }
        : which === A
          ? { outcome: 'taken', by: 'node-a' }
          : { outcome: 'claimed' }
    await expect(allocate([A], [B, C])).rejects.toThrow(`slot ${C} was just taken by node node-b`)
    expect([doneTo('release'), doneTo('open')]).toEqual([[`release ${B} node-a`], []])
    answer = async (which) => ({ outcome: which === C ? 'gone' : 'claimed' })
    done = []
    await expect(allocate([A, B, C])).rejects.toThrow(`cam-8120fe or its slot ${C} is gone`)
    expect(doneTo('release')).toEqual([`release ${A} node-a`, `release ${B} node-a`])
    expect(book.allocations.list()).toEqual([])
  })

  it('A17 R68 at both levels is refused if its device goes during the claim', async () => {
    for (const [resource, id] of [[one, A] as const, [any, '0'] as const]) {
      serve()
      answer = async () => {
        book.withdraw(servedWith(), true)
        return { outcome: 'claimed' }
      }
      done = []
      await expect(claims.allocate(resource, [[id]])).rejects.toThrow('cam-8120fe was removed')
      expect(done.map((each) => each.split(' ')[0])).toEqual(['claim', 'release'])
      expect(book.allocations.list()).toEqual([])
    }
  })

  it('R85 of any device is chosen again after a lost race, ten times', async () => {
    let others = 0
    answer = async (which) => {
      if (others++ > 0) return { outcome: 'claimed' }
      instances.put(instanceWith({ [which]: 'node-b' }, { capacity: 3 }))
      return { outcome: 'taken', by: 'node-b' }
    }
    const [allocation] = await claims.allocate(any, [['0']])
    expect(Object.values(allocation?.annotations ?? {})).toEqual([`C:0:${B}`])
    answer = async () => ({ outcome: 'gone' })
    done = []
    await expect(claims.allocate(any, [['1']])).rejects.toThrow('claimed the chosen slots first')
    expect(doneTo('claim')).toHaveLength(10)
  })
})

describe('the writes of this process to slots', () => {
  beforeEach(() => {
    answer = async (which) => {
      await clock.sleep(100)
      if (which === A) throw new TypeError('no answer')
      return { outcome: 'claimed' }
    }
  })

  it('A17 R84 wait for the write before, also if that one fails', async () => {
    const failing = expect(allocate([A])).rejects.toThrow('no answer')
    const release = claims.exclusively(() => Promise.reject(new TypeError('not released')))
    const failed = expect(release).rejects.toThrow('not released')
    const next = allocate([B])
    await clock.advance(99)
    expect(doneTo('claim')).toEqual([`claim ${A} node-a`])
    await clock.advance(101)
    await Promise.all([failing, failed, next])
    expect(doneTo('claim')).toEqual([`claim ${A} node-a`, `claim ${B} node-a`])
  })

  it('R84 R92 find the slots of the request before as young as its end', async () => {
    const unanswered = allocate([B, C])
    await clock.advance(100)
    const seen = claims.exclusively(async () => book.allocations.list())
    await clock.advance(100)
    await unanswered
    const claimedAt = 1_000_200
    expect(await seen).toMatchObject([
      { slot: B, claimedAt },
      { slot: C, claimedAt },
    ])
  })
})
