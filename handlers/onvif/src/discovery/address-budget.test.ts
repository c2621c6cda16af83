import { describe, expect, it } from 'vitest'
import { AddressBudget } from './address-budget.js'

describe('a budget for each address', () => {
  it('gives every address the same, and everything again when it is renewed', () => {
    const budget = new AddressBudget({ perAddress: 2, addresses: 10 })
    expect(['a', 'a', 'a', 'b'].map((address) => budget.take(address))).toEqual([true, true, false, true])
    expect(budget.renew()).toBe(1)
    expect(budget.take('a')).toBe(true)
    expect(budget.renew()).toBe(0)
  })

  it('gives nothing to more addresses than are told apart, and goes on giving to those that are', () => {
    const budget = new AddressBudget({ perAddress: 2, addresses: 1 })
    expect(['a', 'b', 'a'].map((address) => budget.take(address))).toEqual([true, false, true])
  })
})
