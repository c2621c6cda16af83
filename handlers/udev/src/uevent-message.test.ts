import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { parseUeventMessage } from './uevent-message.js'

const pairs = 'ACTION=add\0DEVPATH=/devices/virtual/mem/null\0SUBSYSTEM=mem\0SEQNUM=7\0'

/** The layout of libudev-monitor.c. */
function udevMessage(payload: string, change: (header: Buffer) => void = () => {}): Buffer {
  const header = Buffer.alloc(40)
  header.write('libudev\0')
  header.writeUInt32BE(0xfeedcafe, 8)
  header.writeUInt32LE(40, 12)
  header.writeUInt32LE(40, 16)
  header.writeUInt32LE(Buffer.byteLength(payload), 20)
  change(header)
  return Buffer.concat([header, Buffer.from(payload)])
}

describe('a message about a device', () => {
  it('is read in the format of the kernel', () => {
    const event = parseUeventMessage(
      Buffer.from(`add@/devices/virtual/mem/null\0${pairs}`),
      'kernel',
    )
    expect(event).toMatchObject({ action: 'add', devpath: '/devices/virtual/mem/null' })
    expect(event?.properties.get('SUBSYSTEM')).toBe('mem')
  })

  it('is read in the format of udevd', () => {
    expect(parseUeventMessage(udevMessage(pairs), 'udev')?.properties.get('SEQNUM')).toBe('7')
  })

  it.each([
    ['no magic number', udevMessage(pairs, (header) => header.writeUInt32BE(1, 8))],
    ['properties beyond its end', udevMessage(pairs, (header) => header.writeUInt32LE(10_000, 20))],
    ['properties in its header', udevMessage(pairs, (header) => header.writeUInt32LE(8, 16))],
    ['a path that leads out', udevMessage('ACTION=add\0DEVPATH=/devices/../../etc\0')],
    ['no action', udevMessage('DEVPATH=/devices/a\0')],
    ['nothing', Buffer.alloc(0)],
  ])('is undefined with %s', (_what, message) => {
    expect(parseUeventMessage(message, 'udev')).toBeUndefined()
  })

  it('is not accepted from the other sender', () => {
    expect(parseUeventMessage(udevMessage(pairs), 'kernel')).toBeUndefined()
    expect(parseUeventMessage(Buffer.from(`add@/devices/a\0${pairs}`), 'udev')).toBeUndefined()
  })

  it('never throws, for any bytes', () => {
    const noise = fc.uint8Array({ maxLength: 300 }).map((bytes) => Buffer.from(bytes))
    const broken = fc.tuple(fc.nat({ max: 60 }), fc.nat({ max: 255 })).map(([at, byte]) => {
      const message = udevMessage(pairs)
      message[at] = byte
      return message
    })
    fc.assert(
      fc.property(
        fc.oneof(noise, broken),
        fc.constantFrom('kernel' as const, 'udev' as const),
        (message, source) => {
          const event = parseUeventMessage(message, source)
          expect(event === undefined || event.devpath.startsWith('/')).toBe(true)
        },
      ),
      { numRuns: 2000 },
    )
  })
})
