import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import http2 from 'node:http2'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { Client, credentials, type ServiceError, status } from '@grpc/grpc-js'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../../test/support/eventually.js'
import { NO_CHANNELZ } from '../channelz.js'
import {
  Flag,
  type Frame,
  FrameReader,
  FrameType,
  frame,
  numberFrame,
  settingsFrame,
} from './frames.js'
import type { GrpcMethod, GrpcStream } from './grpc-service.js'
import { GrpcSocket } from './grpc-socket.js'

const PREFACE = Buffer.from('PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n')
const SETTINGS = settingsFrame([])
/** POST, http, content-type application/grpc, and a path, without Huffman codes. */
const header = (name: string) =>
  Buffer.concat([
    Buffer.from('8386', 'hex'),
    Buffer.from([0x04, name.length]),
    Buffer.from(name),
    Buffer.from(
      `0f10 10${Buffer.from('application/grpc').toString('hex')}`.replace(' ', ''),
      'hex',
    ),
  ])
const headers = (stream: number, name: string, flags: number = Flag.endHeaders) =>
  frame(FrameType.headers, flags, stream, header(name))
const message = (stream: number, text: string) =>
  frame(
    FrameType.data,
    Flag.endStream,
    stream,
    Buffer.concat([Buffer.from([0, 0, 0, 0, text.length]), Buffer.from(text)]),
  )

let directory: string
let socket: string
let server: GrpcSocket
let violations: string[]
let streams: { readonly call: GrpcStream; cancelled: boolean }[]
let held: ((answer: Buffer) => void)[]

const METHODS: Readonly<Record<string, GrpcMethod>> = {
  '/echo': { kind: 'unary', answer: async (request) => request },
  '/fail': {
    kind: 'unary',
    answer: () => Promise.reject(new Error('100 % of the slots are belegt: größer als 5\nä')),
  },
  '/long': { kind: 'unary', answer: () => Promise.reject(new Error('日'.repeat(20_000))) },
  '/hold': { kind: 'unary', answer: () => new Promise((resolve) => held.push(resolve)) },
  '/watch': {
    kind: 'stream',
    open: (call) => {
      const stream = { call, cancelled: false }
      streams.push(stream)
      return () => {
        stream.cancelled = true
      }
    },
  },
}

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-grpc-'))
  socket = path.join(directory, 's.sock')
  violations = []
  streams = []
  held = []
  server = await listen(socket)
})

afterEach(async () => {
  await server.close()
  await rm(directory, { recursive: true })
})

function listen(at: string): Promise<GrpcSocket> {
  return GrpcSocket.listen(at, {
    method: (name) => METHODS[name],
    statusOf: (error) => ({ code: status.FAILED_PRECONDITION, details: String(error) }),
    violated: ({ message }) => violations.push(message),
  })
}

async function withClient<T>(work: (client: Client) => Promise<T>, at = socket): Promise<T> {
  const client = new Client(`unix:${at}`, credentials.createInsecure(), NO_CHANNELZ)
  try {
    return await work(client)
  } finally {
    client.close()
  }
}

const same = (bytes: Buffer) => bytes

function ask(client: Client, method: string, request: Buffer): Promise<Buffer | undefined> {
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(method, same, same, request, (error, answer) =>
      error ? reject(error) : resolve(answer),
    )
  })
}

function failure(asked: Promise<unknown>): Promise<ServiceError> {
  return asked.then(
    () => expect.fail('it was answered'),
    (error: ServiceError) => error,
  )
}

/** A client that can send any bytes. */
class RawClient {
  readonly frames: Frame[] = []
  isClosed = false
  readonly #socket: net.Socket
  readonly #reader = new FrameReader()

  constructor(...bytes: Buffer[]) {
    this.#socket = net.connect(socket)
    this.#socket.on('data', (chunk: Buffer) => {
      this.#reader.add(chunk)
      for (let next = this.#reader.next(); next; next = this.#reader.next()) this.frames.push(next)
    })
    this.#socket.on('error', () => {})
    this.#socket.on('close', () => {
      this.isClosed = true
    })
    this.send(...bytes)
  }

  send(...bytes: Buffer[]): void {
    this.#socket.write(Buffer.concat(bytes))
  }

  pause(): void {
    this.#socket.pause()
  }

  close(): void {
    this.#socket.destroy()
  }

  /** The code with which the server ended the connection. */
  async goAwayCode(): Promise<number | undefined> {
    await eventually(() => expect(this.isClosed).toBe(true))
    return this.of(FrameType.goAway)[0]?.payload.readUInt32BE(4)
  }

  of(type: number): Frame[] {
    return this.frames.filter((received) => received.type === type)
  }
}

