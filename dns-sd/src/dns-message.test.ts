import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { costOf } from '../../test/support/cost.js'
import { fuzz } from '../../test/support/fuzz.js'
import { decodeResponse, MAX_MESSAGE } from './dns-decoder.js'
import { encodeQuery } from './dns-encoder.js'
import { nameKey, type PtrRecord } from './dns-message.js'

const { parameters, timeoutMs } = fuzz({ runs: 2000 })
const SERVICE = ['_opcua-tcp', '_tcp', 'local']

/** A query with known answers differs from a response by one bit of its header. */
function asResponse(query: Buffer | undefined): Buffer {
  const message = Buffer.from(query ?? Buffer.alloc(0))
  message.writeUInt16BE(0x8400, 2)
  return message
}

const header = (...counts: number[]) =>
  Buffer.from([0, 0, 0x84, 0, ...counts.flatMap((count) => [count >> 8, count & 0xff])])

/** The name, type, class, TTL and data of a record. */
function record(
  name: number[],
  type: number,
  recordClass: number,
  ttl: number,
  data: number[],
): number[] {
  const numbers = Buffer.alloc(10)
  numbers.writeUInt16BE(type, 0)
  numbers.writeUInt16BE(recordClass, 2)
  numbers.writeUInt32BE(ttl, 4)
  numbers.writeUInt16BE(data.length, 8)
  return [...name, ...numbers, ...data]
}

const label = fc
  .string({ unit: 'grapheme', minLength: 1, maxLength: 20 })
  .filter(
    (text) => Buffer.byteLength(text) <= 63 && !Buffer.from(text).toString().includes('\u{fffd}'),
  )
const instance = label.map((first) => [first, ...SERVICE])

/** A response with as many records as fit. */
function fill(first: number[], next: (index: number) => number[]): Buffer {
  const records = [first]
  for (let length = 12 + first.length; ; ) {
    const record = next(records.length)
    length += record.length
    if (length > MAX_MESSAGE)
      return Buffer.concat([header(0, records.length, 0, 0), Buffer.from(records.flat())])
    records.push(record)
  }
}

const long = [...Array(126).fill([1, 0x61]).flat(), 0]
const pointer = (label: number) => [0xc0, 12 + 2 * label]
const service = [...SERVICE.flatMap((text) => [text.length, ...Buffer.from(text)]), 0]

/**
 * A name, and then pointers that each point to the previous element. The name starts at byte 23.
 */
function chain(bytes: number): number[] {
  const pointers = Array.from({ length: bytes / 2 }, (_, index) =>
    index === 0 ? 23 : 24 + 2 * (index - 1),
  )
  return [0, ...pointers.flatMap((offset) => [0xc0 | (offset >> 8), offset & 0xff])]
}

