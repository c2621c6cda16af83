import { describe, expect, it } from 'vitest'
import { readDetails } from './details.js'
import type { DeviceLists } from './device.js'
import { InvalidHandlerError } from './errors.js'
import { type DiscoveryHandlerDefinition, defineDiscoveryHandler } from './handler.js'

const definition: DiscoveryHandlerDefinition<unknown> = {
  name: 'mine',
  shared: true,
  details: { '~standard': { version: 1, vendor: 'test', validate: (value) => ({ value }) } },
  async *discover() {},
  warnings: () => [],
}

describe('the definition of a handler', () => {
  it('can come from another handler', () => {
    const handler = defineDiscoveryHandler(definition)
    expect(defineDiscoveryHandler({ ...handler, name: 'other' }).name).toBe('other')
  })

  it.each([
    [{ detials: {} }, 'handler mine: a handler has no member "detials"; did you mean details?'],
    [
      { warning: () => [] },
      'handler mine: a handler has no member "warning"; did you mean warnings?',
    ],
    [{ name: undefined, nam: 'mine' }, 'a handler has no member "nam"; did you mean name?'],
    [
      { interval: '10s' },
      'handler mine: a handler has no member "interval"; there are name, shared, details, ' +
        'discover, warnings',
    ],
    [{ name: '1st' }, 'name: "1st" is not a handler name; it starts with a letter'],
    [{ shared: 'yes' }, 'handler mine: shared is yes; it must be true or false'],
    [{ details: {} }, 'handler mine: details is not a Standard Schema'],
    [{ discover: [] }, 'handler mine: discover is not a function'],
    [{ warnings: 'none' }, 'handler mine: warnings is not a function'],
  ])('is refused with what would be right: %j', (change, message) => {
    const define = () =>
      Reflect.apply(defineDiscoveryHandler, undefined, [{ ...definition, ...change }])
    expect(define).toThrow(InvalidHandlerError)
    expect(define).toThrow(message)
  })

  it('without details takes none', async () => {
    const { details: _, ...rest } = definition
    const { details } = defineDiscoveryHandler(rest)
    expect(await readDetails('', details)).toEqual({ ok: true, details: {} })
    expect(await readDetails('url: a', details)).toMatchObject({
      problems: [{ path: '', message: 'the handler has no details; write none, or {}' }],
    })
  })

  it.each([undefined, null, 'mine'])('is refused if it is no object: %s', (value) => {
    const define = () => Reflect.apply(defineDiscoveryHandler, undefined, [value])
    expect(define).toThrow(InvalidHandlerError)
    expect(define).toThrow(/^a handler is an object with name, shared, details, discover; this is/)
  })

  it.each<[string, () => unknown, string]>([
    ['a promise', () => Promise.reject(new TypeError('x')), 'warnings returned a promise'],
    ['a text', () => 'a warning', 'warnings returned a value of type string'],
    ['texts', () => [{ path: '', message: 'x' }, 'y'], 'no texts path and message in item 1'],
    ['a warning without a path', () => [{ message: 'x' }], 'no texts path and message in item 0'],
  ])('is refused when its warnings are %s', (_, warnings, message) => {
    const change = { ...definition, warnings }
    const handler = Reflect.apply(defineDiscoveryHandler, undefined, [change])
    expect(() => handler.warnings({})).toThrow(InvalidHandlerError)
    expect(() => handler.warnings({})).toThrow(`handler mine: `)
    expect(() => handler.warnings({})).toThrow(message)
  })

  it.each([
    ['a promise', async () => []],
    [
      'a promise',
      async () => {
        throw new TypeError('x')
      },
    ],
    ['a value of type undefined', () => {}],
    ['an array', () => []],
  ])('is refused when its discover returns %s', (what, discover) => {
    const handler = Reflect.apply(defineDiscoveryHandler, undefined, [{ ...definition, discover }])
    expect(() => handler.discover({})).toThrow(InvalidHandlerError)
    expect(() => handler.discover({})).toThrow(
      `handler mine: discover returned ${what}; write 'async *discover(context)' with a '*', and ` +
        "'yield' each list of devices",
    )
  })

  it('has the warnings that it returns, or none', () => {
    const warnings = [{ path: 'url', message: 'x' }]
    for (const [returned, found] of [
      [warnings, warnings],
      [undefined, []],
    ]) {
      const change = { ...definition, warnings: () => returned }
      const handler = Reflect.apply(defineDiscoveryHandler, undefined, [change])
      expect(handler.warnings({})).toEqual(found)
    }
  })
})

it('a wrong field of a device is an error of TypeScript at the field', () => {
  const handler = defineDiscoveryHandler({
    name: 'typed',
    shared: true,
    async *discover(): DeviceLists {
      yield [
        {
          id: 'a',
          // @ts-expect-error: `tsc` names the field and the one that is meant
          propertys: { A: 'b' },
        },
      ]
      yield [
        {
          id: 'a',
          properties: {
            // @ts-expect-error: a property is a text
            A: 1,
          },
        },
      ]
    },
  })
  expect(handler.name).toBe('typed')
})
