import { systemClock } from '@akrijs/runtime'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import type { ApiClient } from './api-client.js'
import { failure } from './testing/failure.js'
import { answerWith, FakeApiServer } from './testing/fake-api-server.js'

const api = new FakeApiServer(systemClock)
const { sockets } = api
const serve: typeof api.listen = (...args) => api.listen(...args)
const connect: typeof api.connect = (...args) => api.connect(...args)

beforeEach(() => {
  api.answer = answerWith(200, {})
})

afterEach(() => api.close())

describe('lines', () => {
  async function linesOf(
    client: ApiClient,
    signal = new AbortController().signal,
  ): Promise<string[]> {
    const lines: string[] = []
    for await (const line of client.lines({ method: 'GET', path: '/x' }, signal)) lines.push(line)
    return lines
  }

  it('joins lines that arrive in pieces, also if a piece ends within a character', async () => {
    const client = connect(await serve())
    const bytes = Buffer.from('{"a":"zwölf €"}\n{"b":"🎥"}\n\n{"c":1}\n')
    api.answer = async (_request, response) => {
      response.socket?.setNoDelay(true)
      for (const byte of bytes) {
        await new Promise((resolve) => response.write(Buffer.of(byte), resolve))
        await new Promise((resolve) => setImmediate(resolve))
      }
      response.end()
    }
    expect(await linesOf(client)).toEqual(['{"a":"zwölf €"}', '{"b":"🎥"}', '', '{"c":1}'])
  })

  it('fails at a line that is too long', async () => {
    const client = connect(await serve(), { maxBytes: 50_000 })
    let closed = false
    api.answer = (_request, response) => {
      response.on('close', () => {
        closed = true
      })
      const more = () => {
        while (!closed && response.write('x'.repeat(10_000)));
        if (!closed) response.once('drain', more)
      }
      more()
    }
    expect(String(await failure(linesOf(client)))).toContain('a line has more than 50000 bytes')
    await eventually(() => expect(closed).toBe(true))
  })

  it('limits each line, not the sum of the lines', async () => {
    const client = connect(await serve(), { maxBytes: 50_000 })
    api.answer = (_request, response) => response.end(`${'x'.repeat(9999)}\n`.repeat(500))
    expect(await linesOf(client)).toHaveLength(500)
  })

  it('has no time limit', async () => {
    const client = connect(await serve(), { timeoutMs: 20 })
    api.answer = (_request, response) => {
      response.write('a\n')
      setTimeout(() => response.end('b\n'), 60)
    }
    expect(await linesOf(client)).toEqual(['a', 'b'])
  })

  it('ends at once when the signal is aborted, and leaves no connection', async () => {
    const client = connect(await serve())
    const stop = new AbortController()
    api.answer = (_request, response) => {
      response.write('a\n')
      setTimeout(() => stop.abort(), 20)
    }
    await failure(linesOf(client, stop.signal))
    await eventually(() => expect(sockets.every(({ destroyed }) => destroyed)).toBe(true))
  })

  it('closes the connection if the caller stops reading', async () => {
    const client = connect(await serve())
    api.answer = (_request, response) => response.write('a\nb\n')
    for await (const line of client.lines(
      { method: 'GET', path: '/x' },
      new AbortController().signal,
    )) {
      expect(line).toBe('a')
      break
    }
    await eventually(() => expect(sockets.every(({ destroyed }) => destroyed)).toBe(true))
  })

  it('rejects with the refusal of the server', async () => {
    const client = connect(await serve())
    api.answer = answerWith(410, { reason: 'Expired', message: 'too old' })
    expect(await failure(linesOf(client))).toMatchObject({ status: 410, reason: 'Expired' })
  })
})
