import { messageOf } from '@akrijs/runtime'
import { type } from 'arktype'
import fc from 'fast-check'
import * as v from 'valibot'
import { describe, expect, it } from 'vitest'
import { z } from 'zod'
import { parseDetails } from './details.js'
import { InvalidDetailsError } from './errors.js'

const schema = z.object({ url: z.url(), ports: z.array(z.number()).optional() })

describe('parseDetails', () => {
  it('reads YAML and JSON, and an empty text as an empty mapping', async () => {
    expect(await parseDetails('url: http://a', schema)).toEqual({ url: 'http://a' })
    expect(await parseDetails('{"url":"http://a"}', schema)).toEqual({ url: 'http://a' })
    expect(await parseDetails(' \n', z.object({}))).toEqual({})
  })

  it('reads a long text as JSON only, in a moment', async () => {
    const list = (item: string) => Array.from({ length: 60_000 }, () => item)
    const ports = list('80').join(',')
    const text = `{"url":"http://a","ports":[${ports},${ports}]}`
    expect(text.length).toBeGreaterThan(256 * 1024)
    expect((await parseDetails(text, schema)).ports).toHaveLength(120_000)
    const yaml = `url: http://a\npassword: hunter2\nports:\n${list('- 80').join('\n')}`
    await expect(parseDetails(yaml, schema)).rejects.toThrow(
      /^discoveryDetails: it has 300038 bytes: with more than 262144, write it as JSON$/,
    )
  })

  it('leaves a turn to other work before each text', async () => {
    let turns = 0
    const count = () => {
      turns++
      timer = setImmediate(count)
    }
    let timer = setImmediate(count)
    await Promise.all(Array.from({ length: 10 }, () => parseDetails('url: http://a', schema)))
    clearImmediate(timer)
    expect(turns).toBeGreaterThanOrEqual(9)
  })

  it('names the path and the value of a wrong field', async () => {
    await expect(parseDetails('url: http://a\nports: [1, x]', schema)).rejects.toThrow(
      /ports\[1\]: .*it is "x"/,
    )
    await expect(parseDetails('', schema)).rejects.toThrow(/url: .*it is missing/)
  })

  it('names each unknown field, with the field that is meant or those that there are', async () => {
    const filter = z.strictObject({
      items: z.array(z.string().transform((text) => text.length)),
      action: z.string().default('Include'),
    })
    const strict = z.strictObject({
      url: z.string().optional(),
      filters: z.array(filter).default([]),
    })
    await expect(parseDetails('urls: http://a\nother: 1', strict)).rejects.toThrow(
      'discoveryDetails: urls: there is no such field; did you mean url?; ' +
        'other: there is no such field; there are url, filters',
    )
    await expect(parseDetails('filters: [{items: [], actoin: Exclude}]', strict)).rejects.toThrow(
      /: filters\[0\]\.actoin: there is no such field; did you mean action\?$/,
    )
    await expect(parseDetails('"http://me:hunter2@hub/": 1', strict)).rejects.toThrow(
      /: http:\/\/me:\*\*\*@hub\/: there is no such field/,
    )
    // Not of a mapping where something else is wrong, nor of a schema that cannot tell.
    await expect(parseDetails('a', strict)).rejects.toThrow(/: write a mapping; it is a text$/)
    const odd = z.strictObject({ url: z.custom<string>(() => true).optional() })
    await expect(parseDetails('urls: 1', odd)).rejects.toThrow(/: there is no such field: urls$/)
  })

  it('counts the problems that it does not name, unknown fields too', async () => {
    const text = JSON.stringify({
      ...Object.fromEntries(Array.from({ length: 20_000 }, (_, index) => [`field${index}`, 1])),
      ports: Array.from({ length: 20 }, () => 'x'),
    })
    const strict = z.strictObject({ ports: z.array(z.number()) })
    await expect(parseDetails(text, strict)).rejects.toThrow(/ports\[9\].*; and 11 more$/)
    await expect(parseDetails(text.replaceAll('"x"', '1'), strict)).rejects.toThrow(
      /field9: [^:]*; and 19990 more$/,
    )
  })

  const libraries = [
    v.strictObject({
      model: v.string(),
      port: v.optional(v.pipe(v.number(), v.integer(), v.minValue(1), v.ltValue(9))),
      kind: v.optional(v.picklist(['usb', 7])),
      url: v.optional(v.pipe(v.string(), v.url())),
      lamps: v.optional(
        v.array(v.strictObject({ id: v.pipe(v.string(), v.nonEmpty(), v.maxLength(3)) })),
      ),
      either: v.optional(v.union([v.string(), v.boolean()])),
      even: v.optional(
        v.pipe(
          v.number(),
          v.check((port) => port % 2 === 0, 'write an even port'),
        ),
      ),
    }),
    type({
      '+': 'reject',
      model: 'string',
      'port?': '1<=number.integer<9',
      'kind?': '"usb"|7',
      'url?': 'string.url',
      'lamps?': type({ '+': 'reject', id: '0<string<=3' }).array(),
      'either?': 'string|boolean',
      'even?': type('number').narrow((port, context) => port % 2 === 0 || context.mustBe('even')),
    }),
  ]
  it.each([
    ['x', /^write a mapping; it is a text$/],
    ['[model]', /^write a mapping; it is a list$|^model: .*; 0: there is no /],
    ['modell: x', /^model: it is missing; write a (value|text); modell: there is .*mean model\?$/],
    ['{ model: 1, port: "1" }', /^model: write a text, in quotes; it is 1; port: .*; it is "1"$/],
    ['{ model: x, port: 0 }', /^port: (write|it must be) at least 1; it is 0$/],
    ['{ model: x, port: 9 }', /^port: (write|it must be) less than 9; it is 9$/],
    ['{ model: x, port: 1.5 }', /^port: (write a whole number|it must be an integer); it is 1.5$/],
    ['{ model: x, kind: pci }', /^kind: (write usb or 7|it must be "usb" or 7); it is "pci"$/],
    ['{ model: x, url: hub }', /^url: (write|it must be) a URL[^;]*; it is "hub"$/],
    ['{ model: x, lamps: 3 }', 'lamps: write a list; it is 3'],
    ['{ model: x, lamps: [{ ids: 3 }] }', /^lamps\[0\].id: it is .*ids: .*; did you mean id\?$/],
    [
      '{ model: x, lamps: [{ id: "" }] }',
      /^lamps\[0\].id: [^;]*(1 character|non-empty); it is ""$/,
    ],
    ['{ model: x, lamps: [{ id: long }] }', /^lamps\[0\].id: [^;]*at most [^;]*; it is "long"$/],
    ['{ model: x, either: 3 }', /^either: (write a text, or write|it must be) [^;]*; it is 3$/],
    ['{ model: x, even: 3 }', /^even: (write an even port|it must be even); it is 3$/],
  ])('has one fact of each problem with valibot and arktype: %s', async (text, expected) => {
    for (const library of libraries) {
      const message = await parseDetails(text, library).then(String, messageOf)
      expect(message.replace('discoveryDetails: ', '')).toMatch(expected)
      expect(message).not.toMatch(/received|\(was|Invalid|must be removed/)
    }
  })

  it.each([
    'apiVersion: akri.sh/v0\nkind: Configuration\nspec: {}',
    '---\napiVersion: v1\nkind: Secret\n---\napiVersion: "akri.sh/v0"\nkind: Configuration',
    '{"kind":"List","items":[{"apiVersion":"akri.sh/v0","kind":"Configuration"}]}',
    'spec: { discoveryHandler: { name: udev } }',
    'discoveryHandler:\n  name: udev',
    'discoveryDetails: |\n  url: http://a',
  ])('tells that a Configuration, or a part of one, is not the details (%#)', async (text) => {
    await expect(parseDetails(text, schema)).rejects.toThrow(
      'discoveryDetails: it is a whole Configuration, or a part of one: write only the text of ' +
        'its spec.discoveryHandler.discoveryDetails',
    )
  })

  it('can have a field with the name of one around the details', async () => {
    const other = z.strictObject({ spec: z.number() })
    expect(await parseDetails('spec: 1', other)).toEqual({ spec: 1 })
  })

  it('names line and column of a YAML error', async () => {
    await expect(parseDetails('a: 1\nb: [', schema)).rejects.toThrow(
      /not YAML.*line \d+, column \d+$/,
    )
  })

  it.each([
    'udevRules: [ATTR{size}=="1"]',
    'udevRules: [SUBSYSTEM=="usb",\n  ATTRS{idVendor}!="1234"]',
    '{ udevRules: [ENV{A}="b", KERNEL=="a"] }',
    'udevRules: [KERNEL=="sd[a-z]"]',
    'udevRules: ["KERNEL=="sda""]',
    'udevRules:\n- "KERNEL=="a", SUBSYSTEM=="b""',
  ])('says that the udev rule of %j needs quotes', async (text) => {
    await expect(parseDetails(text, schema)).rejects.toThrow(
      /^discoveryDetails: it is not YAML: .* in line \d, column \d+; put the rule in quotes: \['/,
    )
  })

  it('shows no value of a field whose name is that of a secret', async () => {
    const secret = z.object({ auth: z.object({ password: z.string(), user: z.string() }) })
    await expect(parseDetails('auth: { password: 4711, user: 8 }', secret)).rejects.toThrow(
      /^discoveryDetails: auth.password: .*; it is \*{3}; auth.user: .*; it is 8$/,
    )
  })

  it('shows no password of a URL, also where the schema repeats it or it is cut', async () => {
    const url = z.string().refine(() => false, {
      error: ({ input }) => `not reached: ${input}`,
    })
    const long = `http://me:hunter2${'x'.repeat(100)}@hub/`
    const text = JSON.stringify({ a: 'http://me:hunter2@hub/', b: long })
    const error = await parseDetails(text, z.object({ a: url, b: url })).catch(messageOf)
    expect(error).toContain('a: not reached: http://me:***@hub/; it is "http://me:***@hub/"')
    expect(error).not.toContain('hunter2')
  })

  it('refuses a text that is longer than a Kubernetes object', async () => {
    await expect(parseDetails('x'.repeat(1024 * 1024 + 1), schema)).rejects.toThrow(
      /1048577 bytes, more than 1048576/,
    )
  })

  it('refuses what stands for too much, before a schema follows it', async () => {
    const bomb = Array.from({ length: 40 }, (_, n) => `a${n + 1}: &a${n + 1} [*a${n}, *a${n}]`)
    await expect(parseDetails(['a0: &a0 [x]', ...bomb].join('\n'), z.any())).rejects.toThrow(
      'discoveryDetails: it has more than 500000 values, with its aliases',
    )
    await expect(parseDetails('&a { self: *a }', z.json())).rejects.toThrow(
      'discoveryDetails: it is nested more than 100 deep',
    )
  })

  it('throws only InvalidDetailsError, for any text', async () => {
    const yaml = fc
      .array(
        fc.constantFrom(
          'a',
          ':',
          ' ',
          '\n',
          '-',
          '[',
          ']',
          '{',
          '}',
          '&a',
          '*a',
          '!!',
          '"',
          '|',
          '<<',
          '1',
        ),
      )
      .map((parts) => parts.join(''))
    await fc.assert(
      fc.asyncProperty(fc.oneof(fc.string(), yaml, fc.json()), async (text) => {
        const error: unknown = await parseDetails(text, schema).then(
          () => undefined,
          (reason: unknown) => reason,
        )
        if (error !== undefined) expect(error).toBeInstanceOf(InvalidDetailsError)
      }),
    )
  })
})
