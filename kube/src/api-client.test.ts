import { once } from 'node:events'
import http from 'node:http'
import type { AddressInfo } from 'node:net'
import { runWithClock, systemClock } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import type { ApiClient, ApiClientOptions } from './api-client.js'
import { ApiError, ApiUnreachableError } from './errors.js'
import { failure, get } from './testing/failure.js'
import { answerWith, FakeApiServer } from './testing/fake-api-server.js'

const api = new FakeApiServer(systemClock)
const { sockets } = api
const serve: typeof api.listen = (...args) => api.listen(...args)
const connect: typeof api.connect = (...args) => api.connect(...args)

beforeEach(() => {
  api.answer = answerWith(200, {})
})

afterEach(() => api.close())

describe('connections', () => {
  it('uses one connection for a hundred requests', async () => {
    const client = connect(await serve())
    for (let i = 0; i < 100; i++) await get(client)
    expect(sockets).toHaveLength(1)
  })

  it('reaches a server by an IPv6 address', async () => {
    const client = connect(await serve(http.createServer(), '::1'))
    expect(await get(client)).toEqual({})
  })

  it.each([
    { method: 'GET' },
    { method: 'PUT' },
    { method: 'DELETE' },
    { method: 'PATCH', patch: 'json', body: [{ op: 'test', path: '/a', value: 1 }] },
  ] as const)(
    'repeats a $method that was lost on a connection which the server had closed',
    async (request) => {
      const client = connect(await serve())
      await get(client)
      let requests = 0
      api.answer = (request, response) => {
        if (requests++ === 0) request.socket.destroy()
        else response.end('{"ok":true}')
      }
      expect(await client.request({ path: '/x', ...request })).toEqual({ ok: true })
      expect(requests).toBe(2)
    },
  )

  it.each([
    { method: 'POST', body: {} },
    { method: 'PATCH', patch: 'json', body: [] },
    { method: 'PATCH', patch: 'json', body: [{ op: 'add', path: '/a/-', value: 1 }] },
  ] as const)(
    'does not repeat a $method $patch: the server may have executed it',
    async (request) => {
      const client = connect(await serve())
      await get(client)
      let requests = 0
      api.answer = ({ socket }) => {
        requests++
        socket.destroy()
      }
      expect(await failure(client.request({ path: '/x', ...request }))).toBeInstanceOf(
        ApiUnreachableError,
      )
      expect(requests).toBe(1)
    },
  )

  it('reports that an absent server cannot be reached', async () => {
    const server = http.createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await new Promise((resolve) => server.close(resolve))
    const error = await failure(get(connect(new URL(`http://127.0.0.1:${port}`))))
    expect(error).toMatchObject({ code: 'AKRI_ERR_API_UNREACHABLE', kind: 'transient' })
    expect(String(error)).toContain('GET /x')
  })
})

describe('answers', () => {
  it.each([
    [400, 'BadRequest', 'terminal'],
    [403, 'Forbidden', 'transient'],
    [409, 'Conflict', 'transient'],
    [422, 'Invalid', 'terminal'],
    [500, 'InternalError', 'transient'],
  ])('gives a refusal with %i %s the kind %s', async (status, reason, kind) => {
    const client = connect(await serve())
    api.answer = answerWith(status, {
      kind: 'Status',
      status: 'Failure',
      reason,
      message: 'because of this',
    })
    const error = await failure(get(client))
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ code: 'AKRI_ERR_API', status, reason, kind })
    expect(String(error)).toContain('because of this')
  })

  it('shows the answer of a program that is no API server', async () => {
    const client = connect(await serve())
    api.answer = answerWith(502, '<html>bad gateway</html>')
    expect(await failure(get(client))).toMatchObject({
      status: 502,
      reason: 'Bad Gateway',
      message: expect.stringContaining('<html>'),
    })
  })

  it('shows the message of a Status without a reason', async () => {
    const client = connect(await serve())
    api.answer = answerWith(500, { message: 'no more room' })
    expect(await failure(get(client))).toMatchObject({
      message: expect.stringMatching(/: no more room$/),
    })
  })

  it('shortens a long message', async () => {
    const client = connect(await serve())
    api.answer = answerWith(422, { reason: 'Invalid', message: 'x'.repeat(100_000) })
    const error = await failure(get(client))
    expect(String(error).length).toBeLessThan(3000)
  })

  it('refuses HTML as an answer', async () => {
    const client = connect(await serve())
    api.answer = answerWith(200, '<html>please log in</html>', { 'content-type': 'text/html' })
    const error = await failure(get(client))
    expect(error).toBeInstanceOf(ApiUnreachableError)
    expect(String(error)).toMatch(/no JSON.*text\/html.*please log in/)
  })

  it.each([200, 500])('limits what it reads of an endless answer with %i', async (status) => {
    const client = connect(await serve(), { maxBytes: 100_000 })
    let closed = false
    api.answer = (_request, response) => {
      response.writeHead(status)
      response.on('close', () => {
        closed = true
      })
      const more = () => {
        while (!closed && response.write('x'.repeat(10_000)));
        if (!closed) response.once('drain', more)
      }
      more()
    }
    await failure(get(client))
    await eventually(() => expect(closed).toBe(true))
  })

  it('applies the time limit to a slow answer', async () => {
    const client = connect(await serve())
    api.answer = (_request, response) => {
      response.write('{')
      const timer = setInterval(() => response.write(' '), 5)
      response.on('close', () => clearInterval(timer))
    }
    const error = await failure(client.request({ method: 'GET', path: '/x', timeoutMs: 100 }))
    expect(error).toBeInstanceOf(ApiUnreachableError)
    expect(String(error)).toContain('no answer within 100 ms')
  })

  it('reports an answer that was cut', async () => {
    const client = connect(await serve())
    api.answer = (request, response) => {
      response.writeHead(200, { 'content-length': 100 })
      response.write('{"items":[', () => request.socket.destroy())
    }
    expect(await failure(get(client))).toBeInstanceOf(ApiUnreachableError)
  })

  it('ends a request at once when its signal is aborted', async () => {
    const client = connect(await serve())
    const stop = new AbortController()
    api.answer = () => stop.abort()
    await failure(get(client, stop.signal))
    await eventually(() => expect(sockets.every(({ destroyed }) => destroyed)).toBe(true))
  })

  it('ends at its time limit while a source of credentials hangs', async () => {
    const client = connect(await serve(), { timeoutMs: 50 }, () => new Promise(() => {}))
    expect(String(await failure(get(client)))).toContain('no answer within 50 ms')
  })

  it('reports every answer', async () => {
    const seen: unknown[] = []
    const client = connect(await serve(), { onAnswer: (answer) => seen.push(answer) })
    await get(client)
    api.answer = answerWith(404, {})
    await failure(get(client))
    expect(seen).toEqual([
      { method: 'GET', status: 200 },
      { method: 'GET', status: 404 },
    ])
  })
})

