import { describe, expect, it } from 'vitest'
import {
  AkriError,
  defineError,
  errorFields,
  errorText,
  handlerPlaces,
  kindOf,
  messageOf,
  readableError,
} from './errors.js'

/** The disk is full. */
class DiskFullError extends defineError('AKRI_ERR_DISK_FULL', 'transient') {}

const refused = Object.assign(new Error('connect ECONNREFUSED 10.0.0.5:80'), {
  code: 'ECONNREFUSED',
})

describe('an error', () => {
  it('has the name and kind of its code, and is recognised from another copy', () => {
    const error = new DiskFullError('no room', { cause: refused })
    expect(error).toMatchObject({
      name: 'DiskFullError',
      code: 'AKRI_ERR_DISK_FULL',
      kind: 'transient',
      cause: refused,
    })
    expect([DiskFullError.is(error), AkriError.is(error), DiskFullError.is(refused)]).toEqual([
      true,
      true,
      false,
    ])
    const copy = Object.assign(new Error('no room'), {
      code: 'AKRI_ERR_DISK_FULL',
      [Symbol.for('akri.error')]: true,
    })
    expect(DiskFullError.is(copy)).toBe(true)
    expect(DiskFullError.is(new AkriError('AKRI_ERR_OTHER', 'transient', ''))).toBe(false)
  })

  it('is a bug if the engine threw it for a wrong program, not for the network', () => {
    expect(
      [new TypeError('x is not a function'), new RangeError('x'), new ReferenceError('x')].map(
        kindOf,
      ),
    ).toEqual(Array(3).fill('bug'))
    expect(
      [new TypeError('fetch failed', { cause: refused }), refused, 'text', undefined].map(kindOf),
    ).toEqual(Array(4).fill('transient'))
    expect(kindOf(new AkriError('AKRI_ERR_OTHER', 'terminal', ''))).toBe('terminal')
  })

  it('shows no password of a URL, neither in its message nor in its causes and stacks', () => {
    const text = 'URL that includes credentials: http://me:hunter2@hub/'
    const error = new DiskFullError('no room', { cause: new TypeError(text) })
    expect(messageOf(error.cause)).toBe('URL that includes credentials: http://me:***@hub/')
    expect(errorText(error)).toContain('http://me:***@hub/')
    expect(JSON.stringify(errorFields(error, true))).not.toContain('hunter2')
    expect(JSON.stringify(errorFields(error, true))).toContain('http://me:***@hub/')
  })

  it('reads as its code and its chain of causes, each text once', () => {
    expect(errorText(new TypeError('fetch failed', { cause: refused }))).toBe(
      'fetch failed: connect ECONNREFUSED 10.0.0.5:80',
    )
    expect(errorText(new DiskFullError(`no room: ${refused.message}`, { cause: refused }))).toBe(
      'AKRI_ERR_DISK_FULL no room: connect ECONNREFUSED 10.0.0.5:80',
    )
    const attempts = new AggregateError([refused])
    expect(errorText(new Error('lookup failed', { cause: attempts }))).toContain(
      'connect ECONNREFUSED',
    )
    expect(errorText('a text')).toBe('a text')
  })

  it('becomes data with code, kind and causes; a stack only for a bug or on demand', () => {
    const error = new DiskFullError('no room', { cause: refused })
    expect(errorFields(error)).toEqual({
      name: 'DiskFullError',
      code: 'AKRI_ERR_DISK_FULL',
      kind: 'transient',
      message: 'no room',
      cause: { name: 'Error', code: 'ECONNREFUSED', message: refused.message },
    })
    expect(errorFields(error, true)).toMatchObject({
      stack: expect.stringContaining('errors.test'),
      cause: { stack: expect.stringContaining('errors.test') },
    })
    expect(errorFields(new TypeError('x'))).toMatchObject({
      stack: expect.stringContaining('errors.test'),
    })
  })

  it('of a handler has the places in its code, without those of Node.js', () => {
    const HandlerFailedError = defineError('AKRI_ERR_HANDLER_FAILED', 'transient')
    const inner = new Error('connect ECONNREFUSED')
    inner.stack = 'Error: connect ECONNREFUSED\n    at Socket.x (node:net:1:1)'
    const cause = new Error('fetch failed', { cause: inner })
    const places = ['    at read (file:///opt/h.mjs:7:9)', '    at file:///opt/h.mjs:3:1']
    const others = [
      '    at node:internal/x:1:1',
      '    at y (file:///o/node_modules/@akrijs/sdk/d/i.js:1:9)',
    ]
    cause.stack = ['Error: fetch failed', others[0], ...places, others[1]].join('\n')
    const error = new HandlerFailedError('handler x failed', { cause })
    expect(handlerPlaces(error)).toEqual(places)
    expect(handlerPlaces(new Error('around', { cause: error }))).toEqual(places)
    expect(errorFields(error)).toMatchObject({
      stack: undefined,
      cause: { stack: places.join('\n') },
    })
    expect(handlerPlaces(cause)).toEqual([])
    expect(errorFields(cause).stack).toBeUndefined()
    // A handler writes its messages, and can write its stacks.
    cause.stack = `${'x'.repeat(1e6)}\n${'    at y (/h.mjs:1:1)\n'.repeat(1e5)}`
    expect(handlerPlaces(error)).toEqual([])
    cause.stack = `    at ${'y'.repeat(1e4)} (/h.mjs:1:1)\n`.repeat(10)
    const bounded = handlerPlaces(error)
    expect([bounded.length, Math.max(...bounded.map(({ length }) => length))]).toEqual([5, 300])
  })

  it('of a handler has the places of an error with a code of its author', () => {
    const HandlerFailedError = defineError('AKRI_ERR_HANDLER_FAILED', 'transient')
    const cause = new DiskFullError('no room')
    const place = '    at read (file:///opt/h.mjs:7:9)'
    cause.stack = `DiskFullError: no room\n${place}`
    const error = new HandlerFailedError('handler x failed', { cause })
    error.stack = 'HandlerFailedError: x\n    at discover (/opt/akri/x.js:1:1)'
    expect(handlerPlaces(error)).toEqual([place])
    expect(handlerPlaces(new DiskFullError('around', { cause: error }))).toEqual([place])
    expect(errorFields(error)).toMatchObject({ stack: undefined, cause: { stack: place } })
  })

  it('of a handler has the places of its author rather than those of libraries', () => {
    const HandlerFailedError = defineError('AKRI_ERR_HANDLER_FAILED', 'transient')
    const library = '    at emit (/opt/node_modules/bus/i.js:1:1)'
    const place = '    at read (file:///opt/h.mjs:7:9)'
    const inner = new Error('closed')
    const cause = new Error('no bus', { cause: inner })
    const error = new HandlerFailedError('handler x failed', { cause })
    inner.stack = `Error: closed\n${library}\n    at new Promise (<anonymous>)`
    cause.stack = ['Error: no bus', ...Array(9).fill(library), place].join('\n')
    expect(handlerPlaces(error)).toEqual([place])
    expect(errorFields(error).cause).toMatchObject({ stack: place })
    cause.stack = 'Error: no bus'
    expect(handlerPlaces(error)[0]).toBe(library)
  })

  it('without a text has a message', () => {
    expect(messageOf(Object.create(null))).toBe('a value without a text')
    expect(messageOf(Object.assign(new Error('x'), { message: 7 }))).toBe('7')
    expect([errorText(undefined), errorText(null)]).toEqual([
      'undefined was thrown',
      'null was thrown',
    ])
  })

  it('that is a plain object has its message or its fields, without secrets', () => {
    expect(errorText({ message: 'no bus', code: 7 })).toBe('no bus')
    const thrown = { status: 401, url: 'http://me:hunter2@hub/', password: 'x', list: [{}] }
    expect(errorText(thrown)).toBe(
      '{ status: 401, url: "http://me:***@hub/", password: ***, list: a list }',
    )
    expect(errorText(new URL('http://hub/'))).toBe('http://hub/')
    expect(errorText({ text: 'x'.repeat(100), '': 1, ['y'.repeat(200)]: 1 })).toHaveLength(200)
  })

  it('that cannot be read is replaced by an error that can', () => {
    const refuse = () => {
      throw new TypeError('refused')
    }
    const traps = { get: refuse, has: refuse, getPrototypeOf: refuse, ownKeys: refuse }
    const getter = (name: string) =>
      Object.defineProperty(new Error('x'), name, { get: refuse, configurable: true })
    const unreadable = [
      new Proxy(new Error('x'), traps),
      new Error('around', { cause: new Proxy({}, traps) }),
      ...['message', 'name', 'code', 'cause'].map(getter),
    ]
    for (const thrown of unreadable) {
      const error = readableError(thrown)
      // A matcher would read the value.
      expect(error === thrown).toBe(false)
      expect(typeof errorText(error)).toBe('string')
      expect(JSON.stringify(errorFields(error, true))).toContain('message')
      expect(handlerPlaces(new DiskFullError('x', { cause: error }))).toEqual([])
    }
    for (const thrown of [undefined, 'text', {}, refused, new DiskFullError('x')])
      expect(readableError(thrown)).toBe(thrown)
  })

  it('has a stack only if that is a text', () => {
    const error = Object.assign(new Error('x'), { stack: 7 })
    expect(errorFields(error, true).stack).toBeUndefined()
  })

  it('that is its own cause ends', () => {
    const error = new Error('round')
    error.cause = error
    expect(errorText(error)).toBe('round')
    expect(JSON.stringify(errorFields(error))).toContain('round')
  })
})