function opened(...bytes: Buffer[]): RawClient {
  return new RawClient(PREFACE, SETTINGS, ...bytes)
}

describe('a gRPC client', () => {
  it.each([0, 1, 5000, 70_000, 3_000_000])('gets an answer of %i bytes', async (length) => {
    const request = Buffer.alloc(length, 'akri')
    const answer = await withClient((client) => ask(client, '/echo', request))
    expect(answer?.equals(request)).toBe(true)
  })

  it('makes many calls at once, and one after the other', async () => {
    await withClient(async (client) => {
      for (let round = 0; round < 5; round++) {
        const requests = Array.from({ length: 90 }, (_, n) => Buffer.from(`${round} ${n}`))
        const asked = requests.map((request) => ask(client, '/echo', request))
        expect(await Promise.all(asked)).toEqual(requests)
      }
    })
  })

  it('gets the status of a failure, with any text', async () => {
    expect(
      await failure(withClient((client) => ask(client, '/fail', Buffer.from('x')))),
    ).toMatchObject({
      code: status.FAILED_PRECONDITION,
      details: 'Error: 100 % of the slots are belegt: größer als 5\nä',
    })
  })

  it.each([
    ['an unknown method', '/none', 10, status.UNIMPLEMENTED],
    ['a request that is too long', '/echo', 4 * 1024 * 1024 + 1, status.RESOURCE_EXHAUSTED],
  ])('is refused %s, and can make other calls', async (_what, method, length, code) => {
    await withClient(async (client) => {
      expect(await failure(ask(client, method, Buffer.alloc(length)))).toMatchObject({ code })
      expect(await ask(client, '/echo', Buffer.from('x'))).toEqual(Buffer.from('x'))
    })
  })

  it('gets the messages of a stream as they come, until the server ends it', async () => {
    await withClient(async (client) => {
      const call = client.makeServerStreamRequest('/watch', same, same, Buffer.from(''))
      const received: string[] = []
      call.on('data', (bytes: Buffer) => received.push(String(bytes)))
      await eventually(() => expect(streams).toHaveLength(1))
      const ended = once(call, 'status')
      await streams[0]?.call.write(Buffer.from('one'))
      await eventually(() => expect(received).toEqual(['one']))
      const rest = [streams[0]?.call.write(Buffer.alloc(200_000, 'x')), streams[0]?.call.end()]
      await Promise.all(rest)
      expect((await ended)[0]).toMatchObject({ code: status.OK })
      expect(received.map(({ length }) => length)).toEqual([3, 200_000])
      expect(streams[0]?.cancelled).toBe(false)
    })
  })

  it('ends a stream by a cancel, and by the end of its connection', async () => {
    await withClient(async (client) => {
      const call = client.makeServerStreamRequest('/watch', same, same, Buffer.from(''))
      call.on('error', () => {})
      await eventually(() => expect(streams).toHaveLength(1))
      call.cancel()
      await eventually(() => expect(streams[0]?.cancelled).toBe(true))
    })
    const raw = opened(headers(1, '/watch'), message(1, ''))
    await eventually(() => expect(streams).toHaveLength(2))
    raw.close()
    await eventually(() => expect(streams[1]?.cancelled).toBe(true))
    for (const { call } of streams) {
      await call.write(Buffer.from('too late'))
      call.end()
    }
  })

  it('is told that the server ends; other sockets go on', async () => {
    const other = path.join(directory, 'other.sock')
    const beside = await listen(other)
    const raw = opened(headers(1, '/watch'), message(1, ''))
    await eventually(() => expect(streams).toHaveLength(1))
    await withClient(async (client) => {
      await ask(client, '/echo', Buffer.from('x'))
      await server.close()
      expect(await raw.goAwayCode()).toBe(0)
      expect(streams[0]?.cancelled).toBe(true)
      expect(existsSync(socket)).toBe(false)
      expect(await ask(client, '/echo', Buffer.from('y'))).toEqual(Buffer.from('y'))
    }, other)
    await beside.close()
    server = await listen(socket)
  })
})

