import { systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, describe, expect, it } from 'vitest'
import { ServerWarnings, warningsIn } from './server-warnings.js'
import { get } from './testing/failure.js'
import { FakeApiServer } from './testing/fake-api-server.js'

describe('warnings of an API server', () => {
  it.each([
    ['a text', '299 - "unknown field \\"spec.x\\""', ['unknown field "spec.x"']],
    ['several in a header', '299 - "one, \\\\ two",299 host:80 "three"', ['one, \\ two', 'three']],
    ['a date', '299 - "old" "Sat, 25 Aug 2012 23:34:45 GMT", 299 - "new"', ['old', 'new']],
    ['another code', '110 - "stale", 299 - "new"', ['new']],
    ['UTF-8', `299 - "${Buffer.from('für … 字').toString('latin1')}"`, ['für … 字']],
    ['characters that terminals obey', '299 - "a\u001b[2Jb\u009bc"', ['a\ufffd[2Jb\ufffdc']],
    ['no end of the text', '299 - "open', []],
    ['no warning', 'text', []],
    ['nothing', '', []],
  ])('are read: %s', (_, header, texts) => {
    expect(warningsIn([header])).toEqual(texts)
  })

  it('are bounded in number and length', () => {
    const header = Array.from({ length: 500 }, (_, i) => `299 - "${i} ${'x'.repeat(5000)}"`).join()
    const texts = warningsIn([header, header])
    expect(texts).toHaveLength(20)
    expect(Math.max(...texts.map(({ length }) => length))).toBe(1000)
  })

  it('are passed on once for each text, and within a budget', async () => {
    const clock = new ManualClock()
    const texts: string[] = []
    const warnings = new ServerWarnings(clock, (text) => texts.push(text))
    const say = (text: string) => warnings.read([`299 - "${text}"`], 'GET /x')
    for (let i = 0; i < 3; i++) say('same')
    expect(texts).toEqual(['same'])
    for (let i = 0; i < 1000; i++) say(`other ${i}`)
    expect(texts).toHaveLength(50)
    await clock.advance(10_000)
    say('other 1000')
    say('other 1001')
    say('same')
    expect(texts.slice(50)).toEqual(['other 1000'])
  })
})

describe('the client', () => {
  const api = new FakeApiServer(systemClock)

  afterEach(() => api.close())

  it('reads warnings of answers and of refusals', async () => {
    const texts: string[] = []
    const onWarning = (text: string, request: string) => texts.push(`${request}: ${text}`)
    const client = api.connect(await api.listen(), { onWarning })
    let status = 200
    api.answer = (_, response) => {
      response.setHeader('warning', [`299 - "one"`, `299 - "status ${status}"`])
      response.writeHead(status).end('{}')
    }
    await get(client)
    status = 403
    await expect(get(client)).rejects.toThrow('403')
    expect(texts).toEqual(['GET /x: one', 'GET /x: status 200', 'GET /x: status 403'])
  })
})
