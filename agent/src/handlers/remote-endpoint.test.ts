import { rm } from 'node:fs/promises'
import http2 from 'node:http2'
import path from 'node:path'
import { isServed, silentLogger } from '@akrijs/runtime'
import { type DiscoveryHandler, DiscoveryProperties } from '@akrijs/sdk/handler'
import { Metadata, type Server, type ServerWritableStream } from '@grpc/grpc-js'
import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest'
import { serveDiscovery } from '../../../sdk/src/handler-server.js'
import { ServeMetrics } from '../../../sdk/src/metrics.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { grpcServer } from '../testing/grpc-server.js'
import { handlerOf } from '../testing/served-handler.js'
import { EmbeddedEndpoint } from './embedded-endpoint.js'
import type { HandlerEndpoint } from './handler-endpoint.js'
import { RemoteEndpoint } from './remote-endpoint.js'

type Call = ServerWritableStream<Buffer, Buffer>

let directory: string
let server: Server | undefined

beforeEach(async () => {
  directory = await temporaryDirectory()
})

afterEach(async () => {
  server?.forceShutdown()
})

/** A registration of the socket that {@link handler} serves. */
const registration = (shared: boolean) =>
  new RemoteEndpoint('sensor', shared, {
    endpoint: path.join(directory, 's.sock'),
    owner: 'user 0',
    problem: async () => undefined,
    isServed: () => isServed(path.join(directory, 's.sock')),
  })

const embedded = (handler: DiscoveryHandler<unknown>) =>
  new EmbeddedEndpoint(
    { name: 'sensor', load: async () => handler },
    silentLogger,
    Promise.resolve(),
  )

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
  rank: () => 1,
}

async function firstList(endpoint: HandlerEndpoint) {
  for await (const list of endpoint.discover(request, new AbortController().signal)) return list
  return undefined
}

/** A response with these ids. */
const listOf = (ids: readonly string[]) => Buffer.concat(ids.map((id) => field(1, field(1, id))))
const numbered = (count: number) => Array.from({ length: count }, (_, index) => `device-${index}`)

it('a list of a handler in this process has the first devices by rank and id', async () => {
  const endpoint = embedded(handlerOf('sensor', () => ['b', 'served', 'a'].map((id) => ({ id }))))
  const bound = { mostDevices: 2, rank: (id: string) => (id === 'served' ? 0 : 1) }
  const stop = new AbortController()
  const { value } = await endpoint.discover({ ...request, ...bound }, stop.signal).next()
  expect([value?.devices.map(({ id }) => id), value?.leftOut]).toEqual([['served', 'a'], 1])
})

it('a handler of the SDK tells the agent what it left out, another handler cannot', async () => {
  const shy = handlerOf('sensor', ({ leaveOut, reportProblem }) => {
    leaveOut('10.0.0.7', 'HTTP status 401')
    reportProblem('x', 'credential refused')
    return [{ id: 'x' }]
  })
  const address = `unix:${path.join(directory, 's.sock')}`
  const metrics = new ServeMetrics(['sensor']).of('sensor')
  const served = await serveDiscovery({ handler: shy, address, log: silentLogger, metrics })
  for (const endpoint of [embedded(shy), registration(true)])
    expect(await firstList(endpoint)).toMatchObject({
      devices: [{ id: 'x' }],
      leftOut: 0,
      reports: [
        { reason: 'credential refused', count: 1, ids: ['x'], listed: true },
        { reason: 'HTTP status 401', count: 1, ids: ['10.0.0.7'], listed: false },
      ],
    })
  await served.close()
  const other = await handler((call) => call.write(listOf(['a'])))
  expect((await firstList(other))?.reports).toBeUndefined()
})

