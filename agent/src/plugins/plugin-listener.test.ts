import { once } from 'node:events'
import { existsSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import http2 from 'node:http2'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { setImmediate } from 'node:timers/promises'
import {
  type AllocateResponse,
  DevicePluginClient,
  DevicePluginService,
  ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { NO_CHANNELZ } from '@akrijs/runtime'
import { credentials, type ServiceError, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { AllocationRefusedError, KubeletUnavailableError } from '../errors.js'
import type { ContainerAllocation } from './allocation.js'
import { ListStreams } from './list-streams.js'
import { PluginListener } from './plugin-listener.js'

let directory: string
let socket: string
let streams: ListStreams
let plugin: PluginListener
let client: DevicePluginClient
let allocate: () => Promise<readonly ContainerAllocation[]>

beforeEach(async () => {
  directory = await mkdtemp(path.join(os.tmpdir(), 'akri-plugin-'))
  socket = path.join(directory, 'plugin.sock')
  streams = new ListStreams()
  allocate = async () => []
  plugin = await listen(socket)
  client = new DevicePluginClient(`unix:${socket}`, credentials.createInsecure(), NO_CHANNELZ)
})

afterEach(async () => {
  client.close()
  plugin.destroy()
  await rm(directory, { recursive: true })
})

function listen(at: string): Promise<PluginListener> {
  return PluginListener.listen(at, {
    behaviour: { prefer: () => [] },
    allocate: () => allocate(),
    watch: (call) => streams.open(call),
  })
}

function ask(ids: readonly string[] = []): Promise<AllocateResponse> {
  return new Promise((resolve, reject) => {
    client.allocate({ containerRequests: [{ devicesIDs: [...ids] }] }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    )
  })
}

const devices = (count: number, healthy: boolean) =>
  Array.from({ length: count }, (_, index) => ({ id: `cam-8120fe-${index}`, healthy }))

/** A client that reads a stream of lists only when the test does. */
async function openUnread(): Promise<http2.ClientHttp2Stream> {
  const session = http2.connect('http://localhost', {
    createConnection: () => net.connect(socket),
  })
  const stream = session.request({
    ':method': 'POST',
    ':path': DevicePluginService.listAndWatch.path,
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  stream.once('close', () => session.close())
  stream.end(Buffer.alloc(5))
  await eventually(() => expect(streams.size).toBe(1))
  return stream
}

/** The number of healthy devices in each list of a stream. */
function healthyIn(bytes: Buffer): number[] {
  if (bytes.length === 0) return []
  const end = 5 + bytes.readUInt32BE(1)
  const list = ListAndWatchResponse.decode(bytes.subarray(5, end))
  const healthy = list.devices.filter(({ health }) => health === 'Healthy').length
  return [healthy, ...healthyIn(bytes.subarray(end))]
}

it.each([
  ['a refusal', new AllocationRefusedError('no slot'), status.FAILED_PRECONDITION, 'no slot'],
  ['a cluster that is away', new KubeletUnavailableError('away'), status.UNAVAILABLE, 'away'],
  [
    'a bug, with any text',
    new Error('100 % größer als 5\nä \ud800'),
    status.INTERNAL,
    '100 % größer als 5\n| ä \ufffd',
  ],
  ['a long text', new Error('日'.repeat(20_000)), status.INTERNAL, `${'日'.repeat(340)}…`],
])('answers %s with its code and its text', async (_what, error, code, details) => {
  allocate = () => Promise.reject(error)
  await expect(ask()).rejects.toMatchObject({ code, details })
})

it.each([
  [
    'of more than 4 MB',
    DevicePluginService.allocate.path,
    Buffer.alloc(4 * 1024 * 1024 + 1),
    status.RESOURCE_EXHAUSTED,
  ],
  ['of wrong bytes', DevicePluginService.allocate.path, Buffer.from([1]), status.INTERNAL],
  ['to an unknown method', '/v1beta1.DevicePlugin/Free', Buffer.of(), status.UNIMPLEMENTED],
])('refuses a request %s, and answers the next one', async (_what, method, request, code) => {
  const same = (bytes: Buffer) => bytes
  const refused = new Promise<ServiceError | null>((resolve) => {
    client.makeUnaryRequest(method, same, same, request, resolve)
  })
  expect(await refused).toMatchObject({ code })
  expect(await ask()).toEqual({ containerResponses: [] })
})

it.each([
  ['HTTP/1', 'GET / HTTP/1.1\r\nHost: localhost\r\n\r\n'],
  ['wrong frames', `PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n${'x'.repeat(100)}`],
])('ends a connection with %s, and answers others', async (_what, text) => {
  const connection = net.connect(socket).resume()
  connection.write(text)
  await once(connection, 'close')
  expect(await ask()).toEqual({ containerResponses: [] })
})

it('takes 100 calls of a connection at once', async () => {
  const session = http2.connect('http://localhost', {
    createConnection: () => net.connect(socket),
  })
  const [{ maxConcurrentStreams }] = await once(session, 'remoteSettings')
  expect(maxConcurrentStreams).toBe(100)
  session.close()
})

it('keeps only the newest list for a kubelet that does not read', async () => {
  const unread = await openUnread()
  streams.send(devices(5000, true))
  await setImmediate()
  for (let count = 1; count <= 20; count++) {
    streams.send(devices(count, true))
    await setImmediate()
  }
  streams.end()
  expect(healthyIn(await buffer(unread))).toEqual([5000, 20])
})

it('answers calls under way before it ends, and removes its socket', async () => {
  let finish: (() => void) | undefined
  allocate = () =>
    new Promise((resolve) => {
      finish = () => resolve([])
    })
  const asked = ask()
  await eventually(() => expect(finish).toBeDefined())
  const closed = plugin.close()
  expect(existsSync(socket)).toBe(false)
  finish?.()
  expect(await asked).toEqual({ containerResponses: [] })
  await closed
})

it('is not served where a file is', async () => {
  await expect(listen(directory)).rejects.toThrow(/^listen EADDRINUSE/)
})
