import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import http from 'node:http'
import https from 'node:https'
import type { AddressInfo, Socket } from 'node:net'
import { tmpdir } from 'node:os'
import path from 'node:path'
import { systemClock } from '@akrijs/sdk'
import { ManualClock } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { ApiClient, type ApiClientOptions } from './api-client.js'
import type { Credentials } from './cluster-access.js'
import { ApiError, ApiUnreachableError, ClusterAccessError, ObjectNameError } from './errors.js'
import { objectKey } from './names.js'
import { Resource } from './resource.js'

type Handler = (request: http.IncomingMessage, response: http.ServerResponse) => void

let ends: (() => unknown)[]
let sockets: Socket[]
let answer: Handler

beforeEach(() => {
  ends = []
  sockets = []
  answer = (_request, response) => response.end('{}')
})

afterEach(async () => {
  for (const end of ends.reverse()) await end()
})

async function serve(server: http.Server = http.createServer(), host = '127.0.0.1'): Promise<URL> {
  server.on('request', (request, response) => answer(request, response))
  server.on(server instanceof https.Server ? 'secureConnection' : 'connection', (socket) => sockets.push(socket))
  server.listen(0, host)
  await once(server, 'listening')
  ends.push(async () => {
    server.closeAllConnections()
    await new Promise((resolve) => server.close(resolve))
  })
  const { port } = server.address() as AddressInfo
  const secure = server instanceof https.Server
  return new URL(`${secure ? 'https' : 'http'}://${host.includes(':') ? `[${host}]` : host}:${port}`)
}

function connect(
  server: URL,
  options: Partial<ApiClientOptions> = {},
  credentials: () => Promise<Credentials> = async () => ({}),
) {
  const client = new ApiClient({ access: { server, credentials }, clock: systemClock, userAgent: 'test', ...options })
  ends.push(() => client.close())
  return client
}

const refuse = (status: number, body: unknown, headers: http.OutgoingHttpHeaders = {}): Handler => {
  return (_request, response) => response.writeHead(status, headers).end(typeof body === 'string' ? body : JSON.stringify(body))
}

async function failure(work: Promise<unknown>): Promise<unknown> {
  try {
    await work
  } catch (error) {
    return error
  }
  return expect.fail('it did not fail')
}