describe('DNS messages', () => {
  it('survive a round trip, with names that share suffixes', () => {
    fc.assert(
      fc.property(
        fc.array(fc.record({ target: instance, ttl: fc.nat(0xffffffff) }), { maxLength: 8 }),
        (known) => {
          const answers = known.map(
            ({ target, ttl }): PtrRecord => ({
              type: 'PTR',
              name: SERVICE,
              target,
              ttl,
              flush: false,
            }),
          )
          const [message, ...more] = encodeQuery([{ name: SERVICE, type: 'PTR' }], answers)
          expect(more).toEqual([])
          expect(decodeResponse(asResponse(message))).toEqual(answers)
        },
      ),
    )
  })

  it('are split for many questions, and omit known answers that do not fit', () => {
    const names = Array.from({ length: 100 }, (_, index) => [`server number ${index}`, ...SERVICE])
    const messages = encodeQuery(names.map((name) => ({ name, type: 'SRV' })))
    expect(messages.length).toBeGreaterThan(1)
    expect(messages.reduce((sum, message) => sum + message.readUInt16BE(4), 0)).toBe(100)
    const known = names.map(
      (target): PtrRecord => ({ type: 'PTR', name: SERVICE, target, ttl: 10, flush: false }),
    )
    const [query, ...more] = encodeQuery([{ name: SERVICE, type: 'PTR' }], known)
    expect(more).toEqual([])
    expect(query?.length).toBeLessThan(1400)
    expect(encodeQuery([])).toEqual([])
  })

  it('of any bytes are read or refused, and never throw', { timeout: timeoutMs }, () => {
    fc.assert(
      fc.property(fc.uint8Array({ maxLength: 600 }), fc.nat(60), (bytes, count) => {
        decodeResponse(Buffer.concat([header(0, count, 0, 0), bytes]))
        decodeResponse(Buffer.from(bytes))
      }),
      parameters,
    )
  })

  it('with a changed or missing byte are read or refused, and never throw', {
    timeout: timeoutMs,
  }, () => {
    const answers = ['a', 'b.c', 'ü'].map((first): PtrRecord => {
      return { type: 'PTR', name: SERVICE, target: [first, ...SERVICE], ttl: 120, flush: false }
    })
    const good = asResponse(encodeQuery([{ name: SERVICE, type: 'PTR' }], answers)[0])
    fc.assert(
      fc.property(
        fc.nat(good.length - 1),
        fc.nat(255),
        fc.nat(good.length),
        (at, value, length) => {
          const bad = Buffer.from(good)
          bad[at] = value
          decodeResponse(bad.subarray(0, length))
        },
      ),
      parameters,
    )
  })

  it('contain SRV, TXT and address records; unknown records are skipped', () => {
    const name = [1, 0x41, 0]
    const message = Buffer.concat([
      header(0, 6, 0, 0),
      Buffer.from(record(name, 33, 0x8001, 120, [0, 0, 0, 0, 0x12, 0xe8, 2, 0x70, 0x31, 0])),
      Buffer.from(record(name, 16, 1, 4500, [3, 0x61, 0x3d, 0x62, 0])),
      Buffer.from(record(name, 47, 1, 120, [1, 2, 3])),
      Buffer.from(record(name, 1, 1, 120, [192, 0, 2, 7])),
      Buffer.from(
        record(name, 28, 1, 120, [0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1]),
      ),
      Buffer.from(record(name, 1, 3, 120, [192, 0, 2, 8])),
    ])
    expect(decodeResponse(message)).toEqual([
      { name: ['A'], ttl: 120, flush: true, type: 'SRV', port: 4840, target: ['p1'] },
      { name: ['A'], ttl: 4500, flush: false, type: 'TXT', strings: ['a=b', ''] },
      { name: ['A'], ttl: 120, flush: false, type: 'A', address: '192.0.2.7' },
      { name: ['A'], ttl: 120, flush: false, type: 'AAAA', address: '2001:db8::1' },
    ])
  })

  it.each<[string, Buffer]>([
    ['a name that points at itself', Buffer.concat([header(0, 1, 0, 0), Buffer.from([0xc0, 12])])],
    [
      'two names that point at each other',
      Buffer.concat([header(0, 1, 0, 0), Buffer.from([0xc0, 14, 0xc0, 12])]),
    ],
    [
      'a name that grows by its pointers',
      Buffer.concat([
        header(0, 1, 0, 0),
        Buffer.from([...Array(62).fill([3, 97, 97, 97]).flat(), 0xc0, 12]),
      ]),
    ],
    ['65535 records in 12 bytes', header(0, 65535, 65535, 65535)],
    [
      'a record that ends behind the message',
      Buffer.concat([header(0, 1, 0, 0), Buffer.from(record([0], 16, 1, 1, [9]))]),
    ],
    [
      'more bytes than any message has',
      Buffer.concat([header(0, 0, 0, 0), Buffer.alloc(MAX_MESSAGE)]),
    ],
  ])('are refused with %s', (_, message) => {
    expect(decodeResponse(message)).toBeUndefined()
  })

  it.each<[string, Buffer, number]>([
    [
      'one name of 126 labels',
      fill(record(long, 12, 1, 120, [0xc0, 12]), () => record([0xc0, 12], 12, 1, 120, [0xc0, 12])),
      0,
    ],
    [
      'all ends of one name of 126 labels',
      fill(record(long, 12, 1, 120, [0]), (index) =>
        record(pointer(index % 126), 12, 1, 120, pointer((index * 5) % 126)),
      ),
      0,
    ],
    [
      'long chains of pointers',
      fill(record([0], 99, 1, 120, chain(3000)), (index) =>
        record([0], 12, 1, 120, [0xc0 | ((3000 + index) >> 8), index & 0xff]),
      ),
      0,
    ],
    [
      'thousands of strings',
      fill(record([1, 0x41, 0], 16, 1, 120, Array(4000).fill(0)), () =>
        record([0xc0, 12], 16, 1, 120, Array(4000).fill(0)),
      ),
      2,
    ],
    [
      'hundreds of names that are ours',
      fill(record(service, 12, 1, 120, [1, 97, 0xc0, 12]), (index) =>
        record([0xc0, 12], 12, 1, 120, [
          2,
          97 + (index % 26),
          97 + (Math.floor(index / 26) % 26),
          0xc0,
          12,
        ]),
      ),
      128,
    ],
  ])('cost little with %s', async (_, message, records) => {
    const decode = () => {
      for (let count = 0; count < 200; count++) decodeResponse(message, [SERVICE])
    }
    expect(await costOf(decode)).toBeLessThan(1500)
    expect(message.length).toBeGreaterThan(8000)
    expect(decodeResponse(message, [SERVICE]) ?? []).toHaveLength(records)
  })

  it('may have names that point to other names', () => {
    const message = Buffer.concat([
      header(0, 3, 0, 0),
      Buffer.from(record([1, 0x61, 1, 0x62, 0], 12, 1, 9, [1, 0x63, 0xc0, 14])),
      Buffer.from(record([0xc0, 27], 12, 1, 9, [0xc0, 14])),
      Buffer.from(record([1, 0x64, 0xc0, 31], 12, 1, 9, [0xc0, 43])),
    ])
    const names = decodeResponse(message)?.map((record) =>
      record.type === 'PTR' ? [record.name.join('.'), record.target.join('.')] : [],
    )
    expect(names).toEqual([
      ['a.b', 'c.b'],
      ['c.b', 'b'],
      ['d.c.b', 'b'],
    ])
    expect(decodeResponse(message, [['x'], ['C', 'B']])).toHaveLength(1)
  })

  it('are not responses with a query, an error or another opcode', () => {
    expect(
      decodeResponse(encodeQuery([{ name: SERVICE, type: 'PTR' }])[0] ?? Buffer.alloc(0)),
    ).toBeUndefined()
    for (const flags of [0x8403, 0xa400]) {
      const message = header(0, 0, 0, 0)
      message.writeUInt16BE(flags, 2)
      expect(decodeResponse(message)).toBeUndefined()
    }
  })

  it('have names that differ by dots inside labels, and not by case', () => {
    expect(nameKey(['a.b', 'c'])).not.toBe(nameKey(['a', 'b', 'c']))
    expect(nameKey(['a\\', 'c'])).not.toBe(nameKey(['a\\.c']))
    expect(nameKey(['PLC', 'Local'])).toBe(nameKey(['plc', 'local']))
  })
})