it('cannot listen where a file is', async () => {
  await expect(listen(directory)).rejects.toThrow('EADDRINUSE')
})

it('cuts a long status after a character, so that it fits into a frame', async () => {
  const { details } = await failure(withClient((client) => ask(client, '/long', Buffer.alloc(0))))
  expect(details).toMatch(/^Error: 日{400,}$/)
})

describe('a client of node:http2', () => {
  const request = {
    ':method': 'POST',
    ':path': '/echo',
    'content-type': 'application/grpc',
    te: 'trailers',
  }

  async function exchange(fields: object, body: Buffer) {
    const session = http2.connect('http://localhost', {
      createConnection: () => net.connect(socket),
    })
    try {
      const stream = session.request({ ...request, ...fields })
      let trailers: object = {}
      let answer: object = {}
      stream.on('response', (received) => {
        answer = received
      })
      stream.on('trailers', (received) => {
        trailers = received
      })
      stream.end(body)
      return { body: await buffer(stream), answer, trailers }
    } finally {
      session.close()
    }
  }

  it('is understood whatever its fields contain', async () => {
    const text = fc.string({
      unit: fc.constantFrom(...Array.from({ length: 95 }, (_, n) => String.fromCharCode(32 + n))),
      maxLength: 300,
    })
    await fc.assert(
      fc.asyncProperty(text, async (value) => {
        const { body, trailers } = await exchange({ 'x-any': `<${value}>` }, Buffer.alloc(5))
        expect({ body, trailers }).toMatchObject({
          body: Buffer.alloc(5),
          trailers: { 'grpc-status': '0' },
        })
      }),
      { numRuns: 30 },
    )
  })

  it('is refused what is no call of gRPC, or not one message', async () => {
    expect(await exchange({ 'content-type': 'text/html' }, Buffer.alloc(5))).toMatchObject({
      answer: { ':status': 415 },
    })
    for (const [body, code] of [
      [Buffer.alloc(0), status.INTERNAL],
      [Buffer.alloc(4), status.INTERNAL],
      [Buffer.alloc(6), status.INTERNAL],
      [Buffer.from([1, 0, 0, 0, 0]), status.UNIMPLEMENTED],
    ] as const)
      expect((await exchange({}, body)).answer).toMatchObject({ 'grpc-status': String(code) })
  })
})