const get = (client: ApiClient, signal?: AbortSignal) => client.request({ method: 'GET', path: '/x', signal })

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

  it.each(['GET', 'PUT', 'DELETE'] as const)(
    'sends a %s again that a connection lost which the server had closed',
    async (method) => {
      const client = connect(await serve())
      await get(client)
      let requests = 0
      answer = (request, response) => {
        if (requests++ === 0) request.socket.destroy()
        else response.end('{"ok":true}')
      }
      expect(await client.request({ method, path: '/x' })).toEqual({ ok: true })
      expect(requests).toBe(2)
    },
  )

  it.each([
    { method: 'POST', body: {} },
    { method: 'PATCH', patch: 'json', body: [] },
  ] as const)('does not send a $method $patch again, which may have been carried out', async (request) => {
    const client = connect(await serve())
    await get(client)
    let requests = 0
    answer = ({ socket }) => {
      requests++
      socket.destroy()
    }
    expect(await failure(client.request({ path: '/x', ...request }))).toBeInstanceOf(ApiUnreachableError)
    expect(requests).toBe(1)
  })

  it('does not send again what a new connection lost', async () => {
    const client = connect(await serve())
    let requests = 0
    answer = ({ socket }) => {
      requests++
      socket.destroy()
    }
    expect(await failure(get(client))).toBeInstanceOf(ApiUnreachableError)
    expect(requests).toBe(1)
  })

  it('says that a server that is not there cannot be reached', async () => {
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
  ])('makes a refusal with %i %s one that is %s', async (status, reason, kind) => {
    const client = connect(await serve())
    answer = refuse(status, { kind: 'Status', status: 'Failure', reason, message: 'because of this' })
    const error = await failure(get(client))
    expect(error).toBeInstanceOf(ApiError)
    expect(error).toMatchObject({ code: 'AKRI_ERR_API', status, reason, kind })
    expect(String(error)).toContain('because of this')
  })

  it('shows what was said by something that is no API server', async () => {
    const client = connect(await serve())
    answer = refuse(502, '<html>bad gateway</html>')
    expect(await failure(get(client))).toMatchObject({
      status: 502,
      reason: 'Bad Gateway',
      message: expect.stringContaining('<html>'),
    })
  })

  it('takes the message of a Status that has no reason', async () => {
    const client = connect(await serve())
    answer = refuse(500, { message: 'no more room' })
    expect(await failure(get(client))).toMatchObject({ message: expect.stringMatching(/: no more room$/) })
  })

  it('keeps a message short', async () => {
    const client = connect(await serve())
    answer = refuse(422, { reason: 'Invalid', message: 'x'.repeat(100_000) })
    const error = await failure(get(client))
    expect(String(error).length).toBeLessThan(3000)
  })

  it('says that HTML is no answer', async () => {
    const client = connect(await serve())
    answer = refuse(200, '<html>please log in</html>', { 'content-type': 'text/html' })
    const error = await failure(get(client))
    expect(error).toBeInstanceOf(ApiUnreachableError)
    expect(String(error)).toMatch(/no JSON.*text\/html.*please log in/)
  })

  it.each([200, 500])('reads no more than it must of an endless answer with %i', async (status) => {
    const client = connect(await serve(), { maxBytes: 100_000 })
    let closed = false
    answer = (_request, response) => {
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
    await vi.waitFor(() => expect(closed).toBe(true))
  })

  it('waits no longer than it may for an answer that comes slowly', async () => {
    const client = connect(await serve())
    answer = (_request, response) => {
      response.write('{')
      const timer = setInterval(() => response.write(' '), 5)
      response.on('close', () => clearInterval(timer))
    }
    const error = await failure(client.request({ method: 'GET', path: '/x', timeoutMs: 100 }))
    expect(error).toBeInstanceOf(ApiUnreachableError)
    expect(String(error)).toContain('no answer within 100 ms')
  })

  it('says that an answer was cut in the middle', async () => {
    const client = connect(await serve())
    answer = (request, response) => {
      response.writeHead(200, { 'content-length': 100 })
      response.write('{"items":[', () => request.socket.destroy())
    }
    expect(await failure(get(client))).toBeInstanceOf(ApiUnreachableError)
  })

  it('ends a request at once when its signal is aborted', async () => {
    const client = connect(await serve())
    const stop = new AbortController()
    answer = () => stop.abort()
    await failure(get(client, stop.signal))
    await vi.waitFor(() => expect(sockets.every(({ destroyed }) => destroyed)).toBe(true))
  })

  it('is not kept by a program that gives no credentials', async () => {
    const client = connect(await serve(), { timeoutMs: 50 }, () => new Promise(() => {}))
    expect(String(await failure(get(client)))).toContain('no answer within 50 ms')
  })

  it('tells of every answer', async () => {
    const seen: unknown[] = []
    const client = connect(await serve(), { onAnswer: (one) => seen.push(one) })
    await get(client)
    answer = refuse(404, {})
    await failure(get(client))
    expect(seen).toEqual([
      { method: 'GET', status: 200 },
      { method: 'GET', status: 404 },
    ])
  })
})

