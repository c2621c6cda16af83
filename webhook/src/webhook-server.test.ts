import https from 'node:https'
import net from 'node:net'
import tls from 'node:tls'
import { silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { afterEach, describe, expect, it } from 'vitest'
import { eventually } from '../../test/support/eventually.js'
import { issueAuthority, issueServerCertificate } from './certificates/x509.js'
import type { AdmissionRequest, Verdict } from './review/admission-review.js'
import { WebhookServer } from './webhook-server.js'

const validity = {
  notBefore: new Date(Date.now() - 60_000),
  notAfter: new Date(Date.now() + 3_600_000),
}
const authority = await issueAuthority('test', validity)
const keyPair = await issueServerCertificate(['localhost'], validity, authority)
const ALLOWED: Verdict = { outcome: 'allowed', warnings: [] }

const question = JSON.stringify({
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  request: { uid: 'u', operation: 'CREATE', object: {} },
})
const answer = {
  apiVersion: 'admission.k8s.io/v1',
  kind: 'AdmissionReview',
  response: { uid: 'u', allowed: true },
}

let server: WebhookServer
let outcomes: string[]
let warnings: unknown[]
let clock: ManualClock

async function open(review: (request: AdmissionRequest) => Promise<Verdict> = async () => ALLOWED) {
  outcomes = []
  warnings = []
  clock = new ManualClock()
  server = await WebhookServer.open({
    port: 0,
    host: '127.0.0.1',
    keyPair,
    review,
    onReview: (operation, outcome) => outcomes.push(`${operation} ${outcome}`),
    clock,
    log: { ...silentLogger, warn: (fields) => warnings.push(fields) },
  })
}

afterEach(() => server.close())

interface Answer {
  readonly status: number
  readonly text: string
  readonly headers: Readonly<Record<string, unknown>>
}

function ask(
  body: string | Buffer,
  {
    method = 'POST',
    path = '/validate?timeout=5s',
    headers = {},
    agent = false as https.Agent | false,
  } = {},
): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const options = {
      host: '127.0.0.1',
      port: server.port,
      servername: 'localhost',
      ca: authority.cert,
    }
    const call = https.request({ ...options, method, path, headers, agent }, (response) => {
      let text = ''
      response.on('data', (chunk) => {
        text += String(chunk)
      })
      response.on('end', () =>
        resolve({ status: response.statusCode ?? 0, text, headers: response.headers }),
      )
    })
    call.on('error', reject)
    call.end(body)
  })
}

/** A TLS connection, and the text that it receives until its end. */
function connection(localAddress = '127.0.0.1'): Promise<{
  socket: tls.TLSSocket
  received: Promise<string>
  certificate: string | undefined
}> {
  return new Promise((resolve, reject) => {
    const socket = tls.connect({
      socket: net.connect({ host: '127.0.0.1', port: server.port, localAddress }),
      servername: 'localhost',
      ca: authority.cert,
    })
    let text = ''
    const received = new Promise<string>((done) => {
      socket.on('data', (chunk) => {
        text += String(chunk)
      })
      socket.on('close', () => done(text))
    })
    socket.on('secureConnect', () =>
      resolve({ socket, received, certificate: socket.getPeerX509Certificate()?.fingerprint256 }),
    )
    socket.on('error', reject)
  })
}

const post = (body: string, length = body.length) =>
  `POST /validate HTTP/1.1\r\nhost: a\r\ncontent-length: ${length}\r\n\r\n${body}`

const large = (bytes: number) =>
  `${question.slice(0, -1)},"more":"${'x'.repeat(bytes - question.length - 10)}"}`

