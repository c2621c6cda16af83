import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import http2 from 'node:http2'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { RegisterDiscoveryHandlerRequest, RegistrationClient } from '@akrijs/proto/discovery'
import { type Clock, type Logger, silentLogger, systemClock } from '@akrijs/runtime'
import { credentials } from '@grpc/grpc-js'
import fc from 'fast-check'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { fuzz } from '../../../test/support/fuzz.js'
import { AllowedAddresses } from './allowed-addresses.js'
import { isHandlerName } from './handler-endpoint.js'
import { HandlerRegistry } from './handler-registry.js'
import { type RegistrationServer, serveRegistration } from './registration-server.js'

/**
 * Time stands still: a slow connection is not closed. A wait for a Pod ends at once.
 */
const clock: Clock = {
  ...systemClock,
  monotonicMs: () => 0,
  sleep: () => Promise.resolve(),
}

const PREFACE = 'PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n'
const SETTINGS = Buffer.from([0, 0, 0, 4, 0, 0, 0, 0, 0])
const METHOD = '/v0.Registration/RegisterDiscoveryHandler'

let directory: string
let registry: HandlerRegistry
let server: RegistrationServer
let listener: net.Server
let errors: unknown[]

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-fuzz-'))
  registry = new HandlerRegistry()
  errors = []
  const log: Logger = { ...silentLogger, error: (fields) => errors.push(fields) }
  server = await serveRegistration({
    directory,
    registry,
    names: { allBut: new Set(['udev']) },
    addresses: new AllowedAddresses(['10.0.0.0/24']),
    clock,
    log,
  })
  listener = net.createServer().listen(path.join(directory, 'good.sock'))
})

afterEach(async () => {
  listener.close()
  await server.close()
  await rm(directory, { recursive: true, force: true })
})

/** A handler that does all right. @returns the answer of the agent */
function registerGood(): Promise<string> {
  const request = {
    name: 'good',
    endpoint: path.join(directory, 'good.sock'),
    endpointType: 0 as const,
    shared: false,
  }
  const address = `unix:${server.socket}`
  const client = new RegistrationClient(address, credentials.createInsecure())
  return new Promise((resolve) =>
    client.registerDiscoveryHandler(request, (error) => {
      client.close()
      resolve(error?.message ?? 'taken')
    }),
  )
}

const bytes = (maxLength: number) => fc.uint8Array({ maxLength }).map((array) => Buffer.from(array))

const mostly = <Right, Other>(right: fc.Arbitrary<Right>, other: fc.Arbitrary<Other>) =>
  fc.oneof({ weight: 6, arbitrary: right }, { weight: 1, arbitrary: other })
const seldom = <Value>(arbitrary: fc.Arbitrary<Value>) => mostly(fc.constant(undefined), arbitrary)

/** A frame of HTTP/2, whose length may be wrong. */
const frame = fc
  .record({
    type: fc.nat({ max: 12 }),
    flags: fc.nat({ max: 255 }),
    stream: fc.nat({ max: 7 }),
    payload: bytes(64),
    lie: seldom(fc.nat({ max: 0xffffff })),
  })
  .map(({ type, flags, stream, payload, lie }) => {
    const head = Buffer.alloc(9)
    head.writeUIntBE(lie ?? payload.length, 0, 3)
    head.writeUInt8(type, 3)
    head.writeUInt8(flags, 4)
    head.writeUInt32BE(stream, 5)
    return Buffer.concat([head, payload])
  })

const text = fc.oneof(
  fc.string(),
  fc.string({ unit: 'binary' }),
  fc.constantFrom('good', 'udev', '__proto__', 'constructor', '/', 'http://10.0.0.7:1', 'http://['),
  fc.constantFrom(
    'http://10.0.0.7:99999',
    'http://10.0.0.7',
    'http://127.0.0.1:1',
    `/${'x'.repeat(5000)}`,
  ),
)
const message = fc
  .record({
    name: mostly(fc.constantFrom('sensor', 'constructor', 'a.b'), text),
    endpoint: mostly(fc.constantFrom('http://10.0.0.7:1', 'http://10.0.0.8'), text),
    endpointType: mostly(fc.constant(1), fc.oneof(fc.constant(0), fc.integer())),
    shared: fc.boolean(),
  })
  .map((request) =>
    Buffer.from(
      RegisterDiscoveryHandlerRequest.encode({
        ...request,
        endpointType: request.endpointType as 0,
      }).finish(),
    ),
  )
