import net from 'node:net'
import { ManualClock, discover as startDiscovery } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createModbusHandler } from './handler.js'

interface Asked {
  readonly unit: number
  readonly level: number
  readonly object: number
}
/** The PDU of an answer; undefined: none. */
type Answer = readonly number[] | undefined

const object = (id: number, value: string) => [id, value.length, ...Buffer.from(value)]
const identity = (objects: readonly number[], next = 0) => [
  ...[0x2b, 0x0e, 2, 0x82, next > 0 ? 0xff : 0, next, 1],
  ...objects,
]
const ACME = identity([...object(0, 'ACME'), ...object(1, 'PM-5'), ...object(2, '1.0')])
const refuse = (code: number): Answer => [0xab, code]

/** A device or a gateway on 127.0.0.1. */
let server: net.Server
let sockets: Set<net.Socket>
let port: number
let answer: (asked: Asked, socket: net.Socket) => Answer
let asked: (Asked & { readonly at: number })[]
let connections: { total: number; most: number }
let clock: ManualClock
let stop: (() => Promise<void>)[]

beforeEach(async () => {
  clock = new ManualClock()
  sockets = new Set()
  asked = []
  connections = { total: 0, most: 0 }
  stop = []
  answer = () => ACME
  server = net.createServer((socket) => {
    sockets.add(socket)
    connections.total++
    connections.most = Math.max(connections.most, sockets.size)
    for (const event of ['end', 'close']) socket.on(event, () => sockets.delete(socket))
    socket.on('error', () => undefined)
    socket.on('data', (bytes) => {
      const [unit = 0, , , level = 0, first = 0] = bytes.subarray(6)
      const one = { unit, level, object: first }
      asked.push({ ...one, at: clock.monotonicMs() })
      const pdu = answer(one, socket)
      if (pdu === undefined) return void setImmediate(() => clock.advance(2000))
      const header = [...bytes.subarray(0, 2), 0, 0, 0, pdu.length + 1, unit]
      socket.write(Buffer.from([...header, ...pdu]))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const address = server.address()
  port = typeof address === 'object' && address !== null ? address.port : 0
})

afterEach(async () => {
  for (const end of stop) await end()
  for (const socket of sockets) socket.destroy()
  await new Promise((resolve) => server.close(resolve))
})

function discover(details: object = {}, handler = createModbusHandler()) {
  const all = { addresses: ['127.0.0.1'], port, ...details }
  const session = startDiscovery(handler, all, { clock })
  stop.push(() => session.close())
  return session
}

/** The next list. Only pauses pass meanwhile: a unit has its time. */
async function next(session: ReturnType<typeof discover>) {
  let isOver = false
  const list = session.next().finally(() => {
    isOver = true
  })
  list.catch(() => undefined)
  await pauses(() => isOver)
  return await list
}
/** Lets pauses pass until the condition holds. */
async function pauses(isOver: () => boolean): Promise<void> {
  while (!isOver()) {
    if (clock.sleeping.some((ms) => ms <= 100)) await clock.advance(100)
    await new Promise((resolve) => setImmediate(resolve))
  }
}
/** The list of the next round, if it is another list. */
const round = async (session: ReturnType<typeof discover>) => {
  await clock.advance(60_000)
  return await next(session)
}

describe('the Modbus handler', () => {
  it('offers each unit that answers, with what it says of itself', async () => {
    answer = ({ unit }) => (unit === 2 ? refuse(1) : ACME)
    expect(await next(discover({ units: [1, 2] }))).toMatchObject([
      {
        id: `127.0.0.1:${port}/1`,
        properties: {
          MODBUS_ADDRESS: '127.0.0.1',
          MODBUS_PORT: String(port),
          MODBUS_UNIT: '1',
          MODBUS_VENDOR_NAME: 'ACME',
          MODBUS_PRODUCT_CODE: 'PM-5',
          MODBUS_REVISION: '1.0',
        },
      },
      {
        id: `127.0.0.1:${port}/2`,
        properties: { MODBUS_ADDRESS: '127.0.0.1', MODBUS_PORT: String(port), MODBUS_UNIT: '2' },
      },
    ])
  })

  it('asks slowly: units one after the other over one connection, with pauses', async () => {
    await next(discover({ units: ['1-4'] }))
    expect(asked.map(({ unit }) => unit)).toEqual([1, 2, 3, 4])
    expect(asked.map(({ at }) => at)).toEqual([0, 100, 200, 300])
    expect(connections).toEqual({ total: 1, most: 1 })
    await clock.advance(59_000)
    expect(asked).toHaveLength(4)
  })

  it('asks for the objects that follow, and not again for earlier ones', async () => {
    const names = ['ACME', 'PM-5', '1.0', 'http://acme.example', 'Meter', 'M', 'Hall']
    answer = (one) =>
      identity(object(one.object, names[one.object] ?? ''), one.object < 4 ? one.object + 1 : 1)
    expect(await next(discover())).toMatchObject([
      {
        properties: {
          MODBUS_VENDOR_NAME: 'ACME',
          MODBUS_PRODUCT_NAME: 'Meter',
          MODBUS_VENDOR_URL: 'http://acme.example',
        },
      },
    ])
    expect(asked.map((one) => one.object)).toEqual([0, 1, 2, 3, 4])
    expect(asked.map(({ at }) => at)).toEqual([0, 100, 200, 300, 400])
  })

  it.each([2, 3])('asks a unit with exception %i for the basic level', async (code) => {
    answer = ({ level }) => (level === 2 ? refuse(code) : ACME)
    const [device] = await next(discover())
    expect(device?.properties).toMatchObject({ MODBUS_VENDOR_NAME: 'ACME' })
    expect(asked.map(({ level }) => level)).toEqual([2, 1])
  })

  it('offers a unit that is busy as it was', async () => {
    const session = discover({ units: [1, 2] })
    await next(session)
    answer = ({ unit }) => (unit === 1 ? refuse(6) : identity(object(0, 'Other')))
    expect(await round(session)).toMatchObject([
      { properties: { MODBUS_VENDOR_NAME: 'ACME' } },
      { properties: { MODBUS_VENDOR_NAME: 'Other' } },
    ])
  })

  it('removes a unit that does not answer in three rounds in a row', async () => {
    const session = discover({ units: [1, 2] })
    await next(session)
    answer = ({ unit }) => (unit === 2 ? undefined : ACME)
    for (let rounds = 1; rounds <= 2; rounds++) {
      await clock.advance(60_000)
      await pauses(() => asked.length === 2 + 2 * rounds && clock.sleeping[0] === 60_000)
      // A list that equals the list before does not come.
      expect(session.pending).toBe(0)
    }
    const devices = await round(session)
    expect(devices.map(({ properties }) => properties.MODBUS_UNIT)).toEqual(['1'])
    expect(asked).toHaveLength(8)
  })

  it.each<[string, typeof answer, string]>([
    ['a gateway without the unit', () => refuse(11), 'the gateway reaches no such unit'],
    ['a gateway without the line', () => refuse(10), 'the gateway reaches no such unit'],
    ['a silent unit', () => undefined, 'no answer in 2 s'],
    [
      'a device that ends the connection',
      (_, socket) => {
        socket.destroy()
        return []
      },
      'connection closed',
    ],
    [
      'another server',
      (_, socket) => {
        socket.write('HTTP/1.1 400 Bad Request\r\n\r\n')
        return []
      },
      'another protocol',
    ],
  ])('does not offer %s, and says why', async (_, given, reason) => {
    answer = given
    const session = discover()
    expect(await next(session)).toEqual([])
    expect(session.remarks).toEqual([`no Modbus answer from 127.0.0.1:${port}/1: ${reason}`])
  })

  it('says once why no unit of an address answers, and asks it once', async () => {
    await new Promise((resolve) => server.close(resolve))
    const session = discover({ units: ['1-5'] })
    expect(await next(session)).toEqual([])
    const named = [1, 2, 3].map((unit) => `127.0.0.1:${port}/${unit}`).join(', ')
    expect(session.remarks).toEqual([
      `no Modbus answer from ${named} and 2 others: connection refused`,
    ])
    server.listen(port, '127.0.0.1')
  })

  it('takes a late answer for no answer to the next request', async () => {
    const late: (() => void)[] = []
    answer = ({ unit }, socket) => {
      if (unit === 2) for (const write of late) write()
      if (unit !== 1) return refuse(11)
      late.push(() => socket.write(Buffer.from([0, 1, 0, 0, 0, ACME.length + 1, 2, ...ACME])))
      return undefined
    }
    const session = discover({ units: [1, 2] })
    expect(await next(session)).toEqual([])
    expect(session.remarks).toHaveLength(2)
  })

  it('opens a connection again for the next unit if the device ends it', async () => {
    answer = ({ unit }, socket) => {
      if (unit === 1) socket.destroy()
      return ACME
    }
    const devices = await next(discover({ units: [1, 2, 3] }))
    expect(devices.map(({ properties }) => properties.MODBUS_UNIT)).toEqual(['2', '3'])
    expect(connections.total).toBe(2)
  })

  it('has one connection to an address at a time, also with several Configurations', async () => {
    const handler = createModbusHandler()
    const sessions = [discover({ units: [1, 2] }, handler), discover({ units: [3] }, handler)]
    for (const session of sessions) await next(session)
    expect(asked.map(({ unit }) => unit)).toEqual([1, 2, 3])
    expect(connections).toEqual({ total: 2, most: 1 })
  })

  it('leaves out what the filters exclude', async () => {
    answer = ({ unit }) => identity([...object(0, `Vendor ${unit}`), ...object(1, `P-${unit}`)])
    const session = discover({
      units: [1, 2, 3],
      vendorNames: { items: ['Vendor 1'], action: 'Exclude' },
      productCodes: { items: ['P-1', 'P-2'] },
    })
    const devices = await next(session)
    expect(devices.map(({ properties }) => properties.MODBUS_UNIT)).toEqual(['2'])
    expect(session.leftOut).toEqual([
      { id: `127.0.0.1:${port}/1`, reason: 'filtered by vendorNames', detail: 'Vendor 1' },
      { id: `127.0.0.1:${port}/3`, reason: 'filtered by productCodes', detail: 'P-3' },
    ])
  })

  it('closes its connection when the discovery ends', async () => {
    const session = discover()
    const closed = new Promise<void>((resolve) => {
      answer = (_, socket) => {
        socket.once('close', resolve)
        void session.close()
        return ACME
      }
    })
    await closed
    expect(clock.sleeping).toEqual([])
  })
})