describe('the server of the webhook', () => {
  it('R66 answers a review', async () => {
    await open()
    const { status, text } = await ask(question, {
      headers: { 'content-type': 'application/json' },
    })
    expect([status, JSON.parse(text)]).toEqual([200, answer])
    expect(outcomes).toEqual(['CREATE allowed'])
  })

  it.each<[string, string | Buffer, object, number, RegExp]>([
    ['another path', question, { path: '/' }, 404, /there is \/validate/],
    ['another method', '', { method: 'GET' }, 405, /only POST/],
    [
      'another type of content',
      question,
      { headers: { 'content-type': 'text/yaml' } },
      415,
      /application\/json/,
    ],
    ['a body that is no JSON', '{', {}, 400, /no JSON/],
    ['an empty body', '', {}, 400, /no JSON/],
    ['bytes that are no UTF-8', Buffer.from([0xff, 0xfe]), {}, 400, /no JSON/],
    [
      'a review without a request',
      '{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview"}',
      {},
      400,
      /has no request/,
    ],
    ['too many values', `[${'{},'.repeat(200_000)}{}]`, {}, 413, /more than 50000 values/],
    ['a body that is too large', large(4 * 1024 * 1024 + 1), {}, 413, /more than 4194304 bytes/],
    [
      'a body that is too large, without a length',
      large(4 * 1024 * 1024 + 1),
      { headers: { 'transfer-encoding': 'chunked' } },
      413,
      /more than/,
    ],
    ['headers without an end', question, { headers: { more: 'x'.repeat(20_000) } }, 431, /^$/],
  ])('W1 refuses %s, and answers the next request', async (_what, body, options, status, text) => {
    await open()
    expect(await ask(body, options)).toMatchObject({ status, text: expect.stringMatching(text) })
    expect(await ask(question)).toMatchObject({ status: 200 })
  })

  it('reads a body of the largest size, with a length and without', async () => {
    await open()
    for (const headers of [{}, { 'transfer-encoding': 'chunked' }])
      expect(await ask(large(4 * 1024 * 1024), { headers })).toMatchObject({ status: 200 })
  })

  it('answers a small review while slow bodies of another address fill the memory', async () => {
    await open()
    const slow = await Promise.all(Array.from({ length: 5 }, () => connection('127.0.0.2')))
    const body = large(4 * 1024 * 1024)
    for (const { socket } of slow) {
      socket.write(post(body.slice(0, -1), body.length))
      expect(await ask(question)).toMatchObject({ status: 200 })
    }
    expect(await Promise.race(slow.map(({ received }) => received))).toBe('')
    expect(await ask(question)).toMatchObject({ status: 200 })
    for (const { socket } of slow) socket.destroy()
  })

  it('answers a small review while many large reviews of another address wait', async () => {
    let release: (verdict: Verdict) => void = () => {}
    const held = new Promise<Verdict>((resolve) => {
      release = resolve
    })
    await open(async ({ object }) => (Array.isArray(object) ? held : ALLOWED))
    const object = Array.from({ length: 49_000 }, () => 0)
    const request = { uid: 'u', operation: 'CREATE', object }
    const many = JSON.stringify({ ...JSON.parse(question), request })
    const large = await Promise.all(Array.from({ length: 8 }, () => connection('127.0.0.2')))
    for (const { socket } of large) socket.write(post(many))
    try {
      const dropped = {
        server: 'memory of the webhook',
        peer: '127.0.0.2',
        limit: 16 * 1024 * 1024,
      }
      await eventually(() => expect(warnings).toEqual([dropped]))
      expect(await ask(question)).toMatchObject({ status: 200 })
    } finally {
      release(ALLOWED)
      for (const { socket } of large) socket.destroy()
    }
  })

  it('begins one review in an iteration of the event loop', async () => {
    let iteration = 0
    const iterations: number[] = []
    await open(async () => {
      iterations.push(iteration)
      return ALLOWED
    })
    const clients = await Promise.all(Array.from({ length: 20 }, () => connection()))
    const next = () => {
      iteration++
      if (iterations.length < clients.length) setImmediate(next)
    }
    setImmediate(next)
    for (const { socket } of clients) socket.write(post(question))
    await eventually(() => expect(iterations).toHaveLength(clients.length))
    expect(new Set(iterations).size).toBe(clients.length)
    for (const { socket } of clients) socket.destroy()
  })

  it('W1 answers that a review failed', async () => {
    await open(() => Promise.reject(new Error('a secret')))
    expect(await ask(question)).toMatchObject({
      status: 500,
      text: expect.not.stringContaining('secret'),
    })
    expect(outcomes).toEqual(['CREATE failed'])
  })

  it('ends connections that take too long for a handshake, for headers or for a body', async () => {
    await open()
    const silent = net.connect({ host: '127.0.0.1', port: server.port })
    const ended = new Promise<void>((resolve) => silent.on('close', () => resolve()))
    silent.resume()
    const [headers, body] = [await connection(), await connection()]
    headers.socket.write('POST /validate HTTP/1.1\r\nhost: a\r\n')
    body.socket.write('POST /validate HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{')
    expect(await ask(question)).toMatchObject({ status: 200 })
    await ended
    expect(await headers.received).toContain('408')
    expect(await body.received).toContain('408')
  })

  it('answers while others keep more connections open than it serves', async () => {
    await open()
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 })
    const flood: net.Socket[] = []
    try {
      expect(await ask(question, { agent })).toMatchObject({ status: 200 })
      for (let number = 0; number < 100; number++) {
        const idle = await connection(`127.0.0.${2 + (number % 5)}`)
        idle.socket.on('error', () => {})
        flood.push(idle.socket)
      }
      for (let number = 0; number < 700; number++) {
        const localAddress = `127.0.0.${10 + (number % 20)}`
        const silent = net.connect({ host: '127.0.0.1', port: server.port, localAddress })
        silent.on('error', () => {})
        flood.push(silent)
        if (number % 100 === 0) expect(await ask(question)).toMatchObject({ status: 200 })
      }
      // The connection that the API server kept is still there.
      const [free] = Object.values(agent.freeSockets).flat()
      expect(await ask(question, { agent })).toMatchObject({ status: 200 })
      expect(Object.values(agent.freeSockets).flat()).toEqual([free])
    } finally {
      agent.destroy()
      for (const socket of flood) socket.destroy()
    }
  })

  it('survives a client that disconnects within a request', async () => {
    await open()
    const { socket, received } = await connection()
    socket.write('POST /validate HTTP/1.1\r\nhost: a\r\ncontent-length: 100\r\n\r\n{')
    socket.destroy()
    await received
    expect(await ask(question)).toMatchObject({ status: 200 })
  })

  it('speaks TLS 1.2 or newer', async () => {
    await open()
    const version = (most: tls.SecureVersion) =>
      new Promise((resolve, reject) => {
        const options = {
          host: '127.0.0.1',
          port: server.port,
          servername: 'localhost',
          ca: authority.cert,
        }
        const socket = tls.connect(
          { ...options, minVersion: 'TLSv1', maxVersion: most, ciphers: 'DEFAULT@SECLEVEL=0' },
          () => {
            resolve(socket.getProtocol())
            socket.destroy()
          },
        )
        socket.on('error', reject)
      })
    expect(await version('TLSv1.3')).toBe('TLSv1.3')
    expect(await version('TLSv1.2')).toBe('TLSv1.2')
    await expect(version('TLSv1.1')).rejects.toThrow()
  })

  it('renegotiates no connection', async () => {
    await open()
    const socket = tls.connect({
      socket: net.connect({ host: '127.0.0.1', port: server.port }),
      servername: 'localhost',
      ca: authority.cert,
      maxVersion: 'TLSv1.2',
    })
    await new Promise((resolve) => socket.once('secureConnect', resolve))
    const error = await new Promise((resolve) => {
      socket.on('error', resolve)
      socket.renegotiate({}, resolve)
    })
    expect(String(error)).toMatch(/no renegotiation/i)
    socket.destroy()
  })

  it('takes over another certificate while connections are open', async () => {
    await open()
    const agent = new https.Agent({ keepAlive: true, maxSockets: 1 })
    try {
      expect(await ask(question, { agent })).toMatchObject({ status: 200 })
      const before = await connection()
      server.renew(await issueServerCertificate(['localhost'], validity, authority))
      const after = await connection()
      expect(after.certificate).not.toBe(before.certificate)
      // Open connections continue.
      expect(await ask(question, { agent })).toMatchObject({ status: 200 })
      for (const { socket, received } of [before, after]) {
        socket.write(
          'POST /validate HTTP/1.1\r\nhost: a\r\nconnection: close\r\n' +
            `content-length: ${question.length}\r\n\r\n${question}`,
        )
        expect(await received).toContain('200 OK')
      }
    } finally {
      agent.destroy()
    }
  })

  it('keeps its certificate if the key does not belong to the new certificate', async () => {
    await open()
    const other = await issueServerCertificate(['localhost'], validity, authority)
    expect(() => server.renew({ cert: keyPair.cert, key: other.key })).toThrow()
    expect(() => server.renew({ cert: 'nonsense', key: other.key })).toThrow()
    expect(await ask(question)).toMatchObject({ status: 200 })
    expect((await connection()).socket.authorized).toBe(true)
  })

  it('answers open requests before it closes, and no later request', async () => {
    let decide: (verdict: Verdict) => void = () => {}
    let asked: () => void = () => {}
    const isAsked = new Promise<void>((resolve) => {
      asked = resolve
    })
    await open(() => {
      asked()
      return new Promise((resolve) => {
        decide = resolve
      })
    })
    const agent = new https.Agent({ keepAlive: true })
    try {
      const pending = ask(question, { agent })
      await isAsked
      const closed = server.close()
      await expect(ask(question)).rejects.toThrow('ECONNREFUSED')
      decide(ALLOWED)
      expect(await pending).toMatchObject({ status: 200, headers: { connection: 'close' } })
      await closed
    } finally {
      agent.destroy()
    }
  })

  it('answers for a while before it closes, and asks clients to go', async () => {
    await open()
    const agent = new https.Agent({ keepAlive: true })
    try {
      expect((await ask(question, { agent })).headers.connection).toBe('keep-alive')
      const closed = server.close(5000)
      for (let more = 0; more < 3; more++)
        expect(await ask(question, { agent })).toMatchObject({
          status: 200,
          headers: { connection: 'close' },
        })
      await clock.advance(5000)
      await closed
      await expect(ask(question)).rejects.toThrow('ECONNREFUSED')
    } finally {
      agent.destroy()
    }
  })

  it('names a port that is in use', async () => {
    await open()
    const { port } = server
    const options = {
      port,
      host: '127.0.0.1',
      keyPair,
      review: async () => ALLOWED,
      clock,
      log: silentLogger,
    }
    await expect(WebhookServer.open(options)).rejects.toThrow(`cannot listen on port ${port}`)
  })
})
