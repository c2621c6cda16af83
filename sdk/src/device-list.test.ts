import type { Device } from '@akrijs/runtime/handler'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkDeviceList,
  equalDeviceLists,
  MAX_ID_LENGTH,
  MAX_PROPERTIES_BYTES,
} from './device-list.js'
import { InvalidDeviceListError } from './errors.js'

const spec = { containerPath: '/dev/a', hostPath: '/dev/a', permissions: 'rw' }

/** A value that leaves room for a name of so many characters. */
const large = (name: number) => 'x'.repeat(MAX_PROPERTIES_BYTES - name)

describe('checkDeviceList', () => {
  it.each<[string, unknown, RegExp]>([
    ['what is not an array', {}, /a device list is an array/],
    ['a device that is not an object', [1], /device 0/],
    ['a hole in the array', new Array(1), /device 0 is undefined/],
    ['an empty id', [{ id: '' }], /device 0: id is empty/],
    [
      'an id that is too long',
      [{ id: 'x'.repeat(MAX_ID_LENGTH + 1) }],
      /2049 characters, more than 2048/,
    ],
    ['two devices of one id', [{ id: 'cam' }, { id: 'cam' }], /two devices have the id "cam"/],
    [
      'a relative host path',
      [{ id: 'cam', deviceSpecs: [{ ...spec, hostPath: 'dev/a' }] }],
      /"cam".*hostPath is "dev\/a"/,
    ],
    [
      'a path with ..',
      [{ id: 'cam', mounts: [{ containerPath: '/a', hostPath: '/a/../b' }] }],
      /"cam".*mounts\[0\]\.hostPath/,
    ],
    [
      'bad permissions',
      [{ id: 'cam', deviceSpecs: [{ ...spec, permissions: 'rr' }] }],
      /"cam".*permissions is "rr"/,
    ],
    ['a property that is not text', [{ id: 'cam', properties: { A: 1 } }], /"cam".*property "A"/],
    ['a property name with =', [{ id: 'cam', properties: { 'A=B': '' } }], /"cam".*"A=B"/],
    [
      'a list too large for one message',
      [
        ...Array.from({ length: 100 }, (_, n) => ({ id: `${n}`, properties: { A: large(1) } })),
        { id: 'cam', properties: { AB: large(2) } },
      ],
      /largest device is "cam"/,
    ],
    [
      'a device with too many properties and mounts',
      [{ id: 'cam', properties: { A: '' }, mounts: Array(5000).fill({}) }],
      /"cam": it has 5001 properties, mounts and device nodes, more than 5000/,
    ],
    [
      'a property name with a control character',
      [{ id: 'cam', properties: { 'A\u001b[2J': '' } }],
      /"cam".*property name "A\\u001b\[2J"/,
    ],
    [
      'properties that are too large for an Instance',
      [{ id: 'cam', properties: { A: large(1), B: '' } }],
      /"cam".*more than 65536 bytes, with "B"/,
    ],
  ])('refuses %s and says where', (_, list, message) => {
    expect(() => checkDeviceList(list)).toThrow(message)
    expect(() => checkDeviceList(list)).toThrow(InvalidDeviceListError)
  })

  it('adds the optional members', () => {
    expect(checkDeviceList([{ id: 'cam' }])).toEqual([
      { id: 'cam', properties: {}, mounts: [], deviceSpecs: [] },
    ])
  })

  it('replaces control characters in properties, and keeps lines, tabs and the id', () => {
    const id = 'cam\u001b[2J\ud800'
    const properties = {
      NAME: 'Hall\u001b]0;owned\u0007\u0000\u009b1m\u202egpj\ud800',
      CERTIFICATE: '-----BEGIN\tx\r\nMIIB\n',
    }
    expect(checkDeviceList([{ id, properties }])).toMatchObject([
      {
        id,
        properties: {
          NAME: 'Hall\ufffd]0;owned\ufffd\ufffd\ufffd1m\ufffdgpj\ufffd',
          CERTIFICATE: '-----BEGIN\tx\nMIIB\n',
        },
      },
    ])
  })

  it('throws only InvalidDeviceListError, for any value', () => {
    const entry = fc.record(
      {
        id: fc.anything(),
        properties: fc.anything(),
        mounts: fc.anything(),
        deviceSpecs: fc.anything(),
      },
      { requiredKeys: [] },
    )
    fc.assert(
      fc.property(
        fc.oneof(fc.anything(), fc.array(entry), fc.sparseArray(entry, { maxNumElements: 5 })),
        (list) => {
          try {
            checkDeviceList(list)
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidDeviceListError)
          }
        },
      ),
    )
  })
})

describe('equalDeviceLists', () => {
  const devices = fc.uniqueArray(
    fc.record({
      id: fc.string({ minLength: 1 }),
      properties: fc.dictionary(fc.string(), fc.string()),
    }),
    { selector: ({ id }) => id },
  )

  it('ignores the order of devices and properties', () => {
    fc.assert(
      fc.property(devices, (list: Device[]) => {
        const turned = list
          .map((device) => ({
            ...device,
            properties: Object.fromEntries(Object.entries(device.properties ?? {}).reverse()),
          }))
          .reverse()
        expect(equalDeviceLists(list, turned)).toBe(true)
      }),
    )
  })

  it('detects an added device, a removed device and a changed property', () => {
    const list = [{ id: 'a', properties: { A: '1' } }]
    expect(equalDeviceLists(list, [])).toBe(false)
    expect(equalDeviceLists(list, [...list, { id: 'b' }])).toBe(false)
    expect(equalDeviceLists(list, [{ id: 'a', properties: { A: '2' } }])).toBe(false)
  })
})
