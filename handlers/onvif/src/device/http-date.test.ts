import { describe, expect, it } from 'vitest'
import { readHttpDate } from './http-date.js'

describe('the header Date', () => {
  it.each([
    ['Sun, 06 Nov 1994 08:49:37 GMT', Date.UTC(1994, 10, 6, 8, 49, 37)],
    ['Thu, 01 Jan 1970 00:00:00 GMT', 0],
    ['Fri, 31 Dec 9999 23:59:59 GMT', Date.UTC(9999, 11, 31, 23, 59, 59)],
  ])('is a time: %s', (text, time) => {
    expect(readHttpDate(text)).toBe(time)
  })

  it.each([
    '',
    'Mon, 06 Nov 1994 08:49:37 GMT',
    'Sun, 06 Nov 1994 08:49:37 UTC',
    'Sun, 06 Nov 1994 08:49:37 +01',
    'Sun, 6 Nov 1994 08:49:37 GMT',
    'Mon, 31 Feb 2025 08:49:37 GMT',
    'Wed, 31 Dec 1969 23:59:59 GMT',
    'Sunday, 06-Nov-94 08:49:37 GMT',
    'Sun Nov  6 08:49:37 1994',
    '1994-11-06T08:49:37.000+00:00',
    'Sun, 06 Nov 1994 08:49:37 GMT, Sun, 06 Nov 1994 08:49:37 GMT',
  ])('is no time: %j', (text) => {
    expect(readHttpDate(text)).toBeUndefined()
  })
})
