import http from 'node:http'
import net from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { type Logger, silentLogger } from '../logger.js'
import { ManualClock } from '../testing/index.js'
import { HttpRefusal } from './http-refusal.js'
import { type HttpLimits, type HttpRequest, HttpServer } from './http-server.js'

const LIMITS: HttpLimits = {
  connections: 6,
  ofPeer: 4,
  stageMs: { opened: 3000, receiving: 5000, answering: 10_000, sending: 4000, idle: 60_000 },
  body: 1000,
  memory: 1500,
}

let server: HttpServer
let clock: ManualClock
let lines: { readonly fields: Readonly<Record<string, unknown>>; readonly message: string }[]

async function echo(request: HttpRequest) {
  const body = await request.body()
  return {
    status: 200,
    type: 'text/plain',
    body: Buffer.from(`${request.path} ${body.toString()}`),
  }
}

async function open({ answer = echo, limits = {} as Partial<HttpLimits>, keepAlive = true } = {}) {
  clock = new ManualClock()
  lines = []
  const note = (fields: Readonly<Record<string, unknown>>, message: string) =>
    lines.push({ fields, message })
  const log: Logger = { ...silentLogger, warn: note, error: note }
  server = await HttpServer.open({
    name: 'test',
    port: 0,
    host: '127.0.0.1',
    limits: { ...LIMITS, ...limits },
    keepAlive,
    answer,
    clock,
    log,
  })
}

afterEach(async () => {
  const closed = server.close()
  await clock.advance(5000)
  await closed
})

interface Client {
  readonly socket: net.Socket
  readonly text: () => string
  readonly isOpen: () => boolean
}

async function client(localAddress = '127.0.0.1'): Promise<Client> {
  const socket = net.connect({ host: '127.0.0.1', port: server.port, localAddress })
  let text = ''
  let isOpen = true
  socket.on('data', (chunk) => {
    text += String(chunk)
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    isOpen = false
  })
  await new Promise((resolve) => {
    socket.once('connect', resolve)
    socket.once('close', resolve)
  })
  return { socket, text: () => text, isOpen: () => isOpen }
}

/** A connection whose client reads nothing. */
async function unreading(localAddress = '127.0.0.1'): Promise<net.Socket> {
  const socket = net.connect({ host: '127.0.0.1', port: server.port, localAddress })
  socket.on('error', () => {})
  socket.pause()
  await new Promise((resolve) => socket.once('connect', resolve))
  return socket
}

const head = (length: number, path = '/a') =>
  `POST ${path} HTTP/1.1\r\nhost: a\r\ncontent-length: ${length}\r\n\r\n`

/** Sends a request, and waits for its answer. */
async function request(to: Client, body = 'x'): Promise<void> {
  const before = to.text().length
  to.socket.write(head(body.length) + body)
  await eventually(() => expect(to.text().slice(before)).toContain(`/a ${body}`))
}

const open_ = (clients: readonly Client[]) => clients.map(({ isOpen }) => isOpen())

