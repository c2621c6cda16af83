import http from 'node:http'
import net from 'node:net'
import { afterEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { type Logger, silentLogger } from '../program/logger.js'
import { ManualClock } from '../testing/index.js'
import { type HttpAnswer, type HttpLimits, HttpServer, serverSettings } from './http-server.js'

const LONG_MS = 600_000
const LIMITS: HttpLimits = {
  connections: 6,
  requestMs: LONG_MS,
  silenceMs: LONG_MS,
  idleMs: LONG_MS,
}

let inner: http.Server
let server: HttpServer
let lines: unknown[]
const sockets: net.Socket[] = []

async function open(
  limits: Partial<HttpLimits> = {},
  answer: (path: string) => Promise<HttpAnswer> = async (path) => ({ status: 200, body: path }),
) {
  lines = []
  const note = (...line: unknown[]) => void lines.push(line)
  const log: Logger = { ...silentLogger, warn: note, error: note }
  const all = { ...LIMITS, ...limits }
  inner = http.createServer(serverSettings(all))
  server = await HttpServer.open(inner, {
    name: 'test',
    port: 0,
    host: '127.0.0.1',
    limits: all,
    answer,
    clock: new ManualClock(),
    log,
  })
}

afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy()
  await server.close()
})

const connections = () =>
  new Promise((resolve) => inner.getConnections((_error, count) => resolve(count)))

interface Client {
  readonly socket: net.Socket
  readonly text: () => string
  readonly isOpen: () => boolean
}

async function client(localAddress = '127.0.0.1'): Promise<Client> {
  const socket = net.connect({ host: '127.0.0.1', port: server.port, localAddress })
  sockets.push(socket)
  let text = ''
  let isOpen = true
  socket.on('data', (chunk) => {
    text += String(chunk)
  })
  socket.on('error', () => {})
  socket.on('close', () => {
    isOpen = false
  })
  await new Promise((resolve) => socket.once('connect', resolve))
  return { socket, text: () => text, isOpen: () => isOpen }
}

const GET = 'GET /a HTTP/1.1\r\nhost: a\r\n\r\n'

/** Sends a request, and waits for its answer. */
async function request({ socket, text }: Client): Promise<void> {
  const before = text().length
  socket.write(GET)
  await eventually(() => expect(text().slice(before)).toMatch(/200 OK.*\/a$/s))
}

describe('a server for hostile clients', () => {
  it('answers several requests on one connection', async () => {
    await open()
    const one = await client()
    for (let round = 0; round < 3; round++) await request(one)
    expect(one.isOpen()).toBe(true)
  })

  it('drops the oldest connection of the address with the most, whatever it does', async () => {
    await open()
    const mine = await client('127.0.0.2')
    await request(mine)
    const flood: Client[] = []
    for (let number = 0; number < 12; number++) {
      const one = await client()
      if (number % 2 === 0) one.socket.write(GET.slice(0, -4))
      flood.push(one)
    }
    await eventually(() =>
      expect(flood.map(({ isOpen }) => isOpen())).toEqual(flood.map((_one, number) => number >= 7)),
    )
    await request(mine)
    await request(await client('127.0.0.3'))
    const fields = { server: 'test', peer: '127.0.0.1', limit: 6 }
    expect(lines).toEqual([[fields, 'connection over the limit dropped']])
  })

  it.each<[string, Partial<HttpLimits>, string, RegExp]>([
    ['sends nothing', { requestMs: 50 }, '', /^HTTP\/1.1 408 |^$/],
    ['does not end its headers', { requestMs: 50 }, GET.slice(0, -2), /^HTTP\/1.1 408 /],
    ['sends no other request', { idleMs: 50 }, GET, /^HTTP\/1.1 200 /],
    ['reads no answer', { silenceMs: 50 }, GET.replace('/a', '/large'), /^HTTP\/1.1 200 /],
  ])('ends a connection whose client %s', async (_what, limits, sent, received) => {
    const large = { status: 200, body: Buffer.alloc(50_000_000) }
    await open(limits, async (path) => (path === '/large' ? large : { status: 200, body: path }))
    const one = await client()
    const isReader = !sent.includes('large')
    if (!isReader) one.socket.pause()
    one.socket.write(sent)
    if (!isReader) {
      // Only a client that reads sees the end.
      await eventually(async () => expect(await connections()).toBe(0))
      one.socket.resume()
    }
    await eventually(() => expect(one.isOpen()).toBe(false))
    expect(one.text()).toMatch(received)
    expect(one.text().length).toBeLessThan(50_000_000)
  })

  it('ends a connection with another request before the answer', async () => {
    let begun = 0
    let answer = (_answer: HttpAnswer) => {}
    await open({}, () => {
      begun++
      return new Promise((resolve) => {
        answer = resolve
      })
    })
    const one = await client()
    one.socket.write(GET.repeat(50))
    await eventually(() => expect(one.isOpen()).toBe(false))
    expect(begun).toBe(1)
    answer({ status: 200, body: '' })
  })

  it('answers a client that still sends, before the connection ends', async () => {
    await open({}, async () => ({ status: 404, body: 'nothing here' }))
    const one = await client()
    const body = 'x'.repeat(5_000_000)
    one.socket.write(`POST / HTTP/1.1\r\nhost: a\r\ncontent-length: ${body.length}\r\n\r\n`)
    await eventually(() => expect(one.text()).toMatch(/^HTTP\/1.1 404 .*nothing here$/s))
    one.socket.write(body)
    await eventually(() => expect(one.isOpen()).toBe(false))
    expect(lines).toEqual([])
  })

  it('logs the error behind an answer 500, and does not send it', async () => {
    const error = new TypeError('a secret')
    await open({}, () => Promise.reject(error))
    const one = await client()
    one.socket.write(GET)
    await eventually(() => expect(one.text()).toMatch(/^HTTP\/1.1 500 .*the log of the program/s))
    expect(one.text()).not.toContain('secret')
    const fields = { err: error, server: 'test', method: 'GET', path: '/a' }
    expect(lines).toEqual([[fields, 'request failed']])
  })

  it('serves one request per connection without a time between two', async () => {
    await open({ idleMs: 0 })
    const one = await client()
    one.socket.write(GET)
    await eventually(() => expect(one.isOpen()).toBe(false))
    expect(one.text()).toMatch(/^HTTP\/1.1 200 .*connection: close/is)
  })
})
