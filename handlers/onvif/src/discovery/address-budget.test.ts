import { describe, expect, it } from 'vitest'
import { AddressBudget, type BudgetOptions } from './address-budget.js'

const [A, B, C] = ['10.0.0.1', '10.0.0.2', '10.0.0.3'] as const

let now = 0
/** Who may have one of it, each after the other. */
function takers(budget: AddressBudget, ...addresses: readonly string[]): boolean[] {
  return addresses.map((address) => budget.take(address, 1, now))
}

function budgetOf(options: Partial<BudgetOptions> = {}): AddressBudget {
  now = 0
  return new AddressBudget({ perAddress: 2, addresses: 10, ...options })
}

describe('a budget for each address', () => {
  it('gives every address the same, and everything again when it is renewed', () => {
    const budget = budgetOf()
    expect(takers(budget, A, A, A, B)).toEqual([true, true, false, true])
    expect(budget.renew()).toEqual({ ofOneAddress: 1, inAll: 0 })
    expect(takers(budget, A)).toEqual([true])
    expect(budget.renew()).toEqual({ ofOneAddress: 0, inAll: 0 })
  })

  it('gives no part of what is asked for', () => {
    const budget = budgetOf({ perSecond: 3 })
    expect(budget.take(A, 3, 0)).toBe(false)
    expect(budget.take(A, 2, 0)).toBe(true)
    expect(budget.take(B, 2, 0)).toBe(false)
    expect(budget.take(B, 1, 0)).toBe(true)
  })

  it('gives nothing to more addresses than are told apart in a round, and goes on giving to those that are', () => {
    const budget = budgetOf({ addresses: 1 })
    expect(takers(budget, A, B, A)).toEqual([true, false, true])
    expect(budget.renew()).toEqual({ ofOneAddress: 0, inAll: 1 })
    expect(takers(budget, B, A)).toEqual([true, false])
  })

  it('gives no more in a second than there is for all', () => {
    const budget = budgetOf({ perSecond: 2 })
    expect(takers(budget, A, B, C)).toEqual([true, true, false])
    now = 999
    expect(takers(budget, C)).toEqual([false])
    now = 1000
    expect(takers(budget, C, A, B)).toEqual([true, true, false])
  })

  it.each([
    ['addresses', { addresses: 2 }],
    ['what there is in a second', { perSecond: 2 }],
  ])(
    'has %s of IPv4 for those of IPv4, however many of IPv6 there are, and the other way round',
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
    ['addresses', { addresses: 1 }],
    ['what there is in a second', { perSecond: 1 }],
  ])(
    'gives what is reserved for an address in each round when others have taken all %s',
    (_what, options) => {
      const budget = budgetOf({ ...options, reservedFor: (address) => (address === A ? 3 : 0) })
      for (const _ of [1, 2]) {
        now += 1000
        expect(takers(budget, B, C)).toEqual([true, false])
        expect(takers(budget, A, A, A, A)).toEqual([true, true, true, false])
        expect(budget.renew()).toEqual({ ofOneAddress: 1, inAll: 1 })
      }
    },
  )

  it('takes what is reserved from nobody else', () => {
    const budget = budgetOf({
      perSecond: 1,
      addresses: 1,
      reservedFor: (address) => (address === A ? 1 : 0),
    })
    expect(takers(budget, A, B, A)).toEqual([true, true, false])
  })
})