describe('the connection of a wrong client', () => {
  const settings = (...values: [number, number][]) => settingsFrame(values)

  it.each<[string, number | undefined, Buffer[]]>([
    ['HTTP/1', 1, [Buffer.from('GET / HTTP/1.1\r\nHost: localhost\r\n\r\n')]],
    ['no settings', 1, [PREFACE, headers(1, '/echo')]],
    ['data of no call', 1, [PREFACE, SETTINGS, message(1, 'x')]],
    ['data of the connection', 1, [PREFACE, SETTINGS, message(0, 'x')]],
    ['a stream of an even number', 1, [PREFACE, SETTINGS, headers(2, '/echo')]],
    ['a header that is cut', 1, [PREFACE, SETTINGS, headers(1, '/echo', 0), headers(3, '/echo')]],
    [
      'a continuation of nothing',
      1,
      [PREFACE, SETTINGS, frame(FrameType.continuation, 4, 1, header(''))],
    ],
    ['a second header', 1, [PREFACE, SETTINGS, headers(1, '/echo'), headers(1, '/echo')]],
    [
      'a wrong header',
      9,
      [PREFACE, SETTINGS, frame(FrameType.headers, 4, 1, Buffer.from('be', 'hex'))],
    ],
    [
      'padding without a frame',
      1,
      [PREFACE, SETTINGS, frame(FrameType.headers, 12, 1, Buffer.from('05', 'hex'))],
    ],
    [
      'a priority that is cut',
      6,
      [PREFACE, SETTINGS, frame(FrameType.headers, 0x24, 1, Buffer.alloc(4))],
    ],
    ['a priority of no call', 1, [PREFACE, SETTINGS, frame(2, 0, 0, Buffer.alloc(5))]],
    ['a short priority', 6, [PREFACE, SETTINGS, frame(2, 0, 1, Buffer.alloc(4))]],
    ['the end of a call', 1, [PREFACE, SETTINGS, frame(7, 0, 1, Buffer.alloc(8))]],
    ['an end that is cut', 6, [PREFACE, SETTINGS, frame(7, 0, 0, Buffer.alloc(7))]],
    ['a wrong push setting', 1, [PREFACE, settings([2, 2])]],
    [
      'a reset of a stream of the server',
      1,
      [PREFACE, SETTINGS, headers(3, '/hold'), numberFrame(FrameType.resetStream, 2, 8)],
    ],
    [
      'data after a request',
      5,
      [PREFACE, SETTINGS, headers(1, '/hold'), message(1, ''), message(1, '')],
    ],
    [
      'a header after a request',
      5,
      [PREFACE, SETTINGS, headers(1, '/hold'), message(1, ''), headers(1, '/hold', 5)],
    ],
    ['a stream that is smaller', 5, [PREFACE, SETTINGS, headers(3, '/hold'), headers(1, '/hold')]],
    ['a push', 1, [PREFACE, SETTINGS, frame(FrameType.pushPromise, 4, 1, Buffer.alloc(4))]],
    ['a reset of no call', 1, [PREFACE, SETTINGS, numberFrame(FrameType.resetStream, 1, 8)]],
    [
      'a reset that is cut',
      6,
      [PREFACE, SETTINGS, frame(FrameType.resetStream, 0, 1, Buffer.alloc(3))],
    ],
    ['settings that are cut', 6, [PREFACE, frame(FrameType.settings, 0, 0, Buffer.alloc(5))]],
    ['settings of a call', 1, [PREFACE, frame(FrameType.settings, 0, 1, Buffer.alloc(0))]],
    ['short frames', 1, [PREFACE, settings([5, 100])]],
    ['a window that is too large', 3, [PREFACE, settings([4, 0x8000_0000])]],
    ['a ping that is cut', 6, [PREFACE, SETTINGS, frame(FrameType.ping, 0, 0, Buffer.alloc(7))]],
    ['a window of no call', 1, [PREFACE, SETTINGS, numberFrame(FrameType.windowUpdate, 1, 5)]],
    ['a window of 0', 1, [PREFACE, SETTINGS, numberFrame(FrameType.windowUpdate, 0, 0)]],
    [
      'a window that overflows',
      3,
      [PREFACE, SETTINGS, numberFrame(FrameType.windowUpdate, 0, 0x7fff_ffff)],
    ],
    ['a long frame', 6, [PREFACE, SETTINGS, frame(FrameType.data, 0, 1, Buffer.alloc(16_385))]],
    [
      'a long header',
      11,
      [
        PREFACE,
        SETTINGS,
        frame(FrameType.headers, 0, 1, Buffer.alloc(16_384)),
        frame(FrameType.continuation, 4, 1, Buffer.alloc(1)),
      ],
    ],
    [
      'a header of many parts',
      11,
      [
        PREFACE,
        SETTINGS,
        frame(FrameType.headers, 0, 1, Buffer.alloc(0)),
        ...Array.from({ length: 16_384 }, () =>
          frame(FrameType.continuation, 0, 1, Buffer.alloc(0)),
        ),
      ],
    ],
  ])('ends after %s, and others go on', async (_what, code, bytes) => {
    const raw = new RawClient(...bytes)
    expect(await raw.goAwayCode()).toBe(code)
    expect(violations).toHaveLength(1)
    expect(await withClient((client) => ask(client, '/echo', Buffer.from('x')))).toBeDefined()
  })

  const field = (name: string, value: string) =>
    Buffer.concat([
      Buffer.from([0, name.length]),
      Buffer.from(name, 'latin1'),
      Buffer.from([value.length]),
      Buffer.from(value, 'latin1'),
    ])
  const call = Buffer.concat([
    field(':method', 'POST'),
    field(':scheme', 'http'),
    field(':path', '/echo'),
  ])
  const type = field('content-type', 'application/grpc')

  it.each<[string, Buffer[]]>([
    ['a name in upper case', [call, type, field('X-Any', 'x')]],
    ['an empty name', [call, type, field('', 'x')]],
    ['a line end in a value', [call, type, field('x-any', 'a\nb')]],
    ['an unknown pseudo field', [call, field(':any', 'x'), type]],
    ['a pseudo field of answers', [call, field(':status', '200'), type]],
    ['a pseudo field after others', [type, call]],
    ['two paths', [call, field(':path', '/hold'), type]],
    [
      'an empty path',
      [field(':method', 'POST'), field(':scheme', 'http'), field(':path', ''), type],
    ],
    ['no method', [field(':scheme', 'http'), field(':path', '/echo'), type]],
    ['no scheme', [field(':method', 'POST'), field(':path', '/echo'), type]],
    ['a field of HTTP/1', [call, type, field('connection', 'close')]],
    ['a wrong te', [call, type, field('te', 'gzip')]],
  ])('resets a call with %s, and goes on', async (_what, fields) => {
    const raw = opened(
      frame(FrameType.headers, Flag.endHeaders, 1, Buffer.concat(fields)),
      headers(3, '/echo'),
      message(3, 'x'),
    )
    await eventually(() => expect(raw.of(FrameType.data)).toMatchObject([{ stream: 3 }]))
    const resets = raw.of(FrameType.resetStream)
    expect(resets.map(({ stream, payload }) => [stream, payload.readUInt32BE(0)])).toEqual([[1, 1]])
    raw.close()
  })

  it('takes the path of a socket as the authority, as kubelets before 1.26 send it', async () => {
    const block = Buffer.concat([call, field(':authority', '/var/lib/kubelet/a.sock'), type])
    const raw = opened(frame(FrameType.headers, Flag.endHeaders, 1, block), message(1, 'x'))
    await eventually(() => expect(raw.of(FrameType.data)).toHaveLength(1))
    raw.close()
  })

  it('resets a call with a window that overflows, and goes on', async () => {
    const raw = opened(
      headers(1, '/watch'),
      message(1, ''),
      numberFrame(FrameType.windowUpdate, 1, 0x7fff_ffff),
      headers(3, '/echo'),
      message(3, 'x'),
    )
    await eventually(() => expect(raw.of(FrameType.data)).toMatchObject([{ stream: 3 }]))
    expect(raw.of(FrameType.resetStream)[0]?.payload.readUInt32BE(0)).toBe(3)
    expect(streams[0]?.cancelled).toBe(true)
    raw.close()
  })

  it('takes two of the longest requests at a time', async () => {
    const part = frame(FrameType.data, 0, 1, Buffer.alloc(16_384))
    const raw = opened(...[1, 3, 5].map((stream) => headers(stream, '/echo')))
    for (const stream of [1, 3, 5]) {
      part.writeUInt32BE(stream, 5)
      raw.send(...Array.from({ length: 255 }, () => part))
    }
    await eventually(() => expect(raw.of(FrameType.headers)).toMatchObject([{ stream: 5 }]))
    raw.close()
  })

  it('writes no more than a client reads, however large its windows are', async () => {
    const windows = [
      settings([4, 0x7fff_ffff]),
      numberFrame(FrameType.windowUpdate, 0, 0x7000_0000),
    ]
    const raw = new RawClient(PREFACE, ...windows, headers(1, '/watch'), message(1, ''))
    await eventually(() => expect(streams).toHaveLength(1))
    raw.pause()
    let sent = 0
    const writes = Array.from({ length: 8 }, () =>
      streams[0]?.call.write(Buffer.alloc(1_000_000)).then(() => sent++),
    )
    raw.send(headers(3, '/hold'), message(3, ''))
    await eventually(() => expect(held).toHaveLength(1))
    expect(sent).toBe(0)
    // What the kernel has not taken is not in the socket either: a reset frees it.
    raw.send(numberFrame(FrameType.resetStream, 1, 8))
    await Promise.all(writes)
    raw.close()
  })

  it('ends when the client does not read the answers', async () => {
    const ping = frame(FrameType.ping, 0, 0, Buffer.alloc(8))
    const raw = opened()
    raw.pause()
    raw.send(...Array.from({ length: 100_000 }, () => ping))
    await eventually(() => expect(violations).toEqual(['the client does not read']))
    raw.close()
  })

  it('has 100 calls at most, also of those that the client gave up', async () => {
    const calls = Array.from({ length: 101 }, (_, n) => 2 * n + 1)
    const raw = opened(
      ...calls.flatMap((stream) => [headers(stream, '/hold'), message(stream, '')]),
    )
    await eventually(() => expect(raw.of(FrameType.resetStream)).toMatchObject([{ stream: 201 }]))
    expect(held).toHaveLength(100)
    raw.send(
      ...calls.slice(0, 100).map((stream) => numberFrame(FrameType.resetStream, stream, 8)),
      headers(203, '/hold'),
    )
    await eventually(() =>
      expect(raw.of(FrameType.resetStream).map(({ stream }) => stream)).toEqual([201, 203]),
    )
    for (const answer of held.splice(0)) answer(Buffer.from('late'))
    await Promise.resolve()
    raw.send(headers(205, '/echo'), message(205, 'x'))
    await eventually(() =>
      expect(raw.of(FrameType.data).map(({ stream }) => stream)).toEqual([205]),
    )
    raw.close()
  })

  it('takes no memory for messages that the client does not take', async () => {
    const raw = opened(headers(1, '/watch'), message(1, ''))
    await eventually(() => expect(streams).toHaveLength(1))
    let isSent = false
    void streams[0]?.call.write(Buffer.alloc(100_000)).then(() => {
      isSent = true
    })
    const received = () =>
      raw.of(FrameType.data).reduce((sum, { payload }) => sum + payload.length, 0)
    await eventually(() => expect(received()).toBe(65_535))
    expect(isSent).toBe(false)
    raw.send(numberFrame(FrameType.windowUpdate, 0, 50_000))
    raw.send(numberFrame(FrameType.windowUpdate, 1, 50_000))
    await eventually(() => expect([isSent, received()]).toEqual([true, 100_005]))
    void streams[0]?.call.write(Buffer.alloc(100_000)).then(() => {
      isSent = false
    })
    raw.close()
    await eventually(() => expect([isSent, streams[0]?.cancelled]).toEqual([false, true]))
  })

  it('changes the windows of open calls by settings, and reads padded headers', async () => {
    const padded = Buffer.concat([
      Buffer.from([3]),
      Buffer.alloc(5),
      header('/watch'),
      Buffer.alloc(3),
    ])
    const raw = new RawClient(
      PREFACE,
      settings([4, 10]),
      frame(FrameType.headers, Flag.endHeaders | Flag.padded | Flag.priority, 1, padded),
      message(1, ''),
    )
    await eventually(() => expect(streams).toHaveLength(1))
    void streams[0]?.call.write(Buffer.alloc(20))
    await eventually(() => expect(raw.of(FrameType.data)[0]?.payload).toHaveLength(10))
    raw.send(settings([4, 100]))
    await eventually(() => expect(raw.of(FrameType.data)[1]?.payload).toHaveLength(15))
    raw.close()
  })

  it('is answered or ended whatever it sends, and others go on', async () => {
    const anyFrame = fc
      .tuple(
        fc.nat({ max: 11 }),
        fc.nat({ max: 255 }),
        fc.constantFrom(0, 1, 1, 3, 5),
        fc.oneof(fc.constant(Buffer.from(header('/watch'))), fc.uint8Array({ maxLength: 40 })),
      )
      .map(([type, flags, stream, payload]) => frame(type, flags, stream, payload))
    await fc.assert(
      fc.asyncProperty(fc.array(anyFrame, { maxLength: 20 }), async (frames) => {
        const raw = opened(...frames, frame(FrameType.ping, 0, 0, Buffer.from('the last')))
        await eventually(() =>
          expect(
            raw.isClosed ||
              raw.of(FrameType.ping).some(({ payload }) => String(payload) === 'the last'),
          ).toBe(true),
        )
        raw.close()
      }),
      { numRuns: 50 },
    )
    expect(await withClient((client) => ask(client, '/echo', Buffer.from('x')))).toBeDefined()
  })
})
