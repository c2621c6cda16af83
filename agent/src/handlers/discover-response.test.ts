import { DiscoverResponse } from '@akrijs/proto/discovery'
import { DeviceListCheck } from '@akrijs/sdk/host'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fuzz } from '../../../test/support/fuzz.js'
import { turnsOf } from '../../../test/support/turns.js'
import { DISCOVER_RESPONSE } from '../limits.js'
import { readResponse } from './discover-response.js'

const withProperties = (id: string, properties: Record<string, string>) => ({
  id,
  properties,
  mounts: [],
  deviceSpecs: [],
})
const named = (ids: readonly string[]) => ids.map((id) => withProperties(id, { NAME: id }))
const message = (devices: ReturnType<typeof named>) =>
  DiscoverResponse.encode({ devices, reports: [] }).finish()
const numbered = (count: number) =>
  named(Array.from({ length: count }, (_, index) => String(index).padStart(6, '0')))

const readBound = (bytes: Uint8Array, mostDevices: number, rank = (_id: string) => 1) =>
  readResponse(bytes, { mostDevices, rank }, new DeviceListCheck())

const entry = fc.record({ id: fc.string({ maxLength: 3 }), rank: fc.integer({ min: 0, max: 3 }) })

it('a message has all its devices, or the first ones by rank and id, in any order', async () => {
  const entries = fc.uniqueArray(entry, { selector: ({ id }) => id, maxLength: 60 })
  const most = fc.integer({ min: 1, max: 20 })
  await fc.assert(
    fc.asyncProperty(entries, most, async (list, mostDevices) => {
      const usable = list.filter(({ id }) => id !== '')
      const ids = usable.map(({ id }) => id)
      const ranks = new Map(usable.map(({ id, rank }) => [id, rank]))
      const rankOf = (id: string) => ranks.get(id) ?? expect.fail(id)
      const read = async (listed: readonly string[]) => {
        const { devices, leftOut } = await readBound(message(named(listed)), mostDevices, rankOf)
        return [devices.map(({ id }) => id), leftOut]
      }
      const order = (a: string, b: string) => rankOf(a) - rankOf(b) || (a < b ? -1 : 1)
      const kept = ids.length > mostDevices ? ids.toSorted(order).slice(0, mostDevices) : ids
      const leftOut = ids.length - kept.length
      expect(await read(ids)).toEqual([kept, leftOut])
      const reversed = kept.length < ids.length ? kept : ids.toReversed()
      expect(await read(ids.toReversed())).toEqual([reversed, leftOut])
    }),
  )
})

describe('a message', () => {
  it('with reports without end gives a few of them, and none of many ids', async () => {
    const report = { reason: 'r', count: 3, ids: ['a'], listed: false }
    // Each id of no bytes takes two bytes in the message, and much more in memory.
    const large = { ...report, ids: Array.from({ length: 1_000_000 }, () => '') }
    for (const [reports, kept] of [
      [Array.from({ length: 10_000 }, () => report), 47],
      [[large], 0],
    ] as const) {
      const bytes = DiscoverResponse.encode({ devices: named(['a']), reports: [...reports] })
      expect((await readBound(bytes.finish(), 1)).reports).toHaveLength(kept)
    }
  })

  it('of many devices, or of many properties, is read in turns with other work', async () => {
    const many = message(numbered(10_000))
    expect(await turnsOf(() => readBound(many, 10))).toBeGreaterThan(1000)
    const names = Array.from({ length: 400 }, (_, index) => [`P${index}`, ''])
    const properties = Object.fromEntries(names)
    const large = message(numbered(60).map(({ id }) => withProperties(id, properties)))
    // They are read twice: the last time, all their properties are decoded.
    expect(await turnsOf(() => readBound(large, 1000))).toBeGreaterThan(15)
  })

  // Start and end of a group of the number 7, with an empty group of the number 8 in it.
  const group = Buffer.from([0x3b, 0x43, 0x44, 0x3c])
  it.each([
    // Two bytes for each device: an id would take two more.
    [
      'as many devices as 4 MiB can hold',
      Buffer.alloc(4 << 20, '0a00', 'hex'),
      /more than 200000 devices/,
    ],
    [
      'as many reports as 4 MiB can hold',
      Buffer.alloc(3 << 20, 'c23e00', 'hex'),
      /more than 200000 devices/,
    ],
    [
      'a device that is too large',
      message([withProperties('1', { A: 'x'.repeat(DISCOVER_RESPONSE.deviceBytes) })]),
      /^a device takes \d+ bytes, more than 262144$/,
    ],
    ['a group, which proto3 does not have', group, /^a message has a group, in field 7$/],
    // A device has the number 1.
    ['a group in a device', Buffer.from([0x0a, group.length, ...group]), /a group, in field 7$/],
    [
      'the id of one device twice',
      message(named(['a', 'a', 'a', 'b'])),
      /^two devices have the id "a"/,
    ],
    ['something else', Buffer.from('no message'), /^a message is not a DiscoverResponse: /],
  ])('with %s is refused', async (_, bytes, reason) => {
    for (const most of [2, 1000])
      await expect(readBound(bytes, most)).rejects.toMatchObject({
        code: expect.stringMatching(/^AKRI_ERR_INVALID_(RESPONSE|DEVICE_LIST)$/),
        message: expect.stringMatching(reason),
      })
  })

  it('is refused if its properties would take much more memory than the message', async () => {
    const names = Array.from({ length: 5000 }, (_, index) => [index.toString(36), ''])
    const large = (id: string) => withProperties(id, Object.fromEntries(names))
    const list = await readBound(message([large('a'), ...numbered(99)]), 100)
    expect(list.devices).toHaveLength(100)
    const many = message([large('a'), large('b')])
    await expect(readBound(many, 100)).rejects.toMatchObject({
      code: 'AKRI_ERR_INVALID_RESPONSE',
      message: 'the devices of a message have more than 10000 fields',
    })
  })

  const { parameters, timeoutMs } = fuzz({ runs: 300 })
  it(
    'of any bytes gives a list or an error of ours, with and without a bound',
    async () => {
      const valid = Buffer.from(message(numbered(20)))
      const bytes = fc.oneof(
        fc.uint8Array({ maxLength: 200 }),
        fc
          .array(fc.tuple(fc.nat(valid.length - 1), fc.nat(255)), { maxLength: 10 })
          .map((edits) => {
            const edited = Buffer.from(valid)
            for (const [at, value] of edits) edited[at] = value
            return edited
          }),
      )
      await fc.assert(
        fc.asyncProperty(bytes, fc.integer({ min: 1, max: 30 }), async (content, most) => {
          try {
            const { devices, leftOut } = await readBound(content, most)
            expect(devices.length).toBeLessThanOrEqual(most)
            expect(leftOut).toBeGreaterThanOrEqual(0)
          } catch (error) {
            expect(error).toMatchObject({
              code: expect.stringMatching(/^AKRI_ERR_INVALID_(RESPONSE|DEVICE_LIST)$/),
            })
          }
        }),
        parameters,
      )
    },
    timeoutMs,
  )
})
