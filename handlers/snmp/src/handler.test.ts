import dgram from 'node:dgram'
import { once } from 'node:events'
import { ManualClock, discover as startDiscovery } from '@akrijs/sdk/testing'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { createSnmpHandler } from './handler.js'

// BER, as SNMPv2c has it (RFC 3416).
const tlv = (tag: number, ...parts: readonly Buffer[]): Buffer => {
  const body = Buffer.concat(parts)
  const length = body.length < 128 ? [body.length] : [0x82, body.length >> 8, body.length & 0xff]
  return Buffer.concat([Buffer.from([tag, ...length]), body])
}
const int = (value: number) => tlv(2, Buffer.from([value]))
const text = (value: string | Buffer) => tlv(4, Buffer.from(value))
const oid = (value: string) => {
  const [, , ...rest] = value.split('.').map(Number)
  const bytes = rest.flatMap((part) => (part < 128 ? [part] : [0x80 | (part >> 7), part & 0x7f]))
  return tlv(6, Buffer.from([0x2b, ...bytes]))
}
const SYSTEM = '1.3.6.1.2.1.1'
const BROTHER = '1.3.6.1.4.1.2435.2.3.9.1'
const objects = (values: Readonly<Record<number, Buffer>>) =>
  tlv(
    0x30,
    ...Object.entries(values).map(([id, value]) => tlv(0x30, oid(`${SYSTEM}.${id}.0`), value)),
  )
const PRINTER = objects({
  1: text('Brother NC-8300h\r\n Firmware 1.02 '),
  2: oid(BROTHER),
  5: text('printer-1'),
  6: text('Hall \u001b[31m'),
})
const LIST = ({ id, community }: Asked, list = PRINTER, { status = 0, tag = 0xa2 } = {}) =>
  tlv(0x30, int(1), text(community), tlv(tag, id, int(status), int(0), list))

interface Asked {
  readonly community: string
  /** The request id in BER. */
  readonly id: Buffer
}

/** The community and the id of a request, which has lengths below 128. */
function read(request: Buffer): Asked {
  const at = 5
  const community = request.subarray(at + 2, at + 2 + (request[at + 1] ?? 0))
  const id = request.subarray(at + 2 + community.length + 2)
  return { community: community.toString(), id: id.subarray(0, 2 + (id[1] ?? 0)) }
}

/** What was asked, without the repetitions for a device that is slow. */
const requests = () => [...new Map(asked.map((each) => [each.id.toString('hex'), each])).values()]

/** A device on 127.0.0.1. */
let device: dgram.Socket
let answer: (asked: Asked, sender: dgram.RemoteInfo) => readonly Buffer[]
let asked: Asked[]
let clock: ManualClock
let stop: (() => Promise<void>)[]

beforeEach(async () => {
  clock = new ManualClock()
  asked = []
  stop = []
  answer = (one) => [LIST(one)]
  device = dgram.createSocket('udp4', (request, sender) => {
    const one = read(request)
    asked.push(one)
    for (const bytes of answer(one, sender)) device.send(bytes, sender.port, sender.address)
  })
  device.bind(0, '127.0.0.1')
  await once(device, 'listening')
})

afterEach(async () => {
  for (const end of stop) await end()
  device.close()
})

function discover(details: object = {}, properties: Readonly<Record<string, string>> = {}) {
  const all = { addresses: ['127.0.0.1'], port: device.address().port, ...details }
  // The times of net-snmp are real.
  const handler = createSnmpHandler({ answerMs: 100 })
  const session = startDiscovery(handler, all, { clock, properties })
  stop.push(() => session.close())
  return session
}
const round = async (session: ReturnType<typeof discover>) => {
  await clock.advance(60_000)
  return await session.next()
}