describe('failures', () => {
  const failed = () => {
    const seen: string[] = []
    const onFailure: ApiClientOptions['onFailure'] = ({ method, path }, error) =>
      void seen.push(`${method} ${path} ${error.code}`)
    return { seen, onFailure }
  }

  it('are reported, those of lines too', async () => {
    const { seen, onFailure } = failed()
    const client = connect(await serve(), { onFailure })
    await get(client)
    api.answer = answerWith(500, {})
    await failure(get(client))
    const lines = client.lines({ method: 'GET', path: '/watch' }, new AbortController().signal)
    await failure(lines.next())
    api.answer = () => {}
    await failure(client.request({ method: 'GET', path: '/x', timeoutMs: 20 }))
    expect(seen).toEqual([
      expect.stringMatching(/^GET \S+ AKRI_ERR_API$/),
      'GET /watch AKRI_ERR_API',
      expect.stringMatching(/^GET \S+ AKRI_ERR_API_UNREACHABLE$/),
    ])
  })

  it('do not include requests that their caller ended', async () => {
    const { seen, onFailure } = failed()
    const client = connect(await serve(), { onFailure })
    const stop = new AbortController()
    api.answer = () => stop.abort()
    await failure(get(client, stop.signal))
    expect(seen).toEqual([])
  })
})

describe('a busy server', () => {
  it('is asked again after the time that it names', async () => {
    const clock = new ManualClock()
    const client = connect(await serve(), { clock })
    let requests = 0
    api.answer = (request, response) => {
      if (requests++ === 0)
        answerWith(
          429,
          { reason: 'TooManyRequests', message: 'later' },
          { 'retry-after': '7' },
        )(request, response)
      else response.end('{"ok":true}')
    }
    const answered = get(client)
    await clock.untilSleeping()
    expect(clock.sleeping).toEqual([7000])
    await clock.advance(7000)
    expect(await answered).toEqual({ ok: true })
  })

  it('has answered, although the time limit of a request ends before the wait', async () => {
    const clock = new ManualClock()
    const client = connect(await serve(), { clock, timeoutMs: 10_000 })
    api.answer = answerWith(
      429,
      { reason: 'TooManyRequests', message: 'later' },
      { 'retry-after': '20' },
    )
    const failed = runWithClock(clock, () => failure(get(client)))
    await eventually(() => expect(clock.sleeping).toContain(20_000))
    await clock.advance(10_000)
    expect(await failed).toMatchObject({ status: 429, answer: 'later' })
  })

  it('is asked at most six times', async () => {
    const clock = new ManualClock()
    const client = connect(await serve(), { clock })
    let requests = 0
    api.answer = (request, response) => {
      requests++
      answerWith(
        429,
        { reason: 'TooManyRequests', message: 'later' },
        { 'retry-after': '100000' },
      )(request, response)
    }
    const failed = failure(get(client))
    for (let i = 0; i < 5; i++) {
      await clock.untilSleeping()
      // However long the server wants us to wait.
      expect(clock.sleeping).toEqual([30_000])
      await clock.advance(30_000)
    }
    expect(await failed).toMatchObject({ status: 429, retryAfterMs: 100_000_000 })
    expect(requests).toBe(6)
  })
})

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
