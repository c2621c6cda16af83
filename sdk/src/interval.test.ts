import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { parseDetails } from './handler/details.js'
import { interval } from './interval.js'

describe('an interval in details', () => {
  const bounds = { atLeast: '5s', atMost: '1h' }
  const schemas = [
    z.strictObject({ every: z.string().refine(...interval(bounds)) }),
    v.strictObject({ every: v.pipe(v.string(), v.check(...interval(bounds))) }),
  ]

  it.each(['5s', '90s', '1h', '5000ms'])('is a text that every() takes: %s', async (every) => {
    for (const schema of schemas)
      expect(await parseDetails(`every: ${every}`, schema)).toEqual({ every })
  })

  it.each(['soon', '4s', '2h', '1d', '-5s'])('is refused with its bounds: %s', async (every) => {
    for (const schema of schemas)
      await expect(parseDetails(`every: ${every}`, schema)).rejects.toThrow(
        'discoveryDetails: every: write an interval of at least 5s and of at most 1h, such as ' +
          `10s; it is "${every}"`,
      )
  })

  it.each([
    [interval(), 'write an interval, such as 10s'],
    [interval({ atLeast: 500 }), 'write an interval of at least 500ms, such as 10s'],
    [interval({ atLeast: '1m' }), 'write an interval of at least 1m, such as 10m'],
    [interval({ atMost: '5s' }), 'write an interval of at most 5s, such as 5s'],
    [interval({ atLeast: '90m' }), 'write an interval of at least 90m, such as 2h'],
  ])('has a message with an example that passes (%#)', ([check, message], expected) => {
    expect(message).toBe(expected)
    expect(check(message.replace(/.* /, ''))).toBe(true)
  })

  it('has bounds that are intervals', () => {
    expect(() => interval({ atLeast: 'soon' })).toThrow('"soon" is not an interval')
  })
})