describe('the SNMP handler', () => {
  it('offers a device with what its system group says, as far as it is printable', async () => {
    const { port } = device.address()
    expect(await discover().next()).toMatchObject([
      {
        id: `127.0.0.1:${port}`,
        properties: {
          SNMP_ADDRESS: '127.0.0.1',
          SNMP_PORT: String(port),
          SNMP_OBJECT_ID: BROTHER,
          SNMP_DESCRIPTION: 'Brother NC-8300h Firmware 1.02',
          SNMP_NAME: 'printer-1',
        },
      },
    ])
  })

  it('leaves out texts that are not printable, and cuts long texts', async () => {
    const values = { 1: text('x'.repeat(300)), 2: text('1.3\n'), 5: text('a\u202eb') }
    answer = (one) => [LIST(one, objects({ ...values, 6: text(Buffer.from([0xff])) }))]
    const [{ properties } = expect.fail('nothing found')] = await discover().next()
    expect(Object.keys(properties).sort()).toEqual([
      ...['SNMP_ADDRESS', 'SNMP_DESCRIPTION', 'SNMP_OBJECT_ID', 'SNMP_PORT'],
    ])
    expect(properties.SNMP_DESCRIPTION).toHaveLength(255)
    expect(properties.SNMP_OBJECT_ID).toBe('1.3')
  })

  it('asks each device once in a round, a minute after the round before', async () => {
    await discover().next()
    await clock.advance(59_000)
    expect(requests()).toHaveLength(1)
  })

  it('asks with the community public, or that of a Secret', async () => {
    await discover().next()
    await discover({}, { community: 'plant-7\n' }).next()
    expect(requests().map(({ community }) => community)).toEqual(['public', 'plant-7'])
  })

  it.each([
    [{ items: ['1.3.6.1.4.1.2435'] }, true],
    [{ items: [`.${BROTHER}`] }, true],
    [{ items: ['1.3.6.1.4.1.243'] }, false],
    [{ items: ['1.3.6.1.4.1.2435'], action: 'Exclude' }, false],
  ])('the filter %j compares object ids by their parts', async (objectIds, isOffered) => {
    const session = discover({ objectIds })
    expect(await session.next()).toHaveLength(isOffered ? 1 : 0)
    const [leftOut] = session.leftOut
    if (!isOffered) expect(leftOut).toMatchObject({ reason: 'filtered by objectIds' })
  })

  it('removes a device that does not answer in three rounds in a row', async () => {
    const session = discover()
    await session.next()
    const before = asked.length
    answer = () => []
    for (let rounds = 1; rounds <= 2; rounds++) {
      await clock.advance(60_000)
      // Each round sends its request twice.
      await expect.poll(() => asked.length).toBe(before + 2 * rounds)
      await expect.poll(() => clock.sleeping).toEqual([60_000])
      expect(session.pending).toBe(0)
    }
    expect(await round(session)).toEqual([])
    expect(asked).toHaveLength(before + 6)
  })

  it.each<[string, typeof answer, string]>([
    ['a silent device', () => [], 'no answer in 0.1 s'],
    ['a device that refuses', (one) => [LIST(one, PRINTER, { status: 16 })], 'request refused'],
    ['another message', (one) => [LIST(one, PRINTER, { tag: 0xa0 })], 'breaks the protocol'],
    ['bytes', () => [Buffer.from([0x30, 0x84, 0xff, 0xff])], 'breaks the protocol'],
    ['a long answer', (one) => [LIST(one, text('x'.repeat(3000)))], 'no answer in 0.1 s'],
    [
      'an answer with another community',
      ({ id }) => [LIST({ id, community: 'other' })],
      'breaks the protocol',
    ],
    [
      'an SNMPv3 message, which makes net-snmp throw',
      ({ id }) => {
        const [engine, none] = [text('engine-1'), int(0)]
        const security = tlv(0x30, engine, none, none, text('u'), text('x'.repeat(12)), text(''))
        const header = tlv(0x30, id, int(5), text(Buffer.from([1])), int(3))
        const pdu = tlv(0x30, engine, text(''), tlv(0xa2, id, none, none, tlv(0x30)))
        return [tlv(0x30, int(3), header, text(security), pdu)]
      },
      'breaks the protocol',
    ],
  ])('does not offer %s, says why, and names no secret', async (_, given, reason) => {
    answer = given
    const session = discover({}, { community: 'plant-7' })
    expect(await session.next()).toEqual([])
    const { port } = device.address()
    expect(session.remarks).toEqual([
      `no SNMP answer on UDP port ${port} from 127.0.0.1: ${reason}`,
    ])
  })

  it('takes no answer from another sender', async () => {
    const other = dgram.createSocket('udp4')
    stop.push(async () => void other.close())
    answer = (one, { port, address }) => {
      other.send(LIST(one), port, address)
      return []
    }
    const session = discover()
    expect(await session.next()).toEqual([])
    expect(session.remarks).toHaveLength(1)
  })

  it('names three addresses of a reason', async () => {
    answer = () => []
    const session = discover({ addresses: ['127.0.0.1-127.0.0.5'] })
    expect(await session.next()).toEqual([])
    expect(session.remarks[0]).toMatch(/ from 127.0.0.1, 127.0.0.2, 127.0.0.3 and 2 others: /)
  })

  it.each<[object, RegExp]>([
    [{ addresses: [] }, /addresses: name at least one address/],
    [{ addresses: ['printer.local'] }, /addresses\[0\]: write an address, or a range/],
    [{ addresses: ['10.0.0.0-10.0.1.0'] }, /addresses\[0\]: write an address, or a range/],
    [{ addresses: ['10.0.0.9-10.0.0.1'] }, /addresses\[0\]: write an address, or a range/],
    [{ addresses: ['10.0.0.0-10.0.0.255', '10.0.1.0'] }, /addresses: name 256 addresses at most/],
    [{ objectIds: ['1.3'] }, /objectIds/],
    [{ port: 0 }, /port/],
    [{ community: 'secret' }, /community/],
  ])('refuses the details %j', async (details, problem) => {
    await expect(discover(details).next()).rejects.toThrow(problem)
  })
})
