import { describe, expect, it } from 'vitest'
import { SenderBudget } from './sender-budget.js'

describe('a budget for each sender', () => {
  it('gives every sender the same in each second', () => {
    const budget = new SenderBudget({ perSender: 2, total: 100 })
    expect(['a', 'a', 'a', 'b'].map((sender) => budget.take(sender, 1, 5000))).toEqual([
      true,
      true,
      false,
      true,
    ])
    expect(budget.take('a', 1, 5999)).toBe(false)
    expect(budget.take('a', 1, 6000)).toBe(true)
  })

  it('gives no more than there is for all, and no part of what was asked for', () => {
    const budget = new SenderBudget({ perSender: 2, total: 5 })
    expect(budget.take('a', 3, 0)).toBe(false)
    expect(['a', 'b', 'c'].map((sender) => budget.take(sender, 2, 0))).toEqual([true, true, false])
    expect(['c', 'd'].map((sender) => budget.take(sender, 1, 0))).toEqual([true, false])
  })
})
