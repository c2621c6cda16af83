import { expect, it } from 'vitest'
import { processorMs } from '../../../test/support/processor-ms.js'
import { trimEnd } from './trim-end.js'

it.each([
  ['value\n', 'value'],
  ['\n value \r\n\n', '\n value '],
  ['\r\n', ''],
  ['', ''],
])('removes characters at the end of %j', (text, trimmed) => {
  expect(trimEnd(text, '\r\n')).toBe(trimmed)
})

it('takes linear time', () => {
  const before = processorMs()
  const text = `${'\n'.repeat(1_000_000)}x`
  expect(trimEnd(text, '\n') === text).toBe(true)
  expect(processorMs() - before).toBeLessThan(1000)
})
