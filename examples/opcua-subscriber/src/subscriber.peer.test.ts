import { once } from 'node:events'
import { mkdtempSync, readdirSync, rmSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  DataType,
  OPCUACertificateManager,
  OPCUAServer,
  StatusCodes,
  Subscription,
  Variant,
  type VariantOptions,
} from 'node-opcua'
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest'
import { BuiltBroker } from '../test-peers/broker.js'

const directory = mkdtempSync(path.join(os.tmpdir(), 'akri-subscriber-'))
let broker: BuiltBroker
let server: Mixer

beforeAll(async () => {
  broker = await BuiltBroker.build()
  server = await Mixer.start(0)
})

afterEach(() => broker.kill())

afterAll(async () => {
  await server.close()
  broker.remove()
  rmSync(directory, { recursive: true, force: true })
})

/** Variables of the server besides `Level`. */
const VALUES: Readonly<Record<string, VariantOptions>> = {
  Unknown: { dataType: 'Double', value: Number.NaN },
  Grid: {
    dataType: 'Double',
    arrayType: 'Matrix',
    dimensions: [2, 3],
    value: [1, 2, 3, 4, 5, Number.POSITIVE_INFINITY],
  },
  Long: { dataType: 'String', value: 'x'.repeat(5000) },
}

/** A server with the variable `ns=1;s=Level`, which rises with each read, and with VALUES. */
class Mixer {
  readonly #server: OPCUAServer
  readonly port: number

  private constructor(opcua: OPCUAServer, port: number) {
    this.#server = opcua
    this.port = port
  }

  static async start(port: number): Promise<Mixer> {
    const certificates = (name: string) =>
      new OPCUACertificateManager({ rootFolder: path.join(directory, name) })
    const opcua = new OPCUAServer({
      port,
      resourcePath: '/UA/Mixer',
      serverCertificateManager: certificates('server'),
      userCertificateManager: certificates('user'),
    })
    await opcua.initialize()
    const namespace = opcua.engine.addressSpace?.getOwnNamespace()
    let level = 0
    namespace?.addVariable({
      organizedBy: opcua.engine.addressSpace?.rootFolder.objects ?? '',
      browseName: 'Level',
      nodeId: 's=Level',
      dataType: DataType.Double,
      minimumSamplingInterval: 10,
      value: { get: () => new Variant({ dataType: DataType.Double, value: level++ }) },
    })
    for (const [name, value] of Object.entries(VALUES)) {
      namespace?.addVariable({
        organizedBy: opcua.engine.addressSpace?.rootFolder.objects ?? '',
        browseName: name,
        nodeId: `s=${name}`,
        dataType: value.dataType ?? 'Double',
        minimumSamplingInterval: 10,
        ...(value.arrayType === 'Matrix' && { valueRank: 2, arrayDimensions: [2, 3] }),
        value: { get: () => new Variant({ arrayType: 'Scalar', ...value }) },
      })
    }
    const sensor = namespace?.addVariable({
      organizedBy: opcua.engine.addressSpace?.rootFolder.objects ?? '',
      browseName: 'Sensor',
      nodeId: 's=Sensor',
      dataType: DataType.Double,
    })
    sensor?.setValueFromSource({ dataType: 'Double', value: 1 }, StatusCodes.BadSensorFailure)
    await opcua.start()
    return new Mixer(opcua, Number(new URL(opcua.getEndpointUrl()).port))
  }

  get url(): string {
    return `opc.tcp://127.0.0.1:${this.port}/UA/Mixer`
  }

  async close(): Promise<void> {
    await this.#server.shutdown(0)
  }
}

const patience = { timeout: 120_000, interval: 100 }

