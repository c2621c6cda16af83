import { mkdtemp, rm } from 'node:fs/promises'
import http2 from 'node:http2'
import os from 'node:os'
import path from 'node:path'
import { isServed, silentLogger } from '@akrijs/runtime'
import { DiscoveryProperties, defineDiscoveryHandler } from '@akrijs/runtime/handler'
import { Metadata, type Server, type ServerWritableStream } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { z } from 'zod'
import { serveDiscovery } from '../../../sdk/src/handler-server.js'
import { ServeMetrics } from '../../../sdk/src/metrics.js'
import { eventually } from '../../../test/support/eventually.js'
import { grpcServer } from '../testing/grpc-server.js'
import { EmbeddedEndpoint } from './embedded-endpoint.js'
import type { BoundedList } from './handler-endpoint.js'
import { RemoteEndpoint } from './remote-endpoint.js'

type Call = ServerWritableStream<Buffer, Buffer>

let directory: string
let server: Server | undefined

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-remote-'))
})

afterEach(async () => {
  server?.forceShutdown()
  await rm(directory, { recursive: true, force: true })
})

/** A registration of the socket that {@link handler} serves. */
const registration = (shared: boolean) =>
  new RemoteEndpoint('sensor', shared, {
    type: 'unix',
    owner: 'user 0',
    path: path.join(directory, 's.sock'),
    problem: async () => undefined,
    isServed: () => isServed(path.join(directory, 's.sock')),
  })

/** A handler of another implementation: its bytes are not checked on their way out. */
async function handler(discover: (call: Call) => void): Promise<RemoteEndpoint> {
  const bytes = (value: Buffer) => value
  const method = {
    path: '/v0.DiscoveryHandler/Discover',
    requestStream: false,
    responseStream: true,
    requestSerialize: bytes,
    requestDeserialize: bytes,
    responseSerialize: bytes,
    responseDeserialize: bytes,
  } as const
  const socket = path.join(directory, 's.sock')
  server = await grpcServer(socket, { discover: method }, { discover })
  return registration(true)
}

/** A field of a message, with a length. */
function field(number: number, content: string | Buffer): Buffer {
  const bytes = Buffer.from(content)
  return Buffer.concat([Buffer.from([(number << 3) | 2, bytes.length]), bytes])
}

const request = {
  configuration: 'lab',
  details: '',
  properties: new DiscoveryProperties([]),
  mostDevices: 1000,
  rank: () => (id: string) => (id === 'served' ? 0 : 1),
}

async function firstList(endpoint: RemoteEndpoint) {
  for await (const list of endpoint.discover(request, new AbortController().signal)) return list
  return undefined
}

/** A response with these ids. */
const listOf = (ids: readonly string[]) => Buffer.concat(ids.map((id) => field(1, field(1, id))))
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `device-${index}`)

describe('a handler of the SDK', () => {
  it('tells the agent what it left out; another handler cannot tell', async () => {
    const shy = defineDiscoveryHandler({
      name: 'sensor',
      shared: true,
      details: z.unknown(),
      async *discover({ leaveOut }) {
        leaveOut('10.0.0.7', 'HTTP status 401')
        yield []
      },
    })
    const address = `unix:${path.join(directory, 's.sock')}`
    const metrics = new ServeMetrics(['sensor']).of('sensor')
    const served = await serveDiscovery({ handler: shy, address, log: silentLogger, metrics })
    const reports = [{ reason: 'HTTP status 401', count: 1, ids: ['10.0.0.7'], listed: false }]
    const list = await firstList(registration(true)).finally(() => served.close())
    expect(list).toEqual({ devices: [], leftOut: 0, reports })
    const other = await handler((call) => call.write(listOf(['a'])))
    expect((await firstList(other))?.reports).toBeUndefined()
  })

  it('tells the agent the same in its process', async () => {
    const shy = defineDiscoveryHandler({
      name: 'sensor',
      shared: true,
      details: z.unknown(),
      async *discover({ leaveOut, reportProblem }) {
        yield [{ id: 'x' }]
        leaveOut('10.0.0.7', 'HTTP status 401')
        reportProblem('x', 'credential refused')
        yield [{ id: 'x' }]
      },
    })
    const embedded = new EmbeddedEndpoint(
      { name: 'sensor', load: async () => shy },
      silentLogger,
      Promise.resolve(),
    )
    const stop = new AbortController()
    const lists: BoundedList[] = []
    for await (const list of embedded.discover(request, stop.signal)) {
      lists.push(list)
      if (lists.length === 2) stop.abort()
    }
    expect(lists.map(({ devices, reports }) => [devices.length, reports])).toEqual([
      [1, []],
      [
        1,
        [
          { reason: 'credential refused', count: 1, ids: ['x'], listed: true },
          { reason: 'HTTP status 401', count: 1, ids: ['10.0.0.7'], listed: false },
        ],
      ],
    ])
  })
})

