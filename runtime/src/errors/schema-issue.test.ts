import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import * as mini from 'zod/mini'
import { messageOf } from './errors.js'
import { issueMessage } from './schema-issue.js'

async function messagesOf(schema: z.core.$ZodType, value: unknown): Promise<string[]> {
  const { issues = [] } = await schema['~standard'].validate(value)
  return issues.map((issue) => issueMessage(issue, value))
}

describe('issueMessage', () => {
  it.each<[z.core.$ZodType, unknown, string]>([
    [z.string(), undefined, 'it is missing; write a text'],
    [mini.string(), undefined, 'it is missing; write a text'],
    [z.string(), 5, 'write a text, in quotes; it is 5'],
    [z.number(), '5', 'write a number, without quotes; it is "5"'],
    [z.int(), 1.5, 'write a whole number; it is 1.5'],
    [z.boolean(), 'yes', 'write true or false, without quotes; it is "yes"'],
    [z.array(z.string()), {}, 'write a list; it is a mapping'],
    [z.record(z.string(), z.string()), [], 'write a mapping; it is a list'],
    [z.strictObject({}), null, 'write a mapping; it is null'],
    [z.never(), 1, 'leave it out; it is 1'],
    [z.enum(['any', 'verify', 'true']), 'none', 'write any, verify or "true"; it is "none"'],
    [z.literal(1), 2, 'write 1; it is 2'],
    [z.string().min(1), '', 'write at least 1 character; it is ""'],
    [z.string().max(2), 'abc', 'write at most 2 characters; it is "abc"'],
    [z.string().length(2), 'abc', 'write exactly 2 characters; it is "abc"'],
    [z.array(z.string()).min(1), [], 'write at least 1 item; it is a list'],
    [z.number().min(60), 5, 'write at least 60; it is 5'],
    [z.number().gt(0), 0, 'write more than 0; it is 0'],
    [z.number().lt(1), 1, 'write less than 1; it is 1'],
    [z.number().multipleOf(5), 1, 'write a multiple of 5; it is 1'],
    [z.url(), 'hub', 'write a URL, such as http://host/path; it is "hub"'],
    [z.cuid(), '-', 'write a text of the right form (cuid); it is "-"'],
    [z.string().regex(/^[a-z]$/), '-', 'write a text that matches /^[a-z]$/; it is "-"'],
    [z.string().startsWith('/dev/'), 'x', 'write a text that begins with "/dev/"; it is "x"'],
    [
      z.union([z.boolean(), z.array(z.string())]),
      1,
      'write true or false, or write a list; it is 1',
    ],
    [
      z.discriminatedUnion('a', [z.object({ a: z.literal('b') })]),
      { a: 'c' },
      'write b; it is "c"',
    ],
    [
      z.record(z.string().min(2), z.number()),
      { a: 1 },
      'its name is not allowed: write at least 2 characters',
    ],
    [z.string().refine(() => false), 'a', 'write another value; it is "a"'],
    [z.string().regex(/^b$/, 'name b'), 'a', 'name b; it is "a"'],
    [z.string().refine(() => false, 'Invalid path'), 'a', 'Invalid path; it is "a"'],
    [z.email(), 'a', 'write an e-mail address; it is "a"'],
  ])('says what is there and what would be right (%#)', async (schema, value, message) => {
    expect(await messagesOf(z.object({ field: schema as z.ZodType }), { field: value })).toEqual([
      message,
    ])
  })

  it('has words for the types of other libraries, and keeps the messages of authors', () => {
    const [kind, path] = ['schema', [{ key: 'model' }]]
    const valibot = {
      ...{ kind, path, expected: 'string' },
      message: 'Invalid type: Expected string but received undefined',
    }
    expect(issueMessage(valibot, {})).toBe('it is missing; write a text')
    const arktype = { path: ['model'], message: 'model must be a string (was a number)' }
    expect(issueMessage(arktype, { model: 1 })).toBe(`${arktype.message}; it is 1`)
  })

  it('shows neither the value of a secret nor all of a value that is no mapping', async () => {
    const schema = z.object({ password: z.string() })
    expect(await messagesOf(schema, { password: 4711 })).toEqual([
      'write a text, in quotes; it is ***',
    ])
    expect(await messagesOf(schema, 'hunter2')).toEqual(['write a mapping; it is a text'])
  })
})

it('an error of a schema has its issues as text, a few of them', () => {
  const schema = z.array(z.object({ id: z.string().min(1) }))
  expect(messageOf(schema.safeParse([{ id: '' }, {}]).error)).toBe(
    '[0].id: write at least 1 character; [1].id: write a text',
  )
  const many = Array.from({ length: 1000 }, () => ({ id: '' }))
  expect(messageOf(schema.safeParse(many).error)).toMatch(/; and 995 more$/)
})
