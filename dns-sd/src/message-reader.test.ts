import { beforeEach, describe, expect, it } from 'vitest'
import { costOf } from '../../test/support/cost.js'
import { MessageReader } from './message-reader.js'
import { type LocalInterface, networkList } from './networks.js'

const TYPE = ['_opcua-tcp', '_tcp', 'local']
const eth0: LocalInterface = {
  name: 'eth0',
  ipv4: '192.0.2.10',
  hasIpv6: true,
  networks: networkList(['192.0.2.10/24']),
}
const SENDER = { address: '192.0.2.1', port: 5353 }

let floods: string[]
let reader: MessageReader

beforeEach(() => {
  floods = []
  reader = new MessageReader({ types: [TYPE], onFlood: (sender) => floods.push(sender) })
})

/** A response with an address record of plc.local for each address. */
function addresses(...all: readonly string[]): Buffer {
  const name = [3, ...Buffer.from('plc'), 5, ...Buffer.from('local'), 0]
  const records = all.map((address) => [
    ...name,
    0,
    1,
    0,
    1,
    0,
    0,
    0,
    120,
    0,
    4,
    ...address.split('.').map(Number),
  ])
  return Buffer.from([0, 0, 0x84, 0, 0, 0, 0, all.length, 0, 0, 0, 0, ...records.flat()])
}

/** A response with a TXT record. */
function text(): Buffer {
  return Buffer.from([
    0, 0, 0x84, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0x61, 0, 0, 16, 0, 1, 0, 0, 0, 120, 0, 1, 0,
  ])
}

/** The accepted addresses of a message. */
function read(message: Buffer, { from = SENDER, now = 0 } = {}): string[] | undefined {
  const heard = reader.read(message, from, [eth0], now)
  return heard?.records.flatMap((record) => (record.type === 'A' ? record.address : []))
}

describe('messages of multicast DNS', () => {
  it('are read only from the allowed port and networks', () => {
    const message = addresses('192.0.2.1')
    expect(read(message)).toEqual(['192.0.2.1'])
    expect(read(message, { from: { ...SENDER, port: 5399 } })).toBeUndefined()
    expect(read(message, { from: { ...SENDER, address: '198.51.100.1' } })).toBeUndefined()
    message.writeUInt16BE(0, 2)
    expect(read(message)).toBeUndefined()
  })

  it('may contain a few addresses of the receiving network or of allowed networks', () => {
    const all = [
      '192.0.2.7',
      '198.51.100.7',
      '127.0.0.1',
      '169.254.169.254',
      '0.0.0.0',
      '224.0.0.1',
    ]
    expect(read(addresses(...all))).toEqual(['192.0.2.7'])
    const readingIn = (...networks: string[]) =>
      new MessageReader({ types: [TYPE], allowed: networkList(networks), onFlood: () => undefined })
    reader = readingIn('0.0.0.0/0')
    expect(read(addresses(...all))).toEqual(['192.0.2.7', '198.51.100.7'])
    reader = readingIn('127.0.0.0/8', '169.254.169.254')
    expect(read(addresses(...all))).toEqual(['127.0.0.1', '169.254.169.254'])
    const many = Array.from({ length: 100 }, (_, index) => `127.0.0.${index}`)
    expect(read(addresses(...many))).toHaveLength(16)
  })

  it('of a sender over its limit are dropped, and others are read', async () => {
    const message = text()
    const readMany = () =>
      Array.from({ length: 5000 }, () => read(message)).filter((records) => records !== undefined)
    expect(readMany()).toHaveLength(400)
    expect(floods).toHaveLength(4600)
    expect(await costOf(readMany)).toBeLessThan(100)
    expect(read(addresses('192.0.2.2'), { from: { ...SENDER, address: '192.0.2.2' } })).toEqual([
      '192.0.2.2',
    ])
    expect(read(addresses('192.0.2.1'), { now: 10_000 })).toEqual(['192.0.2.1'])
  })

  it('of announced servers are read during a flood from thousands of addresses', () => {
    const onFlood = (sender: string) => floods.push(sender)
    const servicesOf = (sender: string) => (sender === SENDER.address ? 1 : 0)
    const eth1 = { ...eth0, networks: networkList(['192.0.2.10/24', '10.0.0.0/8']) }
    reader = new MessageReader({ types: [TYPE], onFlood, servicesOf })
    let readOnes = 0
    const from = (address: string, now: number) =>
      reader.read(text(), { ...SENDER, address }, [eth1], now) === undefined ? 0 : 1
    for (const now of [0, 1000, 2000, 3000]) {
      for (let n = 0; n < 1000; n++) readOnes += from(`10.${now / 1000}.${n >> 8}.${n & 255}`, now)
      expect([from(SENDER.address, now), from('192.0.2.2', now)]).toEqual([1, 0])
    }
    expect(readOnes).toBe(4 * 500)
  })

  it('of strangers, and queries, do not use the limit of responders', () => {
    const query = addresses('192.0.2.1')
    query.writeUInt16BE(0, 2)
    for (let index = 0; index < 1000; index++) {
      read(query)
      read(addresses('192.0.2.1'), { from: { ...SENDER, address: '198.51.100.1' } })
    }
    expect(floods).toEqual([])
    expect(read(addresses('192.0.2.1'))).toEqual(['192.0.2.1'])
  })

  it('of strangers count as announcements if they are about the service', () => {
    const strangers: string[] = []
    const onStranger = (sender: string) => strangers.push(sender)
    reader = new MessageReader({ types: [TYPE], onFlood: () => undefined, onStranger })
    const from = { ...SENDER, address: '198.51.100.1' }
    const announcement = Buffer.concat([addresses('192.0.2.1'), Buffer.from(TYPE[0] ?? '')])
    read(addresses('192.0.2.1'), { from })
    expect(strangers).toEqual([])
    read(announcement, { from })
    read(announcement)
    expect(strangers).toEqual(['198.51.100.1'])
  })

  it('of strangers are cheap, with any content', async () => {
    const message = addresses(...Array.from({ length: 300 }, () => '192.0.2.1'))
    const readMany = () => {
      for (let count = 0; count < 500; count++)
        read(message, { from: { ...SENDER, address: '198.51.100.1' }, now: count * 1000 })
    }
    expect(await costOf(readMany)).toBeLessThan(50)
  })
})
