import { describe, expect, it } from 'vitest'
import { exponentOf } from './exponent.js'

describe('the exponent of growth', () => {
  it('is the power of the size that the values follow, whatever their factor is', () => {
    const power = (exponent: number) =>
      exponentOf([10, 20, 40].map((size) => [size, 7 * size ** exponent]))
    expect([0, 1, 2, 2.5].map(power).map((found) => found.toFixed(6))).toEqual([
      '0.000000',
      '1.000000',
      '2.000000',
      '2.500000',
    ])
  })
})
