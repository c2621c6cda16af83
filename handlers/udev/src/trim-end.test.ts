import { expect, it } from 'vitest'
import { costOf } from '../../../test/support/cost.js'
import { trimEnd } from './trim-end.js'

it.each([
  ['value\n', 'value'],
  ['\n value \r\n\n', '\n value '],
  ['\r\n', ''],
  ['', ''],
])('removes characters at the end of %j', (text, trimmed) => {
  expect(trimEnd(text, '\r\n')).toBe(trimmed)
})

it('takes linear time', async () => {
  const text = `${'\n'.repeat(1_000_000)}x`
  const trim = () => expect(trimEnd(text, '\n') === text).toBe(true)
  expect(await costOf(trim)).toBeLessThan(1000)
})
