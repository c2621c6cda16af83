import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  checkInTurns,
  DeviceListCheck,
  MAX_ID_LENGTH,
  MAX_PROPERTIES_BYTES,
} from './device-list.js'
import { InvalidDeviceListError } from './errors.js'
import type { Device } from './handler/device.js'
import { DiscoveryProperties } from './handler/properties.js'

const mount = { containerPath: '/dev/a', hostPath: '/dev/a' }
const spec = { ...mount, permissions: 'rw' }

/** A value that leaves room for a name of so many characters. */
const large = (name: number) => 'x'.repeat(MAX_PROPERTIES_BYTES - name)

describe('a device list', () => {
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
    [
      'a misspelt field',
      [{ id: 'cam', propertys: { A: '1' } }],
      /"cam": there is no field "propertys"; did you mean properties\?/,
    ],
    ['half of a surrogate pair', [{ id: '📷' }, { id: 'cam\ud83d' }], /device 1: id "cam\\ud83d"/],
    [
      'the properties of the discovery',
      [{ id: 'cam', properties: DiscoveryProperties.fromTexts({ A: '1' }) }],
      /"cam": properties is an object of a class; it must be an object of strings/,
    ],
    [
      'a hole in the mounts',
      [
        {
          id: 'cam',
          mounts: Object.assign(new Array(2), { 1: { containerPath: '/a', hostPath: '/a' } }),
        },
      ],
      /"cam": mounts\[0\] is undefined; it must be an object/,
    ],
    ['a Map', [{ id: 'cam', properties: new Map([['A', '1']]) }], /"cam": properties is a Map; /],
    [
      'the headers of an answer',
      [{ id: 'cam', properties: new Headers({ a: '1' }) }],
      /"cam": properties is a Headers; it must be an object of strings/,
    ],
    [
      'properties of a class with entries',
      [{ id: 'cam', properties: { A: '1', *[Symbol.iterator]() {} } }],
      /"cam": properties is an iterable object; /,
    ],
    ['a promise', [{ id: 'cam', properties: Promise.resolve({}) }], /properties is a Promise; /],
    [
      'a misspelt id',
      [{ id: 'cam' }, { Id: 'cam-2' }],
      /device 1: there is no field "Id"; did you mean id\?/,
    ],
    [
      'another field in place of the id',
      [{ name: 'cam' }],
      /device 0: there is no field "name"; there are id, properties, mounts, deviceSpecs/,
    ],
    ['no id', [{ properties: {} }], /device 0: id is undefined; it must be a string/],
    [
      'a field that no other field is near to',
      [{ id: 'cam', location: 'hall' }],
      /"cam": there is no field "location"; there are id, properties, mounts, deviceSpecs/,
    ],
    [
      'a misspelt field of a device node',
      [{ id: 'cam', deviceSpecs: [spec, { ...spec, permission: 'r' }] }],
      /"cam": deviceSpecs\[1\]: there is no field "permission"; did you mean permissions\?/,
    ],
    [
      'a misspelt field of a mount',
      [{ id: 'cam', mounts: [{ containerPath: '/a', hostPath: '/a', readonly: true }] }],
      /"cam": mounts\[0\]: there is no field "readonly"; did you mean readOnly\?/,
    ],
  ])('refuses %s and says where', async (_, list, message) => {
    await expect(checkInTurns(list)).rejects.toThrow(message)
    await expect(checkInTurns(list)).rejects.toThrow(InvalidDeviceListError)
  })

  it('takes an absent optional member that is written down', async () => {
    const entry = { id: 'cam', properties: undefined, note: undefined }
    expect(await checkInTurns([entry])).toEqual([
      { id: 'cam', properties: {}, mounts: [], deviceSpecs: [] },
    ])
  })

  it('refuses a misspelt field of a device that was right in the list before', async () => {
    const check = new DeviceListCheck()
    const mounts = [{ containerPath: '/a', hostPath: '/a', readOnly: false }]
    const right = { id: 'cam', mounts, deviceSpecs: [spec] }
    await checkInTurns([right], check)
    for (const wrong of [
      { ...right, propertys: {} },
      { ...right, mounts: mounts.map((mount) => ({ ...mount, readonly: true })) },
      { ...right, deviceSpecs: [{ ...spec, permission: 'r' }] },
    ])
      await expect(checkInTurns([wrong], check)).rejects.toThrow(/there is no field/)
  })

  it('adds the optional members', async () => {
    expect(await checkInTurns([{ id: 'cam' }])).toEqual([
      { id: 'cam', properties: {}, mounts: [], deviceSpecs: [] },
    ])
  })

  it('replaces control characters in properties, and keeps lines, tabs and the id', async () => {
    const id = 'cam\u001b[2J'
    const properties = {
      NAME: 'Hall\u001b]0;owned\u0007\u0000\u009b1m\u202egpj\ud800',
      CERTIFICATE: '-----BEGIN\tx\r\nMIIB\n',
    }
    expect(await checkInTurns([{ id, properties }])).toMatchObject([
      {
        id,
        properties: {
          NAME: 'Hall\ufffd]0;owned\ufffd\ufffd\ufffd1m\ufffdgpj\ufffd',
          CERTIFICATE: '-----BEGIN\tx\nMIIB\n',
        },
      },
    ])
  })

  it('throws only InvalidDeviceListError, for any value', async () => {
    const entry = fc.record(
      {
        id: fc.anything(),
        properties: fc.anything(),
        mounts: fc.anything(),
        deviceSpecs: fc.anything(),
      },
      { requiredKeys: [] },
    )
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(fc.anything(), fc.array(entry), fc.sparseArray(entry, { maxNumElements: 5 })),
        async (list) => {
          try {
            await checkInTurns(list)
          } catch (error) {
            expect(error).toBeInstanceOf(InvalidDeviceListError)
          }
        },
      ),
    )
  })
})