describe('a hostile handler', () => {
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
    let pings = 0
    const streams: http2.ServerHttp2Stream[] = []
    const handler = http2.createServer()
    handler.on('session', (session) => {
      session.on('error', () => undefined)
      session.on('ping', () => pings++)
    })
    handler.on('stream', (stream) => {
      stream.on('error', () => undefined)
      stream.respond({ ':status': 200, 'content-type': 'application/grpc' })
      streams.push(stream)
    })
    await new Promise<void>((resolve) => handler.listen(path.join(directory, 's.sock'), resolve))
    const turn = () => new Promise((resolve) => setImmediate(resolve))
    const opened = async (count: number) => {
      while (streams.length < count) await turn()
    }
    /** Passes time. The answer to a ping comes before the next ping. */
    const pingsIn = async (seconds: number) => {
      const before = pings
      for (let second = 0; second < seconds; second++) {
        await vi.advanceTimersByTimeAsync(1000)
        for (let turns = 0; turns < 20; turns++) await turn()
      }
      return pings - before
    }
    try {
      const endpoint = registration(true)
      const stop = new AbortController()
      const first = endpoint.discover(request, stop.signal).next()
      await opened(1)
      expect(await pingsIn(61)).toBe(2)
      fail(streams[0] ?? expect.fail())
      await expect(first).rejects.toThrow(/sensor/)
      const second = endpoint.discover(request, stop.signal).next()
      await opened(2)
      expect([await pingsIn(quietSeconds), await pingsIn(10)]).toEqual([0, 1])
      stop.abort()
      await second
    } finally {
      for (const { session } of streams) session?.destroy()
      handler.close()
    }
  })
})

it('an endpoint has left when nothing serves it, with or without a discovery', async () => {
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

/**
 * Steps of an endpoint that was registered as shared. `serve`: a process starts, which sends a
 * list, and first a value of its own if there is one. `end`: it ends. `open`: a discovery gets its
 * list. `lost`: the oldest discovery fails. `close`: the agent ends it. `fails`: a discovery fails
 * while its process goes on. `takes` and `keeps`: another registration counts now, or not.
 */
it.each([
  ['keeps shared while its process is connected', 'serve open keeps:false is:true close is:true'],
  ['takes over the last value later', 'serve open open keeps:false end lost lost is:false'],
  ['keeps it while another discovery goes on', 'serve open fails keeps:false is:true'],
  [
    'takes over the value of the next process while a list is still read',
    'serve open open end lost:last serve takes:false open lost is:false',
  ],
  [
    'has the value that its process sends, whatever is registered',
    'serve:false is:true open is:false keeps:true is:false end lost is:false takes:true is:false ' +
      'serve open is:true',
  ],
])('A5 an endpoint that is registered again %s', async (_, steps) => {
  const endpoint = registration(true)
  let sends = ''
  const discover = (call: Call) => {
    if (sends === 'failure') return void call.emit('error', { code: 13, details: 'on purpose' })
    const headers = new Metadata()
    if (sends === 'false') headers.set('akri-shared', sends)
    call.sendMetadata(headers)
    call.write(listOf(['1']))
  }
  const open: { readonly next: () => Promise<unknown>; readonly stop: AbortController }[] = []
  const begin = () => {
    const stop = new AbortController()
    const lists = endpoint.discover(request, stop.signal)
    open.push({ stop, next: () => lists.next() })
    return lists.next()
  }
  const register = (shared: string) => endpoint.registerAgain(registration(shared === 'true'))
  const act: Record<string, (value: string) => unknown> = {
    serve: async (what) => {
      sends = what
      await handler(discover)
    },
    end: () => server?.forceShutdown(),
    open: begin,
    lost: async (which) => {
      const discovery = which === 'last' ? open.pop() : open.shift()
      await expect(discovery?.next()).rejects.toThrow(/handler sensor@.*s.sock: /)
    },
    close: async () => {
      const discovery = open.shift()
      discovery?.stop.abort()
      await discovery?.next()
    },
    fails: async () => {
      sends = 'failure'
      await expect(begin()).rejects.toThrow('on purpose')
      open.pop()
    },
    takes: (shared) => expect(register(shared)).toBe(true),
    keeps: (shared) => expect(register(shared)).toBe(false),
    is: (shared) => expect(String(endpoint.shared)).toBe(shared),
  }
  for (const step of steps.split(' ')) {
    const [verb = '', value = ''] = step.split(':')
    await (act[verb] ?? expect.fail(step))(value)
  }
  for (const { stop } of open) stop.abort()
})
