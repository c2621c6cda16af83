import { mkdirSync, mkdtempSync, realpathSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { expect, it } from 'vitest'
import { defineError, errorFields, handlerPlaces } from './errors.js'
import {
  handlerOfError,
  handlerOfExit,
  handlerPlaceIn,
  noteHandler,
  presentStack,
} from './handler-code.js'

const modules = new Map([
  ['/opt/sensor/dist/a.js', 'sensor'],
  ['/opt/my cam/a.js', 'cam'],
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
  expect(handlerPlaceIn(stack, modules)?.place).toBe(place)
})

it('finds no handler in the code of others', () => {
  const stack =
    'Error: /opt/sensor/a.js:1:1\n    at x (/opt/sensors/a.js:1:1)\n    at y (file:///%:1:1)'
  expect(handlerPlaceIn(stack, modules)).toBeUndefined()
})

it('tells handlers of one directory apart by their files', () => {
  const shared = new Map([
    ['/opt/h/a.js', 'a'],
    ['/opt/h/b.js', 'b'],
    ['/opt/h/c/c.js', 'c'],
    ['/opt/h/lib/d.js', 'd'],
  ])
  const at = (...files: readonly string[]) =>
    handlerPlaceIn(files.map((file) => `    at x (${file}:1:1)`).join('\n'), shared)
  expect(at('/opt/h/a.js')).toEqual({ handler: 'a', place: '/opt/h/a.js:1' })
  expect(at('/opt/h/b.js')).toEqual({ handler: 'b', place: '/opt/h/b.js:1' })
  expect(at('/opt/h/c/wire.js')).toEqual({ handler: 'c', place: '/opt/h/c/wire.js:1' })
  expect(at('/opt/h/lib/wire.js')).toEqual({ handler: 'd', place: '/opt/h/lib/wire.js:1' })
  // A file that a and b may both import.
  const place = '/opt/h/wire.js:1'
  expect(at('/opt/h/wire.js')).toEqual({ handlers: ['a', 'b', 'd'], place })
  expect(at('/opt/h/wire.js', '/opt/h/c/c.js', '/opt/h/b.js')).toEqual({ handler: 'b', place })
})

/** The module of a built-in handler, and a line of a stack in it. */
const builtIn = (() => {
  const file = path.join(
    realpathSync(mkdtempSync(path.join(tmpdir(), 'akri-handler-'))),
    'dist/index.js',
  )
  mkdirSync(path.dirname(file))
  writeFileSync(file, '')
  writeFileSync(path.join(file, '../../package.json'), '{ "name": "@akrijs/handler-mine" }')
  noteHandler(pathToFileURL(file).href, 'mine')
  return [file, `    at read (file://${file}:7:9)`] as const
})()

const placed = (stack: string) => Object.assign(new Error('x'), { stack })
const own = `    at y (${import.meta.dirname}/a.js:1:1)`
const library = '    at x (/opt/sensor/node_modules/x/i.js:1:1)'
const timer = '    at listOnTimeout (node:internal/timers:1:1)'
const exit = '    at process.exit (node:internal/process/per_thread:1:1)'
const all = { handlers: ['sensor', 'cam'] }

it.each([
  ['a callback of Node.js', placed(`Error: x\n${timer}`), all],
  ['a library', placed(`Error: x\n${library}\n${own}`), all],
  ['no error', 'x', all],
  ['a stack that is no text', Object.assign(new Error('x'), { stack: 7 }), all],
  ['this program', placed(`Error: x\n${timer}\n${own}`), undefined],
])('names all handlers for an error of %s, unless it is of this program', (_, error, names) => {
  expect(handlerOfError(error, modules)).toEqual(names)
  const [file] = builtIn
  expect(handlerOfError(error, new Map([[file, 'mine']]))).toBeUndefined()
})

it('shows a place in a built-in handler for a bug alone', () => {
  const [file, place] = builtIn
  const failed = (cause: unknown) =>
    new (defineError('AKRI_ERR_HANDLER_FAILED', 'transient'))('failed', { cause })
  const stack = `Error: x\n${place}\n${library}`
  const network = placed(stack)
  network.cause = placed(`Error: y\n${library}`)
  expect(handlerPlaces(failed(network))).toEqual([])
  expect(errorFields(failed(network)).cause?.stack).toBeUndefined()
  expect(handlerPlaces(failed(Object.assign(new TypeError('x'), { stack })))).toEqual([place])
  expect(handlerPlaces(failed(placed(stack.replace(file, '/opt/x.js'))))).toHaveLength(1)
})

it.each([
  ['by a handler', [exit, '    at x (/opt/my cam/a.js:7:1)'], 'cam'],
  ['by a library', [exit, library, own], 'all'],
  ['by Node.js, which calls process.exit() back', [exit, timer], 'all'],
  ['by this program', [exit, own], 'none'],
  ['when nothing is left to do', [timer], 'none'],
])('knows whether a process is ended %s', (_, lines, names) => {
  const place = { handler: 'cam', place: '/opt/my cam/a.js:7' }
  const results = { cam: place, all, none: undefined }
  const stack = ['Error: the stack', own, ...lines].join('\n')
  expect(handlerOfExit(stack, modules)).toEqual(Object(results)[names])
})

it('reads a long stack in time in proportion to its length', () => {
  expect(handlerPlaceIn(`at ${'(/'.repeat(1e6)}`, modules)).toBeUndefined()
})

it('has the present stack with more than ten calls', () => {
  const nested = (depth: number): string => (depth === 0 ? presentStack() : nested(depth - 1))
  expect(nested(30).match(/nested/g)?.length).toBeGreaterThan(30)
})
