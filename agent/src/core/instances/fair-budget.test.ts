import fc from 'fast-check'
import { expect, it } from 'vitest'
import { FairBudget } from './fair-budget.js'

const REFILL_MS = 10

function make(burst: number) {
  let now = 0
  const clock = { monotonicMs: () => now }
  const advance = (ms: number) => {
    now += ms
  }
  return { clock, advance, budget: new FairBudget<number>({ clock, burst, refillMs: REFILL_MS }) }
}

/** Takes until the budget refuses, and returns how often. */
function takeAll(budget: FairBudget<number>, user: number): number {
  for (let taken = 0; ; taken++) if (budget.take(user) > 0) return taken
}

const users = fc.array(fc.integer({ min: 0, max: 5 }), { maxLength: 200 })

it('users that need half of a budget together never wait, in whatever order they come', () => {
  fc.assert(
    fc.property(users, (order) => {
      const { budget } = make(2 * order.length)
      for (const user of order) expect(budget.take(user)).toBe(0)
    }),
  )
})

it('a budget gives no more than its burst and its refills, whoever asks', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 50 }),
      fc.array(fc.tuple(fc.integer({ min: 0, max: 5 }), fc.nat(30)), { maxLength: 200 }),
      (burst, steps) => {
        const { clock, advance, budget } = make(burst)
        let taken = 0
        for (const [user, pauseMs] of steps) {
          advance(pauseMs)
          if (budget.take(user) === 0) taken++
          expect(taken).toBeLessThanOrEqual(burst + clock.monotonicMs() / REFILL_MS)
        }
      },
    ),
  )
})

it('a user that owes nothing gets a share at once, whatever others take', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 0, max: 3 }),
      fc.array(fc.nat(100), { maxLength: 50 }),
      (others, pauses) => {
        const { advance, budget } = make(256)
        const takeOthers = () => {
          for (let user = 1; user <= others; user++) takeAll(budget, user)
        }
        takeOthers()
        for (const pauseMs of pauses) {
          advance(pauseMs)
          takeOthers()
        }
        expect(takeAll(budget, 0)).toBeGreaterThanOrEqual(256 / 2 ** (others + 1) - others)
      },
    ),
  )
})

it('a single user gets half of the burst at once, and then all refills', () => {
  const { advance, budget } = make(100)
  expect(takeAll(budget, 1)).toBe(50)
  for (let round = 0; round < 200; round++) {
    advance(REFILL_MS)
    expect(takeAll(budget, 1)).toBe(1)
  }
})

it('refills go to all waiting users: the last gets more than half a share', () => {
  const { advance, budget } = make(90)
  for (const user of [1, 2, 3]) takeAll(budget, user)
  const taken = [0, 0, 0]
  for (let round = 0; round < 300; round++) {
    advance(10 * REFILL_MS)
    for (const user of [0, 1, 2]) taken[user] = (taken[user] ?? 0) + takeAll(budget, user + 1)
  }
  for (const each of taken) expect(each).toBeGreaterThan(500)
})