describe('a hostile handler', () => {
  it('puts no control characters and no invalid UTF-8 into properties', async () => {
    const value = Buffer.concat([
      Buffer.from('\u001b[2J\u009b1m\u202e\u0000\r'),
      Buffer.from([0xff, 0xed, 0xa0, 0x80]),
    ])
    const property = field(2, Buffer.concat([field(1, 'NAME'), field(2, value)]))
    const device = Buffer.concat([field(1, 'camera\u001b[2J'), property])
    const endpoint = await handler((call) => call.write(field(1, device)))
    const [found] = (await firstList(endpoint))?.devices ?? []
    // The id stays as it is: the digest of an Instance is that of the id.
    expect(found?.id).toBe('camera\u001b[2J')
    expect(found?.properties?.NAME).toMatch(/^\ufffd\[2J\ufffd1m\ufffd+$/)
  })

  it('cannot send faster than the agent reads, and its newest list counts', async () => {
    let sent = 0
    let isLast = false
    const many = listOf(numbered(60_000))
    const endpoint = await handler((call) => {
      const send = () => {
        if (isLast) return void call.write(listOf(['last']))
        call.write(Buffer.concat([listOf([`list-${sent}`]), many]), () => {
          sent++
          send()
        })
      }
      send()
    })
    const lists = endpoint.discover({ ...request, mostDevices: 1 }, new AbortController().signal)
    await lists.next()
    // The stream of gRPC reads some messages ahead, and stops then.
    for (let [idle, before] = [0, sent]; idle < 1000 && sent < 100; before = sent) {
      await new Promise((resolve) => setImmediate(resolve))
      idle = sent === before ? idle + 1 : 0
    }
    expect(sent).toBeLessThan(40)
    isLast = true
    let read = 0
    for await (const { devices } of lists) {
      read++
      if (devices[0]?.id === 'last') break
    }
    expect(read).toBeLessThanOrEqual(sent + 1)
  })

  it('that sends more than 4.125 MiB in a message fails with the size', async () => {
    const endpoint = await handler((call) => call.write(Buffer.alloc(4325376 + 1, 0x0a)))
    await expect(firstList(endpoint)).rejects.toThrow(/larger than max \(4325377 vs 4325376\)/)
  })
})

describe('the keepalive of a connection', () => {
  afterEach(() => void vi.useRealTimers())

  it.each<[string, (stream: http2.ServerHttp2Stream) => void, number]>([
    [
      'every 330 s after the handler has refused this',
      ({ session }) => {
        session?.goaway(http2.constants.NGHTTP2_ENHANCE_YOUR_CALM)
        session?.destroy()
      },
      325,
    ],
    // The prefix of a message of 4 GiB. gRPC has the same code for both failures.
    [
      'every 30 s after an answer that was too long',
      (stream) => void stream.write(Buffer.of(0, 255, 255, 255, 255)),
      25,
    ],
  ])('asks every 30 s, and %s', async (_, fail, quietSeconds) => {
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    const pings: http2.ServerHttp2Session[] = []
    const streams: http2.ServerHttp2Stream[] = []
    const handler = http2.createServer()
    handler.on('session', (session) => {
      session.on('error', () => undefined)
      session.on('ping', () => pings.push(session))
    })
    handler.on('stream', (stream) => {
      stream.on('error', () => undefined)
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' })
      streams.push(stream)
    })
    await new Promise<void>((resolve) => handler.listen(path.join(directory, 's.sock'), resolve))
    const until = async (isSo: () => boolean) => {
      while (!isSo()) await new Promise((resolve) => setImmediate(resolve))
    }
    /** Passes time. The answer to a ping comes before the next ping. */
    const pass = async (seconds: number) => {
      const before = pings.length
      for (let second = 0; second < seconds; second++) {
        await vi.advanceTimersByTimeAsync(1000)
        for (let turn = 0; turn < 20; turn++) await new Promise((resolve) => setImmediate(resolve))
      }
      return pings.length - before
    }
    try {
      const endpoint = registration(true)
      const stop = new AbortController()
      const first = endpoint.discover(request, stop.signal).next()
      await until(() => streams.length === 1)
      expect(await pass(61)).toBe(2)
      fail(streams[0] ?? expect.fail())
      await expect(first).rejects.toThrow(/sensor/)
      const second = endpoint.discover(request, stop.signal).next()
      await until(() => streams.length === 2)
      expect(await pass(quietSeconds)).toBe(0)
      expect(await pass(10)).toBe(1)
      stop.abort()
      await second
    } finally {
      for (const { session } of streams) session?.destroy()
      handler.close()
    }
  })
})

describe('an endpoint', () => {
  it('has left when nothing serves it, whether a discovery asked it or not', async () => {
    const endpoint = await handler((call) => call.write(listOf(['1'])))
    expect(await endpoint.hasLeft()).toBe(false)
    const stop = new AbortController()
    const lists = endpoint.discover(request, stop.signal)
    await lists.next()
    // A removed socket does not end a connection.
    await rm(path.join(directory, 's.sock'))
    expect(await endpoint.hasLeft()).toBe(false)
    stop.abort()
    await lists.next()
    expect(await endpoint.hasLeft()).toBe(true)
  })
})

describe('an endpoint that is registered again', () => {
  /** Opens a discovery. */
  function open(endpoint: RemoteEndpoint) {
    const stop = new AbortController()
    const lists = endpoint.discover(request, stop.signal)
    return { next: () => lists.next(), close: () => stop.abort() }
  }
  const write = (call: Call): unknown => call.write(listOf(['1']))

  it.each([
    ['has sent a list', write],
    ['has sent nothing', () => undefined],
  ])('A5 keeps its value of shared while its process is connected and %s', async (_, discover) => {
    let asked = 0
    const endpoint = await handler((call) => {
      asked++
      discover(call)
    })
    const discovery = open(endpoint)
    const list = discovery.next()
    await eventually(() => expect(asked).toBe(1))
    expect(endpoint.registerAgain(registration(false))).toBe(false)
    expect(endpoint.shared).toBe(true)
    discovery.close()
    await list
    // The agent has ended the stream. That says nothing about the process.
    expect(endpoint.shared).toBe(true)
  })

  it('A5 takes over the last value when its process has ended', async () => {
    const endpoint = await handler(write)
    const [one, two] = [open(endpoint), open(endpoint)]
    await Promise.all([one.next(), two.next()])
    expect(endpoint.registerAgain(registration(false))).toBe(false)
    server?.forceShutdown()
    await expect(one.next()).rejects.toThrow(/sensor/)
    await expect(two.next()).rejects.toThrow(/sensor/)
    expect(endpoint.shared).toBe(false)
  })

  it('A5 takes over a value while a discovery fails only without its process', async () => {
    let isWrong = false
    const endpoint = await handler((call) => {
      if (isWrong) call.emit('error', { code: 13, details: 'on purpose' })
      else write(call)
    })
    const healthy = open(endpoint)
    await healthy.next()
    isWrong = true
    await expect(open(endpoint).next()).rejects.toThrow('on purpose')
    expect(endpoint.registerAgain(registration(false))).toBe(false)
    expect(endpoint.shared).toBe(true)
    healthy.close()
  })

  it('A5 asks again if its process changes the value after it was found', async () => {
    const endpoint = await handler(write)
    const before = open(endpoint)
    await before.next()
    server?.forceShutdown()
    await expect(before.next()).rejects.toThrow(/sensor/)
    await handler(write)
    const after = open(endpoint)
    await after.next()
    expect(endpoint.shared).toBe(true)
    expect(endpoint.registerAgain(registration(false))).toBe(true)
    await expect(after.next()).rejects.toThrow('it registered with another value of shared')
    expect(endpoint.shared).toBe(false)
    // The agent has ended the stream. The process has registered, so no other registration counts.
    const last = open(endpoint)
    await last.next()
    expect(endpoint.registerAgain(registration(true))).toBe(false)
    expect(endpoint.shared).toBe(false)
    last.close()
  })

  it('A5 takes over the value of the next process while a list is still read', async () => {
    const endpoint = await handler(write)
    const [busy, idle] = [open(endpoint), open(endpoint)]
    await Promise.all([busy.next(), idle.next()])
    server?.forceShutdown()
    await expect(idle.next()).rejects.toThrow(/sensor/)
    await handler(write)
    endpoint.registerAgain(registration(false))
    const after = open(endpoint)
    await after.next()
    await expect(busy.next()).rejects.toThrow(/sensor/)
    expect(endpoint.shared).toBe(false)
    after.close()
  })

  it('A5 has the value that its process sends, whatever is registered', async () => {
    const endpoint = await handler((call) => {
      const headers = new Metadata()
      headers.set('akri-shared', 'false')
      call.sendMetadata(headers)
      write(call)
    })
    expect(endpoint.shared).toBe(true)
    const discovery = open(endpoint)
    await discovery.next()
    expect(endpoint.shared).toBe(false)
    endpoint.registerAgain(registration(true))
    expect(endpoint.shared).toBe(false)
    server?.forceShutdown()
    await expect(discovery.next()).rejects.toThrow(/sensor/)
    // The next process sends its value before its first list.
    expect(endpoint.shared).toBe(false)
    endpoint.registerAgain(registration(true))
    expect(endpoint.shared).toBe(false)
    await handler(write)
    const next = open(endpoint)
    await next.next()
    expect(endpoint.shared).toBe(true)
    next.close()
  })
})
