import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { InternalError } from '../errors/errors.js'
import { createLogger } from './create-logger.js'

const lines: unknown[] = []

vi.mock('pino', async (original) => {
  const real = await original<typeof import('pino')>()
  const stream = { write: (line: string) => void lines.push(JSON.parse(line)), on: () => {} }
  return { ...real, destination: () => stream }
})

beforeEach(() => void lines.splice(0))
afterEach(() => void vi.unstubAllEnvs())

describe('the log of a program', () => {
  it('has a line of JSON with level, name, fields and the chain of causes, without stacks', () => {
    const cause = new Error('connection refused')
    const log = createLogger('akri-agent', { level: 'info' })
    log.child({ handler: 'udev' }).warn({ err: new Error('no answer', { cause }) }, 'list lost')
    log.debug({}, 'unimportant')
    expect(lines).toEqual([
      expect.objectContaining({
        level: 'warn',
        name: 'akri-agent',
        handler: 'udev',
        msg: 'list lost',
        err: {
          name: 'Error',
          message: 'no answer',
          cause: { name: 'Error', message: 'connection refused' },
        },
      }),
    ])
  })

  it.each(['debug', 'info', 'warn', 'error'] as const)(
    'has a bug of a line of level %s at level error, with its stack, and counts it once',
    (level) => {
      let bugs = 0
      const log = createLogger('akri-agent', { level: 'error', onBug: () => bugs++ })
      const cause = new TypeError('x is not a function')
      log.child({ handler: 'udev' })[level]({ err: new InternalError('broken', { cause }) }, 'lost')
      expect(bugs).toBe(1)
      const link = (message: string) => ({ message, stack: expect.stringContaining(message) })
      expect(lines).toMatchObject([
        {
          level: 'error',
          handler: 'udev',
          msg: 'lost',
          err: { ...link('broken'), cause: link('x is not a function') },
        },
      ])
      log[level]({ err: new Error('no bug') }, 'lost')
      expect(bugs).toBe(1)
    },
  )

  it('has the level of LOG_LEVEL, and refuses another text than a level', () => {
    vi.stubEnv('LOG_LEVEL', 'warn')
    const log = createLogger('akri-agent')
    log.info({}, 'unimportant')
    log.warn({}, 'important')
    expect(lines).toMatchObject([{ msg: 'important' }])
    expect(() => createLogger('akri-agent', { level: 'loud' })).toThrow(
      'log level "loud" is not one of debug, info, warn, error',
    )
  })
})