describe('a server with too much to do', () => {
  it('is asked again after the time that it wants', async () => {
    const clock = new ManualClock()
    const client = connect(await serve(), { clock })
    let requests = 0
    answer = (request, response) => {
      if (requests++ === 0)
        refuse(429, { reason: 'TooManyRequests', message: 'later' }, { 'retry-after': '7' })(request, response)
      else response.end('{"ok":true}')
    }
    const answered = get(client)
    await clock.untilSleeping()
    expect(clock.sleeping).toEqual([7000])
    await clock.advance(7000)
    expect(await answered).toEqual({ ok: true })
  })

  it('is asked six times at most', async () => {
    const clock = new ManualClock()
    const client = connect(await serve(), { clock })
    let requests = 0
    answer = (request, response) => {
      requests++
      refuse(429, { reason: 'TooManyRequests', message: 'later' }, { 'retry-after': '100000' })(request, response)
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

describe('credentials', () => {
  const withToken = (token: () => string) => async () => ({ token: token() })

  it('reads the token again, once, when the server does not know it', async () => {
    let reads = 0
    const client = connect(
      await serve(),
      {},
      withToken(() => `token-${++reads}`),
    )
    answer = ({ headers }, response) => response.writeHead(headers.authorization === 'Bearer token-2' ? 200 : 401).end('{}')
    expect(await get(client)).toEqual({})
    answer = refuse(401, { reason: 'Unauthorized', message: 'who are you' })
    expect(await failure(get(client))).toMatchObject({ status: 401 })
    expect(reads).toBe(3)
  })

  it('reads the token again each minute', async () => {
    const clock = new ManualClock()
    let token = 'old'
    const client = connect(
      await serve(),
      { clock },
      withToken(() => token),
    )
    const seen: unknown[] = []
    answer = ({ headers }, response) => {
      seen.push(headers.authorization)
      response.end('{}')
    }
    await get(client)
    token = 'new'
    await clock.advance(59_999)
    await get(client)
    await clock.advance(1)
    await get(client)
    expect(seen).toEqual(['Bearer old', 'Bearer old', 'Bearer new'])
  })

  it('says why there are none', async () => {
    const client = connect(await serve(), {}, async () => {
      throw new ClusterAccessError('the token cannot be read')
    })
    expect(await failure(get(client))).toMatchObject({ message: expect.stringContaining('the token cannot be read') })
  })
})

const openssl = (() => {
  try {
    return execFileSync('openssl', ['version']).length > 0
  } catch {
    return false
  }
})()

describe.skipIf(!openssl)(`TLS${openssl ? '' : ' (needs openssl)'}`, () => {
  let directory: string

  beforeEach(() => {
    directory = mkdtempSync(path.join(tmpdir(), 'akri-tls-'))
    ends.push(() => rmSync(directory, { recursive: true }))
  })

  const file = (name: string) => path.join(directory, name)
  const pem = (name: string) => readFileSync(file(name), 'utf8')
  const run = (...args: string[]) => execFileSync('openssl', args, { cwd: directory, stdio: 'pipe' })

  function authority(name: string): void {
    const subject = ['-subj', `/CN=${name}`, '-days', '2']
    run(
      'req',
      '-x509',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.crt`,
      ...subject,
    )
  }

  function certificate(name: string, by: string, altName = 'IP:127.0.0.1'): void {
    writeFileSync(file(`${name}.ext`), `subjectAltName=${altName}\n`)
    run(
      'req',
      '-newkey',
      'ec',
      '-pkeyopt',
      'ec_paramgen_curve:P-256',
      '-nodes',
      '-keyout',
      `${name}.key`,
      '-out',
      `${name}.csr`,
      '-subj',
      `/CN=${name}`,
    )
    run(
      'x509',
      '-req',
      '-in',
      `${name}.csr`,
      '-CA',
      `${by}.crt`,
      '-CAkey',
      `${by}.key`,
      '-CAcreateserial',
      '-out',
      `${name}.crt`,
      '-days',
      '2',
      '-extfile',
      `${name}.ext`,
    )
  }

  it('trusts who signs the certificate of the server and nobody else, also after the authority was changed', async () => {
    const clock = new ManualClock()
    authority('one')
    authority('two')
    certificate('server', 'one')
    const server = https.createServer({ cert: pem('server.crt'), key: pem('server.key') })
    let ca = 'one.crt'
    const client = connect(await serve(server), { clock }, async () => ({ ca: pem(ca) }))
    await get(client)
    await get(client)
    expect(sockets).toHaveLength(1)

    ca = 'two.crt'
    await clock.advance(60_000)
    expect(await failure(get(client))).toBeInstanceOf(ApiUnreachableError)

    certificate('server2', 'two')
    server.setSecureContext({ cert: pem('server2.crt'), key: pem('server2.key') })
    expect(await get(client)).toEqual({})
  })

  it('refuses a certificate of another name, unless it is the one to expect or none is to be checked', async () => {
    authority('one')
    certificate('server', 'one', 'DNS:kubernetes.example')
    const url = await serve(https.createServer({ cert: pem('server.crt'), key: pem('server.key') }))
    const ca = pem('one.crt')
    expect(String(await failure(get(connect(url, {}, async () => ({ ca })))))).toMatch(/altnames/i)
    expect(await get(connect(url, {}, async () => ({ ca, serverName: 'kubernetes.example' })))).toEqual({})
    expect(await get(connect(url, {}, async () => ({ verify: false })))).toEqual({})
  })

  it('shows its own certificate', async () => {
    authority('one')
    certificate('server', 'one')
    certificate('client', 'one')
    const server = https.createServer({
      cert: pem('server.crt'),
      key: pem('server.key'),
      ca: pem('one.crt'),
      requestCert: true,
      rejectUnauthorized: true,
    })
    const url = await serve(server)
    const ca = pem('one.crt')
    expect(await get(connect(url, {}, async () => ({ ca, cert: pem('client.crt'), key: pem('client.key') })))).toEqual({})
    expect(await failure(get(connect(url, {}, async () => ({ ca }))))).toBeInstanceOf(ApiUnreachableError)
  })
})

describe('paths', () => {
  it('escapes names and values', async () => {
    const client = connect(new URL('/prefix/', await serve()))
    let url: string | undefined
    answer = (request, response) => {
      url = request.url
      response.end('{}')
    }
    const things = new Resource(client, { group: 'a.b', version: 'v1', plural: 'things' })
    await things.get(objectKey('name space', 'x/../y?z#ü%'))
    expect(url).toBe('/prefix/apis/a.b/v1/namespaces/name%20space/things/x%2F..%2Fy%3Fz%23%C3%BC%25')
    await client.request({ method: 'GET', path: '/x', query: { labelSelector: 'a=b&c,d', limit: 5, continue: undefined } })
    expect(url).toBe('/prefix/x?labelSelector=a%3Db%26c%2Cd&limit=5')
  })

  it('knows kinds without a namespace and the core group', async () => {
    const client = connect(await serve())
    let url: string | undefined
    answer = (request, response) => {
      url = request.url
      response.end('{}')
    }
    await new Resource(client, { group: '', version: 'v1', plural: 'nodes' }).get(objectKey('', 'a'))
    expect(url).toBe('/api/v1/nodes/a')
  })

  it.each(['', '.', '..'])('sends nothing for an object named "%s": the path would be of something else', async (name) => {
    const client = connect(await serve())
    let requests = 0
    answer = (_request, response) => {
      requests++
      response.end('{}')
    }
    const things = new Resource(client, { group: 'a.b', version: 'v1', plural: 'things' })
    for (const work of [
      things.get(objectKey('n', name)),
      things.delete(objectKey('n', name)),
      things.replace(objectKey('n', name), {}),
      things.patch(objectKey('n', name), 'merge', {}),
      things.apply(objectKey('n', name), {}, 'm'),
    ])
      expect(await failure(work)).toBeInstanceOf(ObjectNameError)
    expect(requests).toBe(0)
  })
})

describe('lines', () => {
  async function linesOf(client: ApiClient, signal = new AbortController().signal): Promise<string[]> {
    const lines: string[] = []
    for await (const line of client.lines({ method: 'GET', path: '/x' }, signal)) lines.push(line)
    return lines
  }

  it('puts lines together that come in pieces, also in the middle of a character', async () => {
    const client = connect(await serve())
    const bytes = Buffer.from('{"a":"zwölf €"}\n{"b":"🎥"}\n\n{"c":1}\n')
    answer = async (_request, response) => {
      response.socket?.setNoDelay(true)
      for (const byte of bytes) {
        await new Promise((resolve) => response.write(Buffer.of(byte), resolve))
        await new Promise((resolve) => setImmediate(resolve))
      }
      response.end()
    }
    expect(await linesOf(client)).toEqual(['{"a":"zwölf €"}', '{"b":"🎥"}', '', '{"c":1}'])
  })

  it('leaves out a last line that was cut', async () => {
    const client = connect(await serve())
    answer = (_request, response) => response.end('{"a":1}\n{"b":')
    expect(await linesOf(client)).toEqual(['{"a":1}'])
  })

  it('ends at a line that is too long', async () => {
    const client = connect(await serve(), { maxBytes: 50_000 })
    let closed = false
    answer = (_request, response) => {
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
    await vi.waitFor(() => expect(closed).toBe(true))
  })

  it('does not count together what many short lines have', async () => {
    const client = connect(await serve(), { maxBytes: 50_000 })
    answer = (_request, response) => response.end(`${'x'.repeat(9999)}\n`.repeat(500))
    expect(await linesOf(client)).toHaveLength(500)
  })

  it('goes on for longer than an answer may take', async () => {
    const client = connect(await serve(), { timeoutMs: 20 })
    answer = (_request, response) => {
      response.write('a\n')
      setTimeout(() => response.end('b\n'), 60)
    }
    expect(await linesOf(client)).toEqual(['a', 'b'])
  })

  it('ends at once when the signal is aborted, and leaves no connection', async () => {
    const client = connect(await serve())
    const stop = new AbortController()
    answer = (_request, response) => {
      response.write('a\n')
      setTimeout(() => stop.abort(), 20)
    }
    await failure(linesOf(client, stop.signal))
    await vi.waitFor(() => expect(sockets.every(({ destroyed }) => destroyed)).toBe(true))
  })

  it('leaves no connection to who does not read on', async () => {
    const client = connect(await serve())
    answer = (_request, response) => response.write('a\nb\n')
    for await (const line of client.lines({ method: 'GET', path: '/x' }, new AbortController().signal)) {
      expect(line).toBe('a')
      break
    }
    await vi.waitFor(() => expect(sockets.every(({ destroyed }) => destroyed)).toBe(true))
  })

  it('gives the refusal of the server', async () => {
    const client = connect(await serve())
    answer = refuse(410, { reason: 'Expired', message: 'too old' })
    expect(await failure(linesOf(client))).toMatchObject({ status: 410, reason: 'Expired' })
  })
})
