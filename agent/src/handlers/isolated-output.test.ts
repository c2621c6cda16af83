import { errorFields, type Logger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { IsolatedOutput, MAX_HANDLER_LINE } from './isolated-output.js'

/** A line as akri-handler writes it. */
function line({ level, ...fields }: Readonly<Record<string, unknown>>): string {
  const head = { level, time: 1, pid: 7, hostname: 'node-a', name: 'akri-handler' }
  return `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(fields).slice(1)}`
}

describe('the output of a handler in a process of its own', () => {
  let clock: ManualClock
  let logged: unknown[][]
  let output: IsolatedOutput

  beforeEach(() => {
    clock = new ManualClock()
    logged = []
    const method = (level: string) => (fields: object, message: string) =>
      void logged.push([level, message, fields])
    const log: Logger = {
      debug: method('debug'),
      info: method('info'),
      warn: method('warn'),
      error: method('error'),
      child: () => log,
    }
    output = new IsolatedOutput(log, clock)
  })

  it.each<[string, string, ...unknown[]]>([
    [
      'at its level, with its fields',
      line({ level: 'error', msg: 'no answer', port: 80, handler: 'x' }),
      ...['error', 'no answer', { port: 80 }],
    ],
    [
      'with fields that the log of its process sets too',
      line({ level: 'debug', msg: 'found', name: 'hall', pid: 8, hostname: 'cam' }),
      ...['debug', 'found', { name: 'hall', pid: 8, hostname: 'cam' }],
    ],
    [
      'with a field `level` of the handler, as pino writes it',
      line({ level: 'info', msg: 'read' }).replace('"msg"', '"level":3,"time":4,"msg"'),
      ...['info', 'read', {}],
    ],
    [
      'at its level if it is too long',
      line({ level: 'info', value: 'x'.repeat(MAX_HANDLER_LINE), msg: 'read' }),
      ...['info', 'isolated handler wrote a long line', { text: expect.stringMatching(/^"v.*x$/) }],
    ],
    ...['FATAL ERROR: heap', '{"level":"info"}', '{"level":"fatal","msg":"x"}'].map(
      (text): [string, string, ...unknown[]] => [
        'as a text if it is no line of a log',
        text,
        ...['warn', 'isolated handler wrote a line', { text }],
      ],
    ),
    [
      'without control characters',
      'heap\u001b[31m',
      ...['warn', 'isolated handler wrote a line', { text: 'heap\ufffd[31m' }],
    ],
  ])('comes into the log %s', (_, text, ...expected) => {
    output.take(text.slice(0, MAX_HANDLER_LINE), 'warn')
    output.take('', 'warn')
    expect(logged).toEqual([expected])
  })

  it('keeps code, kind, stack and causes of an error', () => {
    const cause = Object.assign(new Error('connect ECONNREFUSED'), { code: 'ECONNREFUSED' })
    for (const error of [new Error('fetch failed', { cause }), new TypeError('no function')]) {
      logged = []
      const err = errorFields(error, true)
      output.take(line({ level: 'warn', msg: 'discovery failed', err }), 'warn')
      const [[, , fields] = []] = logged
      expect(fields).toEqual({ err: expect.any(Error) })
      expect(errorFields(Object(fields).err, true)).toEqual(err)
      expect(errorFields(Object(fields).err).stack).toBe(errorFields(error).stack)
    }
  })

  it('has the last lines for the end of the process, each of them once', () => {
    for (let n = 0; n < 20; n++) output.take(`line ${n} ${'x'.repeat(1000)}`, 'info')
    const err = errorFields(new Error('no bus'))
    output.take(line({ level: 'error', msg: 'program failed', err }), 'warn')
    output.take(line({ level: 'info', msg: 'text on standard output', text: 'bye' }), 'warn')
    const last = output.takeLast()
    expect(last).toHaveLength(10)
    expect(last.slice(-2)).toEqual(['program failed: no bus', 'bye'])
    for (const text of last) expect(text.length).toBeLessThanOrEqual(300)
    expect(output.takeLast()).toEqual([])
  })

  it.each([
    ['writes more', async () => output.take('more', 'info'), 1],
    ['is silent', () => clock.advance(9_900), 0],
    ['ends', async () => void output.takeLast(), 0],
  ])(
    'leaves out lines of a handler that writes without end: counted when it %s',
    async (_, then, more) => {
      for (let n = 0; n < 1000; n++) output.take('more', 'info')
      expect(logged).toHaveLength(300)
      await clock.advance(100)
      await then()
      const line = ['info', 'isolated handler wrote a line', { text: 'more' }]
      expect(logged.slice(300)).toEqual([
        ['warn', 'lines of the handler left out', { lines: 700 }],
        ...Array(more).fill(line),
      ])
      await clock.advance(20_000)
      expect(logged).toHaveLength(301 + more)
    },
  )
})