describe('DeviceListCheck', () => {
  const devices = fc.uniqueArray(
    fc.record({
      id: fc.string({ minLength: 1 }),
      properties: fc.dictionary(fc.stringMatching(/^[A-Z]+$/), fc.string()),
    }),
    { selector: ({ id }) => id },
  )

  function checkOf(check: DeviceListCheck, list: readonly unknown[]) {
    for (const device of list) check.add(device)
    return check.end()
  }

  it('has the same list in another order of devices and properties, without a check', () => {
    fc.assert(
      fc.property(devices, (list: Device[]) => {
        const check = new DeviceListCheck()
        const turned = list
          .map((device) => ({
            ...device,
            properties: Object.fromEntries(Object.entries(device.properties ?? {}).reverse()),
          }))
          .reverse()
        expect(checkOf(check, turned)).toBe(checkOf(check, turned.toReversed()))
      }),
    )
  })

  it('checks the devices alone that have changed', async () => {
    const of = (count: number) => Array.from({ length: count }, (_, n) => ({ id: `${n}`, mounts }))
    const mounts = [{ containerPath: '/a', hostPath: '/a' }]
    const check = new DeviceListCheck()
    const before = checkOf(check, of(100))
    const changed = { id: '7', properties: { A: '1' } }
    const now = checkOf(check, [...of(101).filter(({ id }) => id !== '7'), changed])
    expect(now).toEqual(await checkInTurns([...of(101).filter(({ id }) => id !== '7'), changed]))
    expect(now.filter((device) => before.includes(device))).toHaveLength(99)
  })

  it('gives equal devices one hash, in any order of properties, and others another', async () => {
    const hashOf = async (device: object) => (await checkInTurns([{ id: 'a', ...device }]))[0]?.hash
    const properties = { A: '1', B: '2' }
    const hash = await hashOf({ properties, mounts: [], deviceSpecs: [] })
    expect(await hashOf({ properties: { B: '2', A: '1' } })).toBe(hash)
    const others = [
      { id: 'b', properties },
      { properties: { A: '1', B: '3' } },
      { properties, mounts: [mount] },
      { properties, deviceSpecs: [spec] },
    ]
    expect(new Set([hash, ...(await Promise.all(others.map(hashOf)))]).size).toBe(1 + others.length)
  })

  it.each<[string, readonly unknown[]]>([
    ['an added device', [{ id: 'a', properties: { A: '1' } }, { id: 'b' }]],
    ['a removed device', []],
    ['another property', [{ id: 'a', properties: { A: '2' } }]],
    ['a further property', [{ id: 'a', properties: { A: '1', B: '1' } }]],
    [
      'another mount',
      [{ id: 'a', properties: { A: '1' }, mounts: [{ ...mount, readOnly: true }] }],
    ],
    ['another device node', [{ id: 'a', properties: { A: '1' }, deviceSpecs: [spec] }]],
  ])('sees %s', async (_, list) => {
    const check = new DeviceListCheck()
    const before = checkOf(check, [{ id: 'a', properties: { A: '1' } }])
    const now = checkOf(check, list)
    expect(now).not.toBe(before)
    expect(now).toEqual(await checkInTurns(list))
  })

  it('refuses a Map in a later list, where the device had no properties', () => {
    const check = new DeviceListCheck()
    checkOf(check, [{ id: 'a' }])
    expect(() => checkOf(check, [{ id: 'a', properties: new URLSearchParams('A=1') }])).toThrow(
      /properties is a URLSearchParams/,
    )
  })

  it('takes properties with a prototype of their own, or without one', async () => {
    const withoutPrototype = Object.assign(Object.create(null), { A: '1' })
    class Properties {
      readonly A = '1'
    }
    for (const properties of [withoutPrototype, new Properties()])
      expect(await checkInTurns([{ id: 'a', properties }])).toMatchObject([
        { properties: { A: '1' } },
      ])
  })

  it('leaves out a property whose value is undefined, also in a later list', () => {
    const check = new DeviceListCheck()
    const first = checkOf(check, [{ id: 'cam', properties: { A: '1', B: undefined } }])
    expect(first).toMatchObject([{ properties: { A: '1' } }])
    expect(first[0]?.properties).not.toHaveProperty('B')
    expect(checkOf(check, [{ id: 'cam', properties: { A: '1', C: undefined } }])).toBe(first)
    expect(checkOf(check, [{ id: 'cam', properties: { A: undefined } }])).not.toBe(first)
  })

  it('refuses in a later list what it refuses in the first', () => {
    const entry = fc.record({
      id: fc.constant('a'),
      properties: fc.dictionary(
        fc.constantFrom('A', 'constructor', '__proto__'),
        fc.constantFrom<unknown>('1', '\u{1b}', 1, undefined, Object, Object.prototype),
      ),
      mounts: fc.constantFrom<unknown>(undefined, null, [], [mount], [spec], new Array(1), {}),
    })
    const outcome = (check: DeviceListCheck, list: readonly unknown[]) => {
      try {
        return checkOf(check, list)
      } catch (error) {
        return String(error)
      }
    }
    fc.assert(
      fc.property(entry, entry, (first, second) => {
        const check = new DeviceListCheck()
        fc.pre(typeof outcome(check, [first]) !== 'string')
        expect(outcome(check, [second])).toEqual(outcome(new DeviceListCheck(), [second]))
      }),
    )
  })
})