/** A message of gRPC: right, cut, or with some bytes changed; its prefix may be wrong. */
const call = fc
  .record({
    body: mostly(message, bytes(200)),
    cut: seldom(fc.nat({ max: 40 })),
    changes: seldom(
      fc.array(fc.tuple(fc.nat({ max: 200 }), fc.nat({ max: 255 })), { maxLength: 3 }),
    ),
    compressed: fc.constantFrom(0, 0, 0, 0, 0, 1, 7),
    length: seldom(fc.nat({ max: 0xffffffff })),
    path: mostly(fc.constant(METHOD), fc.constantFrom('/', '/v0.Registration/Other')),
    type: mostly(fc.constant('application/grpc'), fc.constantFrom('application/json', '')),
    method: mostly(fc.constant('POST'), fc.constantFrom('GET', 'DELETE')),
  })
  .map(({ body, cut, changes, compressed, length, ...head }) => {
    const changed = Buffer.from(body.subarray(0, body.length - (cut ?? 0)))
    for (const [at, value] of changes ?? []) if (at < changed.length) changed.writeUInt8(value, at)
    const prefix = Buffer.alloc(5)
    prefix.writeUInt8(compressed, 0)
    prefix.writeUInt32BE(length ?? changed.length, 1)
    return { ...head, data: Buffer.concat([prefix, changed]) }
  })

async function sendRaw(data: Buffer): Promise<void> {
  const socket = net.connect(server.socket)
  socket.on('error', () => {
    // The agent ends such a connection.
  })
  socket.write(data)
  expect(await registerGood()).toBe('taken')
  socket.destroy()
}

interface Call {
  readonly data: Buffer
  readonly path: string
  readonly type: string
  readonly method: string
}

/** Resolves when the agent has ended the call. */
async function sendCall({ data, path: at, type, method }: Call): Promise<void> {
  const createConnection = () => net.connect(server.socket)
  const session = http2.connect('http://agent', { createConnection })
  const headers = { ':path': at, ':method': method, 'content-type': type, te: 'trailers' }
  const stream = session.request(headers, { endStream: false })
  for (const emitter of [session, stream]) {
    emitter.on('error', () => {
      // The agent may end a call, or the connection, in any way.
    })
  }
  stream.resume()
  stream.end(data)
  await once(stream, 'close')
  session.destroy()
  expect(await registerGood()).toBe('taken')
}

/** What holds after any input. */
function checkRegistry(): void {
  expect(errors).toEqual([])
  expect(registry.size).toBeLessThanOrEqual(256)
  for (const name of registry.names) {
    expect(isHandlerName(name) && name !== 'udev').toBe(true)
    for (const { uid } of registry.endpoints(name))
      expect(uid.slice(name.length + 1)).toMatch(/^http:\/\/10\.0\.0\.\d+:\d+$|^\/.*\/good\.sock$/)
  }
}

describe('the registration of handlers, with any input', () => {
  const raw = fuzz({ runs: 50, msPerRun: 60 })
  it(
    'answers others after bytes that are no HTTP/2',
    async () => {
      const data = fc.oneof(
        bytes(2000),
        fc
          .array(frame, { maxLength: 20 })
          .map((frames) => Buffer.concat([Buffer.from(PREFACE), SETTINGS, ...frames])),
        bytes(50).map((rest) => Buffer.concat([Buffer.from(PREFACE), rest])),
        bytes(20).map((rest) => Buffer.concat([Buffer.from('GET / HTTP/1.1\r\n'), rest])),
      )
      await fc.assert(fc.asyncProperty(data, sendRaw), raw.parameters)
      checkRegistry()
      expect(registry.names).toEqual(['good'])
    },
    raw.timeoutMs,
  )

  const calls = fuzz({ runs: 100, msPerRun: 60 })
  it(
    'registers only right names and places, whatever is called',
    async () => {
      await fc.assert(
        fc.asyncProperty(call, async (one) => {
          await sendCall(one)
          checkRegistry()
        }),
        calls.parameters,
      )
      // Enough calls have some that are right.
      if (calls.parameters.numRuns >= 100) expect(registry.names.length).toBeGreaterThan(1)
    },
    calls.timeoutMs,
  )

  it('closes with connections that sent half of a message', async () => {
    const halves = [PREFACE, PREFACE.slice(0, 10), '\x16\x03\x01', ''].map((half) => {
      const socket = net.connect(server.socket)
      socket.on('error', () => {})
      socket.resume()
      socket.write(half)
      return socket
    })
    expect(await registerGood()).toBe('taken')
    await server.close()
    await eventually(() =>
      expect(halves.map(({ closed }) => closed)).toEqual([true, true, true, true]),
    )
  })
})