describe('the OPC UA subscriber', () => {
  it('prints and reports values, ends at SIGTERM, and writes nothing elsewhere', async () => {
    const running = broker.run({
      OPCUA_DISCOVERY_URL: server.url,
      OPCUA_NODE_ID: 'ns=1;s=Level',
    })
    await expect.poll(() => running.values().length, patience).toBeGreaterThan(2)
    const numbers = running.values().map(({ value }) => Number(value))
    expect(numbers).toEqual([...numbers].sort((a, b) => a - b))
    expect(running.values()[0]).toMatchObject({
      nodeId: 'ns=1;s=Level',
      status: 'Good',
      type: 'Double',
      time: expect.stringMatching(/^20/),
    })
    expect(await running.end('SIGTERM')).toEqual([0, null])
    expect(running.printed.err).toBe('')
    expect(running.reports()).toEqual(['connected', 'status', 'time', 'value'])
    expect(running.reported('connected')).toBe('yes')
    expect(running.reported('status')).toBe('Good')
    expect(running.reported('value')).toBe(String(running.values().at(-1)?.value))
    expect(readdirSync(broker.directory)).not.toContain('home')
  })

  it.each([
    ['NaN', 'Unknown', { type: 'Double', value: 'NaN' }, '"NaN"'],
    [
      'a matrix',
      'Grid',
      { type: 'Double', value: [1, 2, 3, 4, 5, 'Infinity'], dimensions: [2, 3] },
      '[1,2,3,4,5,"Infinity"]',
    ],
    [
      'a value that is too long for a report',
      'Long',
      { value: 'x'.repeat(5000) },
      'too long: see the log',
    ],
    ['a bad status', 'Sensor', { status: 'BadSensorFailure' }, undefined],
  ])('keeps %s', async (_what, name, line, reported) => {
    const running = broker.run({
      OPCUA_DISCOVERY_URL: server.url,
      OPCUA_NODE_ID: `ns=1;s=${name}`,
    })
    await expect.poll(() => running.reported('time'), patience).not.toBe('')
    expect(running.values()[0]).toMatchObject(line)
    if (reported !== undefined) expect(running.reported('value')).toBe(reported)
    expect(running.reported('status')).toBe(running.values()[0]?.status)
    expect(await running.end('SIGTERM')).toEqual([0, null])
  })

  it('ends at SIGTERM also before the first answer of the server', async () => {
    const silent = createServer((socket) => void socket.resume().on('error', () => undefined))
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    const address = silent.address()
    const port = typeof address === 'object' ? address?.port : ''
    const running = broker.run({ OPCUA_DISCOVERY_URL: `opc.tcp://127.0.0.1:${port}/` })
    await once(silent, 'connection')
    expect(await running.end('SIGTERM')).toEqual([0, null])
    silent.close()
  })

  it('keeps the connection while the value stays the same', async () => {
    const running = broker.run({
      OPCUA_DISCOVERY_URL: server.url,
      OPCUA_NODE_ID: 'ns=1;s=Sensor',
      OPCUA_SILENCE_SECONDS: '120',
    })
    await expect.poll(() => running.values().length, patience).toBe(1)
    await sleep(25_000)
    expect(running.values()).toHaveLength(1)
    expect(running.printed.err).toBe('')
  })

  it('reports a silence in time, also of a server that publishes less often', async () => {
    const { minimumPublishingInterval } = Subscription
    Subscription.minimumPublishingInterval = 1000
    const sockets = new Set<Socket>()
    const relay = createServer((socket) => {
      const upstream = connect(server.port, '127.0.0.1')
      for (const end of [socket, upstream]) sockets.add(end.on('error', () => undefined))
      socket.pipe(upstream).pipe(socket)
    })
    await once(relay.listen(0, '127.0.0.1'), 'listening')
    const address = relay.address()
    const port = typeof address === 'object' ? address?.port : ''
    try {
      const running = broker.run({
        OPCUA_DISCOVERY_URL: `opc.tcp://127.0.0.1:${port}/UA/Mixer`,
        OPCUA_NODE_ID: 'ns=1;s=Sensor',
        OPCUA_INTERVAL_MS: '10',
        OPCUA_SILENCE_SECONDS: '6',
      })
      await expect.poll(() => running.reported('connected'), patience).toBe('yes')
      // No value changes: only keep-alives come, in time.
      await sleep(8000)
      expect(running.printed.err).toBe('')
      for (const socket of sockets) socket.pause().unpipe()
      await expect
        .poll(() => running.printed.err, { timeout: 30_000 })
        .toContain('the server was silent for 6 s')
    } finally {
      Subscription.minimumPublishingInterval = minimumPublishingInterval
      for (const socket of sockets) socket.destroy()
      relay.close()
    }
  })

  it('reaches a server with an announced name of multicast DNS', async () => {
    const announced = server.url.replace('127.0.0.1', 'mixer.local')
    const environment = {
      OPCUA_DISCOVERY_URL: announced,
      OPCUA_SERVER_ADDRESSES: '127.0.0.1,::1',
      OPCUA_NODE_ID: 'ns=1;s=Level',
    }
    const running = broker.run(environment)
    await expect.poll(() => running.printed.out, patience).toMatch(/"status":"Good"/)
    expect(await running.end('SIGTERM')).toEqual([0, null])
  })

  it.each<[string, Record<string, string>, RegExp]>([
    ['no server', {}, /OPCUA_DISCOVERY_URL is not set/],
    ['a wrong interval', { OPCUA_INTERVAL_MS: 'often' }, /OPCUA_INTERVAL_MS is often/],
    [
      'a wrong silence',
      { OPCUA_SILENCE_SECONDS: 'long' },
      /^OPCUA_SILENCE_SECONDS is long; write seconds from 1 to 86400\n$/,
    ],
    [
      'a text that is no node id',
      { OPCUA_NODE_ID: 'ns=one;s=Level' },
      /^OPCUA_NODE_ID: "ns=one;s=Level" is no node id: write ns=2;s=Temperature, .*\n$/,
    ],
    [
      'a node that the server does not have',
      { OPCUA_NODE_ID: 'ns=1;s=Nothing' },
      /ns=1;s=Nothing cannot be followed: BadNodeIdUnknown/,
    ],
  ])('reports %s', async (name, environment, message) => {
    const running = broker.run({
      ...(name === 'no server' ? {} : { OPCUA_DISCOVERY_URL: server.url }),
      ...environment,
    })
    expect(await running.end()).toEqual([1, null])
    expect(running.printed.err).toMatch(message)
  })
})
