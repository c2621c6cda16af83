import { DiscoverResponse } from '@akrijs/proto/discovery'
import type { Device } from '@akrijs/runtime/handler'
import { DeviceListCheck } from '@akrijs/sdk/host'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fuzz } from '../../../test/support/fuzz.js'
import { turnsOf } from '../../../test/support/turns.js'
import { boundList, MAX_DEVICE_BYTES, readResponse } from './discover-response.js'

const never = new AbortController().signal
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

const bound = (mostDevices: number, first: readonly string[] = []) => ({
  mostDevices,
  rank: () => (id: string) => (first.includes(id) ? 0 : 1),
  check: new DeviceListCheck(),
})

describe.each<
  [string, (devices: Device[], ...rest: [ReturnType<typeof bound>]) => Promise<unknown>]
>([
  [
    'a message',
    async (devices, limits) => {
      const ids = devices.map(({ id }) => id)
      const { reports, ...list } = await readResponse(message(named(ids)), limits, never)
      expect(reports).toEqual([])
      return list
    },
  ],
  ['a list of this process', async (devices, limits) => boundList(devices, limits)],
])('%s', (_, read) => {
  it('has all its devices, in their order, up to the bound', async () => {
    const devices = named(['c', 'a', 'b'])
    expect(await read(devices, bound(3))).toEqual({ devices, leftOut: 0 })
    expect(await read([], bound(3))).toEqual({ devices: [], leftOut: 0 })
  })

  it('keeps the first devices of the order beyond the bound, and counts the others', async () => {
    const devices = [...numbered(10_000), ...named(['served'])]
    expect(await read(devices, bound(3, ['served']))).toEqual({
      devices: named(['served', '000000', '000001']),
      leftOut: 9998,
    })
  })
})

describe('a message', () => {
  it('with reports without end gives a few of them, as texts for people', async () => {
    const report = { reason: '\u001b[2J', count: 3, ids: ['\u202ea'], listed: false }
    const reports = Array.from({ length: 10_000 }, () => report)
    const many = DiscoverResponse.encode({ devices: named(['a']), reports }).finish()
    const list = await readResponse(many, bound(1), never)
    expect(list.devices).toHaveLength(1)
    expect(list.reports).toHaveLength(47)
    expect(list.reports?.[0]).toEqual({ ...report, reason: '\ufffd[2J', ids: ['\ufffda'] })
    // Each id of no bytes takes two bytes in the message, and much more in memory.
    const empty = { ...report, ids: Array.from({ length: 1_000_000 }, () => '') }
    const large = DiscoverResponse.encode({ devices: named(['a']), reports: [empty] }).finish()
    expect((await readResponse(large, bound(1), never)).reports).toEqual([])
  })

  it('of many devices, or of many properties, is read in turns with other work', async () => {
    const many = message(numbered(10_000))
    expect(await turnsOf(() => readResponse(many, bound(10), never))).toBeGreaterThan(1000)
    const names = Array.from({ length: 400 }, (_, index) => [`P${index}`, ''])
    const properties = Object.fromEntries(names)
    const large = message(numbered(60).map(({ id }) => withProperties(id, properties)))
    // They are read twice: the last time, all their properties are decoded.
    expect(await turnsOf(() => readResponse(large, bound(1000), never))).toBeGreaterThan(15)
  })

  it('of as many devices as 4 MiB can hold is refused before it is read', async () => {
    // Two bytes for each device: an id would take two more.
    const bytes = Buffer.alloc(4 * 1024 * 1024)
    for (let at = 0; at < bytes.length; at += 2) bytes[at] = 0x0a
    await expect(readResponse(bytes, bound(1000), never)).rejects.toThrow(
      'a message has more than 200000 devices',
    )
  })

  it('with a device that is too large is refused with the size that would be right', async () => {
    const devices = [withProperties('1', { A: 'x'.repeat(MAX_DEVICE_BYTES) })]
    await expect(readResponse(message(devices), bound(10), never)).rejects.toThrow(
      /a device takes \d+ bytes, more than 262144/,
    )
  })

  it('is refused if its properties would take much more memory than the message', async () => {
    const names = Array.from({ length: 5000 }, (_, index) => [index.toString(36), ''])
    const large = (id: string) => withProperties(id, Object.fromEntries(names))
    const list = await readResponse(message([large('a'), ...numbered(99)]), bound(100), never)
    expect(list.devices).toHaveLength(100)
    const many = message([large('a'), large('b')])
    await expect(readResponse(many, bound(100), never)).rejects.toMatchObject({
      code: 'AKRI_ERR_INVALID_RESPONSE',
      message: 'the devices of a message have more than 10000 fields',
    })
  })

  it('has the devices of the message before, as far as they are equal', async () => {
    const reading = bound(1000)
    const before = await readResponse(message(numbered(100)), reading, never)
    const now = await readResponse(message([...named(['x']), ...numbered(100)]), reading, never)
    expect(reading.check.checked).toBe(101)
    expect(now.devices.filter((device) => before.devices.includes(device))).toHaveLength(100)
  })

  it.each([
    ['beside the devices', (group: Uint8Array) => group],
    // A device has the number 1.
    ['in a device', (group: Uint8Array) => Buffer.from([0x0a, group.length, ...group])],
  ])('with a group, which proto3 does not have, is refused: %s', async (_, within) => {
    // Start and end of a group of the number 7, with an empty group of the number 8 in it.
    const group = Buffer.from([0x3b, 0x43, 0x44, 0x3c])
    await expect(readResponse(within(group), bound(10), never)).rejects.toMatchObject({
      code: 'AKRI_ERR_INVALID_RESPONSE',
      message: 'a message has a group, in field 7',
    })
  })

  it('with the id of one device twice is refused', async () => {
    for (const most of [1, 2, 3])
      await expect(
        readResponse(message(named(['a', 'a', 'a', 'b'])), bound(most + 1), never),
      ).rejects.toThrow('two devices have the id "a"')
  })

  it('ends early when its reader is gone', async () => {
    const stop = new AbortController()
    const reading = readResponse(message(numbered(50_000)), bound(10), stop.signal)
    stop.abort()
    expect((await reading).leftOut).toBeLessThan(50_000)
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
            const { devices, leftOut } = await readResponse(content, bound(most), never)
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

describe('a list of this process', () => {
  it.each<unknown>([undefined, 'text', { length: 5 }])(
    'that is no array is left to the check of lists: %j',
    (list) => {
      expect(boundList(list as Device[], bound(1))).toEqual({
        devices: list,
        leftOut: 0,
      })
    },
  )

  it('keeps a wrong device, so that the check finds it', () => {
    const wrong = [{ id: 'a' }, { id: 'b' }, { id: 7 }, null] as unknown as Device[]
    const { devices } = boundList(wrong, bound(2))
    expect(devices).toEqual([{ id: 7 }, null])
  })
})
