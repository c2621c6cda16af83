import { describe, expect, it } from 'vitest'
import { AkriError, defineError, errorFields, errorText, kindOf } from './errors.js'

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

  it('that is its own cause ends', () => {
    const error = new Error('round')
    error.cause = error
    expect(errorText(error)).toBe('round')
    expect(JSON.stringify(errorFields(error))).toContain('round')
  })
})
