import { errorFields, type Logger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { beforeEach, describe, expect, it } from 'vitest'
import { IsolatedOutput, MAX_HANDLER_LINE } from './isolated-output.js'

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

  /** A line as akri-handler writes it. */
  const line = ({ level, ...fields }: Readonly<Record<string, unknown>>) => {
    const head = { level, time: 1, pid: 7, hostname: 'node-a', name: 'akri-handler' }
    return `${JSON.stringify(head).slice(0, -1)},${JSON.stringify(fields).slice(1)}`
  }

  it('comes into the log at its level, with its fields', () => {
    output.take(line({ level: 'error', msg: 'no answer', port: 80, handler: 'x' }), 'warn')
    output.take(line({ level: 'debug', msg: 'asked' }), 'warn')
    expect(logged).toEqual([
      ['error', 'no answer', { port: 80 }],
      ['debug', 'asked', {}],
    ])
  })

  it('keeps fields of the handler that the log of its process sets too', () => {
    const fields = { name: 'hall', pid: 8, hostname: 'cam' }
    output.take(line({ level: 'info', msg: 'found', ...fields }), 'warn')
    // As pino writes a field `level` of a handler.
    const more = line({ level: 'info', msg: 'read' }).replace('"msg"', '"level":3,"time":4,"msg"')
    output.take(more, 'warn')
    expect(logged).toEqual([
      ['info', 'found', fields],
      ['info', 'read', {}],
    ])
  })

  it('keeps its level if it is too long', () => {
    const long = line({ level: 'info', value: 'x'.repeat(MAX_HANDLER_LINE), msg: 'read' })
    output.take(long.slice(0, MAX_HANDLER_LINE), 'warn')
    const text = expect.stringMatching(/^"value":"x+$/)
    expect(logged).toEqual([['info', 'isolated handler wrote a long line', { text }]])
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

  it('is a line with the text where it is no line of a log', () => {
    output.take('FATAL ERROR: \u001b[31mheap', 'warn')
    output.take('', 'warn')
    output.take('{"level":"info"}', 'info')
    output.take('{"level":"fatal","msg":"x"}', 'info')
    expect(logged.map(([level, , fields]) => [level, fields])).toEqual([
      ['warn', { text: 'FATAL ERROR: \ufffd[31mheap' }],
      ['info', { text: '{"level":"info"}' }],
      ['info', { text: '{"level":"fatal","msg":"x"}' }],
    ])
  })

  it('has the last lines for the end of the process, each of them once', () => {
    for (let n = 0; n < 20; n++) output.take(`line ${n} ${'x'.repeat(1000)}`, 'info')
    const err = errorFields(new Error('no bus'))
    output.take(line({ level: 'error', msg: 'program failed', err }), 'warn')
    const last = output.takeLast()
    expect(last).toHaveLength(10)
    expect(last.at(-1)).toBe('program failed: no bus')
    for (const text of last) expect(text.length).toBeLessThanOrEqual(300)
    expect(output.takeLast()).toEqual([])
  })

  it('leaves out lines of a handler that writes without end, and counts them', async () => {
    for (let n = 0; n < 1000; n++) output.take('more', 'info')
    expect(logged).toHaveLength(300)
    await clock.advance(100)
    output.take('more', 'info')
    expect(logged.slice(300)).toEqual([
      ['warn', 'lines of the handler left out', { lines: 700 }],
      ['info', 'isolated handler wrote a line', { text: 'more' }],
    ])
  })

  it.each([
    ['is silent', () => clock.advance(10_000)],
    ['ends', async () => void output.takeLast()],
  ])('counts the lines that it left out also if the handler %s then', async (_, then) => {
    for (let n = 0; n < 301; n++) output.take('more', 'info')
    expect(logged).toHaveLength(300)
    await then()
    expect(logged.slice(300)).toEqual([['warn', 'lines of the handler left out', { lines: 1 }]])
    await clock.advance(20_000)
    expect(logged).toHaveLength(301)
  })
})
