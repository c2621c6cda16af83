import { describe, expect, it } from 'vitest'
import { SenderBudget, type SenderBudgetOptions } from './sender-budget.js'

const [A, B, C] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'] as const

let now = 0
/** Whether each address may take 1, one after the other. */
function takers(budget: SenderBudget, ...addresses: readonly string[]): boolean[] {
  return addresses.map((address) => budget.take(address, 1, now))
}

function budgetOf(options: Partial<SenderBudgetOptions> = {}): SenderBudget {
  now = 0
  return new SenderBudget({
    perSender: 2,
    senders: 10,
    pool: 'family',
    round: 'renewed',
    ...options,
  })
}

describe('a budget that the caller renews', () => {
  it('gives every sender the same amount, and the whole amount again in the next round', () => {
    const budget = budgetOf()
    expect(takers(budget, A, A, A, B)).toEqual([true, true, false, true])
    expect(budget.renew()).toEqual({ ofOneSender: 1, ofAll: 0 })
    expect(takers(budget, A)).toEqual([true])
    expect(budget.renew()).toEqual({ ofOneSender: 0, ofAll: 0 })
  })

  it('gives the whole amount or nothing', () => {
    const budget = budgetOf({ perSecond: 3 })
    expect(budget.take(A, 3, 0)).toBe(false)
    expect(budget.take(A, 2, 0)).toBe(true)
    expect(budget.take(B, 2, 0)).toBe(false)
    expect(budget.take(B, 1, 0)).toBe(true)
  })

  it('gives nothing to senders beyond the limit of a round, and serves the others', () => {
    const budget = budgetOf({ senders: 1 })
    expect(takers(budget, A, B, A)).toEqual([true, false, true])
    expect(budget.renew()).toEqual({ ofOneSender: 0, ofAll: 1 })
    expect(takers(budget, B, A)).toEqual([true, false])
  })

  it('gives all senders together a limited amount in a second', () => {
    const budget = budgetOf({ perSecond: 2 })
    expect(takers(budget, A, B, C)).toEqual([true, true, false])
    now = 999
    expect(takers(budget, C)).toEqual([false])
    now = 1000
    expect(takers(budget, C, A, B)).toEqual([true, true, false])
  })

  it.each([
    ['the senders', { senders: 2 }],
    ['the amount of a second', { perSecond: 2 }],
  ])(
    'keeps %s of IPv4 and IPv6 apart, however many senders the other family has',
    (_what, options) => {
      for (const [many, few] of [
        [
          ['fe80::1%eth0', 'fd00::1', 'fe80::2%eth0'],
          [A, B, C],
        ],
        [
          [A, B, C],
          ['fe80::1%eth0', 'fd00::1', 'fe80::2%eth0'],
        ],
      ] as const) {
        const budget = budgetOf(options)
        expect(takers(budget, ...many)).toEqual([true, true, false])
        expect(takers(budget, ...few)).toEqual([true, true, false])
      }
    },
  )

  it.each([
    ['the senders', { senders: 1 }],
    ['the amount of a second', { perSecond: 1 }],
  ])('gives a reserved amount in each round when other senders have taken %s', (_what, options) => {
    const budget = budgetOf({ ...options, reservedFor: (address) => (address === A ? 3 : 0) })
    for (const _ of [1, 2]) {
      now += 1000
      expect(takers(budget, B, C)).toEqual([true, false])
      expect(takers(budget, A, A, A, A)).toEqual([true, true, true, false])
      expect(budget.renew()).toEqual({ ofOneSender: 1, ofAll: 1 })
    }
  })

  it('takes a reserved amount from no other sender', () => {
    const budget = budgetOf({
      perSecond: 1,
      senders: 1,
      reservedFor: (address) => (address === A ? 1 : 0),
    })
    expect(takers(budget, A, B, A)).toEqual([true, true, false])
  })
})

describe('a budget with rounds of a second', () => {
  it('gives every sender the same amount in each second', () => {
    const budget = new SenderBudget({ perSender: 2, perSecond: 100 })
    expect(['a', 'a', 'a', 'b'].map((sender) => budget.take(sender, 1, 5000))).toEqual([
      true,
      true,
      false,
      true,
    ])
    expect(budget.has('a', 1, 5999)).toBe(false)
    expect(budget.take('a', 1, 5999)).toBe(false)
    expect(budget.has('a', 1, 6000)).toBe(true)
    expect(budget.take('a', 1, 6000)).toBe(true)
  })

  it('gives all senders together a limited amount, and the whole amount or nothing', () => {
    const budget = new SenderBudget({ perSender: 2, perSecond: 5 })
    expect(budget.take('a', 3, 0)).toBe(false)
    expect(['a', 'b', 'c'].map((sender) => budget.take(sender, 2, 0))).toEqual([true, true, false])
    expect(['c', 'd'].map((sender) => budget.take(sender, 1, 0))).toEqual([true, false])
  })
})
