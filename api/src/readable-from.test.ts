import { expect, it } from 'vitest'
import { isReadableFrom } from './readable-from.js'

it.each<[string | undefined, boolean]>([
  [undefined, false],
  ['', false],
  [' , ', false],
  ['line', true],
  [' line ', true],
  ['a,line', true],
  ['a , line\t,\nb', true],
  [',line,', true],
  ['*', true],
  ['a, *', true],
  ['Line', false],
  ['lin', false],
  ['line-2', false],
  ['a line', false],
  ['li*', false],
  ['line*', false],
  ['**', false],
  ['!line', false],
  ['a;line', false],
])('the annotation %j consents to the namespace line: %s', (annotation, consents) => {
  expect(isReadableFrom(annotation, 'line')).toBe(consents)
})
