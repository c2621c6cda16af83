import { once } from 'node:events'
import { existsSync } from 'node:fs'
import http2 from 'node:http2'
import net from 'node:net'
import path from 'node:path'
import { buffer } from 'node:stream/consumers'
import { objectKey } from '@akrijs/kube/objects'
import {
  type AllocateResponse,
  DevicePluginClient,
  DevicePluginService,
  ListAndWatchResponse,
} from '@akrijs/proto/device-plugin'
import { NO_CHANNELZ, silentLogger } from '@akrijs/runtime'
import { ManualClock } from '@akrijs/runtime/testing'
import { credentials, type ServiceError, status } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { eventually } from '../../../test/support/eventually.js'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
import { AllocationRefusedError, KubeletUnavailableError } from '../errors.js'
import { noopObserver } from '../report/observer.js'
import type { AdvertisedDevice } from '../slots/resource.js'
import { resourcesOf, servedWith } from '../testing/objects.js'
import type { ContainerAllocation } from './allocation.js'
import { openPluginServer, pluginSocket } from './plugin-server.js'
import { ResourcePlugin } from './resource-plugin.js'

let directory: string
let socket: string
let clock: ManualClock
let list: AdvertisedDevice[]
let plugin: ResourcePlugin
let client: DevicePluginClient
let allocate: () => Promise<readonly ContainerAllocation[]>

beforeEach(async () => {
  directory = await temporaryDirectory()
  clock = new ManualClock()
  list = []
  allocate = async () => []
  plugin = new ResourcePlugin({
    resource: resourcesOf(servedWith()).one,
    book: { advertise: () => [...list], prefer: () => [] },
    key: objectKey('default', 'cam-8120fe'),
    configuration: objectKey('default', 'cam'),
    claims: { allocate: () => allocate() },
    kubelet: {
      pluginDirectory: directory,
      register: async () => {},
      onRestart: () => {},
      onDirectoryRead: () => {},
    },
    clock,
    log: silentLogger,
    observer: noopObserver,
    onProblem: () => {},
  })
  await plugin.started
  socket = plugin.socket ?? expect.fail()
  client = new DevicePluginClient(`unix:${socket}`, credentials.createInsecure(), NO_CHANNELZ)
})

afterEach(async () => {
  client.close()
  const closed = plugin.stop()
  await clock.advance(1000)
  await closed
})

function ask(): Promise<AllocateResponse> {
  return new Promise((resolve, reject) => {
    client.allocate({ containerRequests: [{ devicesIDs: [] }] }, (error, answer) =>
      error ? reject(error) : resolve(answer),
    )
  })
}

const devices = (count: number) =>
  Array.from({ length: count }, (_, index) => ({ id: `cam-8120fe-${index}`, healthy: true }))
/** A client that reads a stream of lists only when the test does. */
async function openUnread(): Promise<http2.ClientHttp2Stream> {
  const createConnection = () => net.connect(socket)
  const connected = http2.connect('http://localhost', { createConnection })
  const stream = connected.request({
    ':method': 'POST',
    ':path': DevicePluginService.listAndWatch.path,
    'content-type': 'application/grpc',
    te: 'trailers',
  })
  stream.once('close', () => connected.close())
  stream.end(Buffer.alloc(5))
  await once(stream, 'response')
  return stream
}

/** The number of healthy devices in each list of a stream. */
function healthyIn(bytes: Buffer): number[] {
  if (bytes.length < 5 || bytes.length < 5 + bytes.readUInt32BE(1)) return []
  const end = 5 + bytes.readUInt32BE(1)
  const { devices } = ListAndWatchResponse.decode(bytes.subarray(5, end))
  const healthy = devices.filter(({ health }) => health === 'Healthy').length
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

it('refuses a request of more than 4 MB, and answers the next one', async () => {
  const same = (bytes: Buffer) => bytes
  const request = Buffer.alloc(4 * 1024 * 1024 + 1)
  const { path: method } = DevicePluginService.allocate
  const refused = new Promise<ServiceError | null>((resolve) => {
    client.makeUnaryRequest(method, same, same, request, resolve)
  })
  expect(await refused).toMatchObject({ code: status.RESOURCE_EXHAUSTED })
  expect(await ask()).toEqual({ containerResponses: [] })
})

it('keeps only the newest list for a kubelet that does not read', async () => {
  list = devices(5000)
  const unread = await openUnread()
  for (let count = 1; count <= 20; count++) {
    list = devices(count)
    plugin.readvertise()
    // As long as the larger list before may take.
    await clock.advance(100)
  }
  void plugin.stop()
  expect(healthyIn(await buffer(unread))).toEqual([5000, 20])
})

it('sends a large list once for the changes of its time, and a small one at once', async () => {
  list = devices(1000)
  const stream = await openUnread()
  const read: Buffer[] = []
  stream.on('data', (bytes: Buffer) => read.push(bytes))
  const lists = () => healthyIn(Buffer.concat(read))
  await eventually(() => expect(lists()).toEqual([1000]))
  const change = async (count: number, waitMs: number) => {
    list = devices(count)
    for (let changes = 0; changes < 5; changes++) plugin.readvertise()
    await clock.advance(waitMs)
  }
  await change(2000, 19)
  await change(3000, 1)
  await eventually(() => expect(lists()).toEqual([1000, 3000]))
  await change(10, 60)
  await eventually(() => expect(lists()).toEqual([1000, 3000, 10]))
  // A list that is the same is not sent again.
  await change(10, 0)
  await change(11, 0)
  await eventually(() => expect(lists()).toEqual([1000, 3000, 10, 11]))
})

it('ends within a second if the kubelet does not read its list', async () => {
  list = devices(5000)
  await openUnread()
  const stopped = plugin.stop(true)
  await clock.advance(1000)
  await stopped
  expect(existsSync(socket)).toBe(false)
})

it('answers calls under way before it ends, and removes its socket', async () => {
  let finish: (() => void) | undefined
  allocate = () =>
    new Promise((resolve) => {
      finish = () => resolve([])
    })
  const asked = ask()
  await eventually(() => expect(finish).toBeDefined())
  const closed = plugin.stop()
  await eventually(() => expect(existsSync(socket)).toBe(false))
  finish?.()
  expect(await asked).toEqual({ containerResponses: [] })
  await closed
})

it('names the socket that cannot be made', async () => {
  const missing = path.join(directory, 'missing')
  const opening = openPluginServer(missing, 'akri.sh/cam', {} as never, {
    clock,
    log: silentLogger,
  })
  await expect(opening).rejects.toThrow(/^cannot listen on .*missing.*: /)
})

it('A23 has a socket whose path fits, however long the name of the Instance is', () => {
  const long = pluginSocket('/var/lib/kubelet/device-plugins', `akri.sh/${'a'.repeat(63)}`)
  expect(Buffer.byteLength(long)).toBeLessThanOrEqual(107)
  expect(pluginSocket('/var/lib/kubelet/device-plugins', 'akri.sh/cam')).toMatch(
    /akri-cam-[0-9a-f]{8}\.sock$/,
  )
})