describe('a server for hostile clients', () => {
  it('answers several requests on one connection, and keeps it while it is used', async () => {
    await open()
    const one = await client()
    for (let round = 0; round < 5; round++) {
      await request(one, `round ${round}`)
      await clock.advance(50_000)
    }
    expect(one.isOpen()).toBe(true)
    await clock.advance(60_000)
    await eventually(() => expect(one.isOpen()).toBe(false))
  })

  it('drops the oldest unused connection of an address that has too many', async () => {
    await open()
    const mine = await client('127.0.0.2')
    await request(mine)
    const flood: Client[] = []
    for (let number = 0; number < 12; number++) {
      flood.push(await client())
      await clock.advance(100)
    }
    await eventually(() =>
      expect(open_(flood)).toEqual([...Array(8).fill(false), ...Array(4).fill(true)]),
    )
    expect(mine.isOpen()).toBe(true)
    await request(mine)
  })

  it('makes room for a new address at the cost of the one with most connections', async () => {
    await open({ limits: { stageMs: { ...LIMITS.stageMs, opened: 60_000 } } })
    const first = await client('127.0.0.2')
    await request(first)
    const flood: Client[] = []
    for (const address of ['127.0.0.3', '127.0.0.3', '127.0.0.4', '127.0.0.4', '127.0.0.4']) {
      flood.push(await client(address))
      await clock.advance(2000)
    }
    const last = await client('127.0.0.5')
    await request(last)
    await eventually(() => expect(open_(flood)).toEqual([true, true, false, true, true]))
    await request(first)
    await clock.advance(60_000)
    await eventually(() =>
      expect(lines).toContainEqual({
        message: 'connections over the limit dropped or refused',
        fields: expect.objectContaining({ server: 'test', dropped: 1, refused: 0, limit: 6 }),
      }),
    )
  })

  it('drops no connection whose request is worked on', async () => {
    let answers: (() => void)[] = []
    await open({
      answer: async (asked) => {
        await new Promise<void>((resolve) => answers.push(resolve))
        return echo(asked)
      },
    })
    const busy = [await client(), await client(), await client(), await client()]
    for (const { socket } of busy) socket.write(`${head(1)}x`)
    await eventually(() => expect(answers).toHaveLength(4))
    // The bodies have not been read: these requests count as not yet received.
    for (const answer of answers) answer()
    answers = []
    await eventually(() => expect(busy.every(({ text }) => text().includes('/a x'))).toBe(true))
  })

  it('limits the time of a whole request, also when its bytes come slowly', async () => {
    await open()
    const [silent, headers, body, next] = [
      await client('127.0.0.2'),
      await client('127.0.0.2'),
      await client('127.0.0.3'),
      await client('127.0.0.4'),
    ]
    await request(next)
    body.socket.write(head(900))
    const drip = async (seconds: number) => {
      for (let second = 0; second < seconds; second++) {
        for (const { socket } of [body]) socket.write('x')
        headers.socket.write(second === 0 ? 'POST /a HTTP/1.1\r\n' : `h${second}: 1\r\n`)
        next.socket.write(second === 0 ? 'POST /a HTTP/1.1\r\n' : `h${second}: 1\r\n`)
        await new Promise((resolve) => setImmediate(resolve))
        await clock.advance(1000)
      }
    }
    await drip(5)
    await eventually(() => expect([silent.isOpen(), headers.isOpen()]).toEqual([false, false]))
    expect(headers.text()).toContain('408 Request Timeout')
    await drip(5)
    await eventually(() => expect([body.isOpen(), next.isOpen()]).toEqual([false, false]))
    expect(body.text()).toMatch(/^HTTP\/1.1 408 .*took longer than 5000 ms/s)
  })

  it('refuses the largest body of the largest address, if all are too large', async () => {
    await open()
    const small = await client('127.0.0.2')
    small.socket.write(head(500) + 'x'.repeat(499))
    const large = [await client('127.0.0.3'), await client('127.0.0.3')]
    for (const { socket } of large) socket.write(head(900) + 'x'.repeat(600))
    await eventually(() => expect(open_(large).filter(Boolean)).toHaveLength(1))
    expect(large.map(({ text }) => text()).join('')).toMatch(/^HTTP\/1.1 503 .*too much data/s)
    small.socket.write('x')
    await eventually(() => expect(small.text()).toContain('200 OK'))
  })

  it('refuses a body that is too large, and tells the limit', async () => {
    await open()
    for (const sent of [
      head(1001),
      'POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n' +
        `3e9\r\n${'x'.repeat(1001)}\r\n`,
    ]) {
      const one = await client()
      one.socket.write(sent)
      await eventually(() =>
        expect(one.text()).toMatch(/^HTTP\/1.1 413 .*the body has more than 1000 bytes/s),
      )
      await eventually(() => expect(one.isOpen()).toBe(false))
    }
  })

  it('answers no second request before the answer to the first', async () => {
    let begun = 0
    await open({
      answer: async (asked) => {
        begun++
        return echo(asked)
      },
    })
    const one = await client()
    one.socket.write(`${head(1)}x`.repeat(50))
    await eventually(() => expect(one.isOpen()).toBe(false))
    expect(begun).toBe(1)
  })

  it('logs the error behind an answer 500, and does not send it', async () => {
    const error = new TypeError('a secret')
    await open({ answer: () => Promise.reject(error) })
    const one = await client()
    one.socket.write(head(0))
    await eventually(() => expect(one.text()).toMatch(/^HTTP\/1.1 500 /))
    expect(one.text()).not.toContain('secret')
    expect(lines).toEqual([
      { message: 'request failed', fields: expect.objectContaining({ err: error, path: '/a' }) },
    ])
  })

  it('logs no refusal', async () => {
    await open({ answer: () => Promise.reject(new HttpRefusal(404, 'nothing here')) })
    const one = await client()
    one.socket.write(head(0))
    await eventually(() => expect(one.text()).toMatch(/^HTTP\/1.1 404 .*nothing here/s))
    expect(lines).toEqual([])
  })

  it('ends a connection whose client reads no answer', async () => {
    await open({
      answer: async () => ({ status: 200, type: 'text/plain', body: Buffer.alloc(50_000_000) }),
      limits: { body: 0, memory: 100_000_000 },
    })
    const socket = net.connect({ host: '127.0.0.1', port: server.port })
    socket.on('error', () => {})
    socket.pause()
    socket.write('GET / HTTP/1.1\r\nhost: a\r\n\r\n')
    await eventually(async () => {
      await clock.advance(2000)
      expect(clock.monotonicMs()).toBeGreaterThan(20_000)
    })
    // Only a client that reads sees the end.
    socket.resume()
    await new Promise<void>((resolve) => socket.once('close', () => resolve()))
    expect(socket.bytesRead).toBeLessThan(50_000_000)
  })

  it('answers no second request before the client has read the first answer', async () => {
    let begun = 0
    await open({
      answer: async ({ path }) => {
        if (path === '/a') return { status: 200, type: 'text/plain', body: Buffer.from('/a x') }
        begun++
        return { status: 200, type: 'text/plain', body: Buffer.alloc(50_000_000) }
      },
      limits: { memory: 100_000_000 },
    })
    const one = await unreading()
    one.write(head(0, '/large'))
    await eventually(() => expect(begun).toBe(1))
    one.write(head(0, '/large'))
    await request(await client('127.0.0.2'))
    expect(begun).toBe(1)
    one.destroy()
  })

  it('answers a request that comes before the last answer is known as sent', async () => {
    const begun: string[] = []
    await open({
      answer: async ({ path }) => {
        begun.push(path)
        return { status: 200, type: 'text/plain', body: Buffer.alloc(20_000_000) }
      },
      limits: { memory: 100_000_000 },
    })
    const one = await unreading()
    one.write(head(0, '/first'))
    await eventually(() => expect(begun).toEqual(['/first']))
    one.write(head(0, '/second'))
    let received = 0
    one.on('data', (chunk) => {
      received += chunk.length
    })
    one.resume()
    await eventually(() => expect(received).toBeGreaterThan(40_000_000))
    expect(begun).toEqual(['/first', '/second'])
    one.write(head(0, '/third'))
    await eventually(() => expect(begun).toHaveLength(3))
  })

  it('bounds the bytes of unread answers: the address with the most loses one', async () => {
    let answers = 0
    await open({
      answer: async () => {
        answers++
        return { status: 200, type: 'text/plain', body: Buffer.alloc(20_000_000) }
      },
      limits: { memory: 50_000_000 },
    })
    const mine = await unreading('127.0.0.2')
    mine.write(head(0))
    const flood = [await unreading(), await unreading(), await unreading()]
    for (const socket of flood) socket.write(head(0))
    const received = [mine, ...flood].map((socket) => {
      let bytes = 0
      let isClosed = false
      socket.on('data', (chunk) => {
        bytes += chunk.length
      })
      socket.on('close', () => {
        isClosed = true
      })
      socket.pause()
      return { bytes: () => bytes, isClosed: () => isClosed }
    })
    // The clients read after the last answer has begun.
    await eventually(() => expect(answers).toBe(4))
    for (const socket of [mine, ...flood]) socket.resume()
    await eventually(() => expect(received[0]?.bytes()).toBeGreaterThan(20_000_000))
    await eventually(() => expect(received.filter(({ isClosed }) => isClosed())).toHaveLength(2))
    expect(received[0]?.isClosed()).toBe(false)
  })

  it('drops an unread answer for a new connection of the address', async () => {
    await open({
      answer: async ({ path }) => ({
        status: 200,
        type: 'text/plain',
        body: path === '/large' ? Buffer.alloc(20_000_000) : Buffer.from('/a x'),
      }),
      limits: { memory: 500_000_000 },
    })
    for (let number = 0; number < 4; number++) (await unreading()).write(head(0, '/large'))
    await clock.advance(1000)
    await request(await client())
  })

  it('answers a new address although requests at work have all places', async () => {
    let waiting = 0
    let aborted = 0
    await open({
      answer: async ({ path, signal }) => {
        if (path === '/wait') {
          waiting++
          signal.addEventListener('abort', () => aborted++)
          await new Promise(() => {})
        }
        return { status: 200, type: 'text/plain', body: Buffer.from('/a x') }
      },
      limits: { body: 0 },
    })
    for (const address of ['127.0.0.2', '127.0.0.3'])
      for (let number = 0; number < 3; number++)
        (await client(address)).socket.write('GET /wait HTTP/1.1\r\nhost: a\r\n\r\n')
    await eventually(() => expect(waiting).toBe(6))
    const one = await client()
    one.socket.write('GET /a HTTP/1.1\r\nhost: a\r\n\r\n')
    await eventually(() => expect(one.text()).toContain('/a x'))
    await eventually(() => expect(aborted).toBe(1))
  })

  it.each<[string, number, RegExp]>([
    ['pieces of 100 bytes', 100, /^HTTP\/1.1 200 /],
    ['pieces of a byte', 1, /^$/],
  ])('reads a body in %s, unless they cost too much time', async (_what, size, answer) => {
    await open({ limits: { body: 100_000, memory: 100_000 } })
    const one = await client()
    one.socket.write('POST /a HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n')
    const piece = `${size.toString(16)}\r\n${'x'.repeat(size)}\r\n`
    one.socket.write(`${piece.repeat(90_000 / size)}0\r\n\r\n`)
    if (size === 1) await eventually(() => expect(one.isOpen()).toBe(false))
    else await eventually(() => expect(one.text().length).toBeGreaterThan(90_000))
    expect(one.text()).toMatch(answer)
  })

  it('keeps no body of a refused request in memory', async () => {
    let refused = 0
    await open({
      answer: async () => {
        refused++
        throw new HttpRefusal(404, 'nothing here')
      },
      limits: { body: 300_000, memory: 400_000 },
    })
    const first = await client()
    first.socket.write(head(300_000) + 'x'.repeat(250_000))
    const second = await client('127.0.0.2')
    second.socket.write(head(300_000) + 'x'.repeat(250_000))
    await eventually(() => expect(refused).toBe(2))
    for (const { text } of [first, second])
      await eventually(() => expect(text()).toMatch(/^HTTP\/1.1 404 /))
  })

  it('serves one request per connection without keep-alive', async () => {
    await open({ keepAlive: false })
    const agent = new http.Agent({ keepAlive: true })
    const answer = await new Promise<http.IncomingMessage>((resolve, reject) => {
      const call = http.request({ host: '127.0.0.1', port: server.port, agent, method: 'POST' })
      call.on('response', resolve)
      call.on('error', reject)
      call.end('x')
    })
    answer.resume()
    expect(answer.headers.connection).toBe('close')
    agent.destroy()
  })
})
