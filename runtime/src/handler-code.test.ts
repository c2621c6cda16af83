import { expect, it } from 'vitest'
import { handlerPlaceIn, presentStack } from './handler-code.js'

const directories = new Map([
  ['/opt/sensor', 'sensor'],
  ['/opt/my cam', 'cam'],
])

it.each([
  ['a call', '    at read (file:///opt/sensor/dist/a.js:7:3)', '/opt/sensor/dist/a.js:7'],
  ['CommonJS', '    at read (/opt/sensor/a.cjs:7:3)', '/opt/sensor/a.cjs:7'],
  ['a module', '    at file:///opt/sensor/a.js:7:3', '/opt/sensor/a.js:7'],
  ['a wait', '    at async file:///opt/my%20cam/a.js:7:3', '/opt/my cam/a.js:7'],
  [
    'a library of the handler',
    '    at x (file:///opt/sensor/node_modules/x/i.js:1:1)\n' +
      '    at y (file:///opt/sensor/a.js:8:1)',
    '/opt/sensor/a.js:8',
  ],
])('finds the handler in the stack of %s', (_, lines, place) => {
  const others = ['    at node:internal/process:1:1', '    at z (/opt/sensor/b.js:9:9)']
  const stack = ['Error: x', others[0], lines, others[1]].join('\n')
  expect(handlerPlaceIn(stack, directories)?.place).toBe(place)
})

it('finds no handler in the code of others', () => {
  const stack =
    'Error: /opt/sensor/a.js:1:1\n    at x (/opt/sensors/a.js:1:1)\n    at y (file:///%:1:1)'
  expect(handlerPlaceIn(stack, directories)).toBeUndefined()
})

it('reads a long stack in time in proportion to its length', () => {
  expect(handlerPlaceIn(`at ${'(/'.repeat(1e6)}`, directories)).toBeUndefined()
})

it('has the present stack with more than ten calls', () => {
  const nested = (depth: number): string => (depth === 0 ? presentStack() : nested(depth - 1))
  expect(nested(30).match(/nested/g)?.length).toBeGreaterThan(30)
})
