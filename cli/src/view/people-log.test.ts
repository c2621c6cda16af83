import { describe, expect, it } from 'vitest'
import { peopleLogger } from './people-log.js'

describe('a line of the log for people', () => {
  function line(fields: Readonly<Record<string, unknown>>): string {
    const lines: string[] = []
    peopleLogger((text) => lines.push(text), 'info').info(fields, 'something happened')
    return lines.join('\n').replace(/^[0-9:]{8} /, '')
  }

  it('has its level, its message and its fields', () => {
    expect(line({ file: 'a/b.yaml', pid: 7 })).toBe('info  something happened file=a/b.yaml pid=7')
  })

  it('quotes a value only if it has spaces or special characters', () => {
    expect(line({ error: 'no such file', node: 'node-a' })).toBe(
      'info  something happened error="no such file" node=node-a',
    )
  })

  it('joins lists with commas, and leaves out empty values', () => {
    const fields = {
      handlers: ['debugEcho', 'udev'],
      ids: [['a-0'], ['a-1', 'a-2']],
      path: '',
      none: undefined,
      left: [],
    }
    expect(line(fields)).toBe('info  something happened handlers=debugEcho,udev ids=a-0,a-1,a-2')
  })

  it('shows whatever a handler logs, also without JSON', () => {
    const circle: Record<string, unknown> = { id: 'a' }
    circle.self = circle
    const list: unknown[] = [1]
    list.push(list)
    const refusing = {
      toJSON() {
        throw new TypeError('no')
      },
    }
    expect(line({ bytes: 10n, sizes: [1n, 2n] })).toBe(
      'info  something happened bytes=10 sizes=1,2',
    )
    expect(line({ circle })).toContain("circle=<ref *1> { id: 'a', self: [Circular *1] }")
    expect(line({ list })).toContain('list=<ref *1> [ 1, [Circular *1] ]')
    expect(line({ refusing, pid: 7 })).toMatch(/refusing=\{ toJSON: .* \} pid=7$/)
  })

  it('shows an error as its code and causes, a bug with its stack, all printable', () => {
    const refused = new Error('connect ECONNREFUSED 10.0.0.5:80')
    expect(line({ err: new TypeError('fetch failed', { cause: refused }) })).toBe(
      'info  something happened err="fetch failed: connect ECONNREFUSED 10.0.0.5:80"',
    )
    const bug = line({ err: new TypeError('it is broken') })
    expect(bug).toMatch(/^error something happened err="it is broken"\nTypeError: it is broken\n/)
    expect(bug).toMatch(/broken\n +at .*people-log\.test/)
    expect(line({ name: '\u001b[31mred' })).not.toContain('\u001b')
  })

  it('has no password of a URL', () => {
    const err = new TypeError('cannot read http://me:hunter2@hub/')
    const shown = line({ err, url: 'http://me:hunter2@hub/' })
    expect(shown).toContain('url=http://me:***@hub/')
    expect(shown).not.toContain('hunter2')
  })

  it.each([
    [['just text'], 'warn  just text'],
    [['100% of it'], 'warn  100% of it'],
    [['a message', { x: 1 }], 'warn  a message { x: 1 }'],
    [['found %d', 3], 'warn  found 3'],
    [[{ bus: 7 }, 'found %d', 3], 'warn  found 3 bus=7'],
    [[{ bus: 7 }], 'warn  bus=7'],
    [[new Error('boom')], 'warn  boom err=boom'],
    [[new Error('boom'), 'no bus'], 'warn  no bus err=boom'],
    [['just text', undefined], 'warn  just text'],
    [[new Error('boom'), undefined], 'warn  boom err=boom'],
  ])('takes what pino takes, as handlers in JavaScript write it: %j', (args, expected) => {
    const lines: string[] = []
    Reflect.apply(peopleLogger((text) => lines.push(text), 'info').warn, undefined, args)
    expect(lines.map((text) => text.slice(9))).toEqual([expected])
  })

  it('is written only at the level of the log, with the fields of its logger first', () => {
    const lines: string[] = []
    const log = peopleLogger((text) => lines.push(text), 'warn').child({ handler: 'udev' })
    log.info({}, 'quiet')
    log.warn({ path: 'x' }, 'loud')
    expect(lines.map((text) => text.slice(9))).toEqual(['warn  loud handler=udev path=x'])
  })
})
