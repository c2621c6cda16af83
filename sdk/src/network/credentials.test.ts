import { type Logger, silentLogger } from '@akrijs/runtime'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { DiscoveryProperties } from '../handler/properties.js'
import { type CredentialKind, DeviceCredentials } from './credentials.js'

const spelling = (device: string) => device.toLowerCase().replaceAll('_', '-')

/** Two texts that are the same, turned around. */
const mirrored: CredentialKind<{ readonly kind: 'mirrored'; readonly text: string }> = {
  parts: ['left', 'right'],
  expected: 'a text, and the same turned around',
  read: (left, right) =>
    left === [...right].reverse().join('') ? { kind: 'mirrored', text: left } : undefined,
}

function read(texts: Record<string, string | Uint8Array | undefined>) {
  const warnings: { fields: Readonly<Record<string, unknown>>; message: string }[] = []
  const log: Logger = {
    ...silentLogger,
    warn: (fields, message) => warnings.push({ fields, message }),
  }
  const properties = new DiscoveryProperties(
    Object.entries(texts).map(
      ([name, value]) => [name, typeof value === 'string' ? Buffer.from(value) : value] as const,
    ),
  )
  return {
    credentials: new DeviceCredentials(properties, { log, spelling, other: mirrored }),
    warnings,
  }
}

const password = (username: string, text = '') => ({ kind: 'password', username, password: text })

describe('credentials of devices', () => {
  it('are read from lists', () => {
    const { credentials, warnings } = read({
      device_credential_list: '["one", "two"]',
      one: JSON.stringify({
        'cam-a': { username: 'a', password: 'p', base64encoded: null },
        default: { username: 'd' },
      }),
      two: JSON.stringify({ 'CAM-B': { username: 'b', password: 'cMOk', base64encoded: true } }),
    })
    expect(credentials.for('cam-a')).toEqual(password('a', 'p'))
    expect(credentials.for('cam-b')).toEqual(password('b', 'pä'))
    expect(credentials.for('another')).toEqual(password('d'))
    expect(credentials.own('another', 'cam-a')).toEqual(password('a', 'p'))
    expect(credentials.own('another')).toBeUndefined()
    expect(warnings).toEqual([])
  })

  it.each(['\n', '\r\n'])('lose a line break at their end, as files of Secrets have it', (end) => {
    const { credentials } = read({
      device_credential_list: '["listed"]',
      listed: JSON.stringify({
        a: {
          username: 'a',
          password: Buffer.from(`p${end}`).toString('base64'),
          base64encoded: true,
        },
      }),
      device_credential_ref_list: '["refs"]',
      refs: JSON.stringify({ b: { username_ref: 'user', password_ref: 'secret' } }),
      user: `b${end}`,
      secret: `two\nlines ${end}`,
      username_default: `d${end}`,
      password_default: end,
    })
    expect(credentials.for('a')).toEqual(password('a', 'p'))
    expect(credentials.for('b')).toEqual(password('b', 'two\nlines '))
    expect(credentials.for('another')).toEqual(password('d', ''))
    expect(read({ username_default: end }).credentials.for('x')).toBeUndefined()
  })

  it('are read from properties that lists refer to', () => {
    const { credentials, warnings } = read({
      device_credential_ref_list: '["refs"]',
      refs: JSON.stringify({
        a: { username_ref: 'user1', password_ref: 'secret1' },
        b: { username_ref: 'user2', password_ref: null },
        c: { username_ref: 'user2', password_ref: 'absent' },
      }),
      user1: 'a',
      secret1: 'p',
      user2: 'b',
    })
    expect(['a', 'b', 'c', 'd'].map((device) => credentials.for(device))).toEqual([
      password('a', 'p'),
      password('b'),
      password('b'),
      undefined,
    ])
    expect(warnings).toEqual([])
  })

  it('are read from properties of their own', () => {
    const { credentials } = read({
      username_cam_a: 'a',
      password_cam_a: 'p',
      username_default: 'd',
      password_default: undefined,
    })
    expect(credentials.for('cam-a')).toEqual(password('a', 'p'))
    expect(credentials.for('CAM-A')).toEqual(password('a', 'p'))
    expect(credentials.for('cam-b')).toEqual(password('d'))
  })

  it('of a device count before the default, and later forms before earlier forms', () => {
    const list = {
      device_credential_list: '["l"]',
      l: JSON.stringify({ a: { username: 'l' }, default: { username: 'ld' } }),
    }
    const refs = {
      device_credential_ref_list: '["r"]',
      r: JSON.stringify({ a: { username_ref: 'ru' } }),
      ru: 'r',
    }
    const users = (texts: Record<string, string>, ...devices: string[]) => {
      const credential = read(texts).credentials.for(...devices)
      return credential?.kind === 'password' ? credential.username : undefined
    }
    const both = (texts: Record<string, string>) => [users(texts, 'a'), users(texts, 'b')]
    expect(both(list)).toEqual(['l', 'ld'])
    expect(both({ ...refs, ...list })).toEqual(['r', 'ld'])
    expect(both({ username_a: 's', ...refs, ...list })).toEqual(['s', 'ld'])
    expect(both({ username_default: 'd', username_a: 's', ...refs, ...list })).toEqual(['s', 'd'])
    expect(both({})).toEqual([undefined, undefined])
    const named = { ...list, username_b: 'b' }
    expect([users(named, 'a', 'b'), users(named, 'b', 'a'), users(named, 'c', 'b')]).toEqual([
      'l',
      'b',
      'b',
    ])
  })

  it('can have another kind in every form, which counts before a password of the same form', () => {
    const ab = { kind: 'mirrored', text: 'ab' }
    const list = {
      device_credential_list: '["l"]',
      l: JSON.stringify({ a: { left: 'ab', right: 'ba' } }),
    }
    const refs = {
      device_credential_ref_list: '["r"]',
      r: JSON.stringify({ a: { left_ref: 'x', right_ref: 'y' } }),
      x: 'ab',
      y: 'ba',
    }
    expect(read(list).credentials.for('a')).toEqual(ab)
    expect(read(refs).credentials.for('a')).toEqual(ab)
    expect(read({ left_a: 'ab', right_a: 'ba', username_a: 'u' }).credentials.for('a')).toEqual(ab)
    expect(read({ ...list, username_a: 'u' }).credentials.for('a')).toEqual(password('u'))
    const broken = read({
      ...list,
      l: JSON.stringify({ a: { left: 'hunter2', username: 'u' } }),
      left_b: 'hunter2',
    })
    expect(['a', 'b'].map((device) => broken.credentials.for(device))).toEqual([
      undefined,
      undefined,
    ])
    expect(broken.warnings.map(({ fields }) => fields.expected)).toEqual([
      expect.stringMatching(/^a username.*; or a text, and the same turned around$/),
      mirrored.expected,
    ])
    expect(JSON.stringify(broken.warnings)).not.toContain('hunter2')
  })

  it('with a long text that is not base64 are left out in linear time', () => {
    const password = `${' '.repeat(300_000)}!`
    const { credentials } = read({
      device_credential_list: '["some"]',
      some: JSON.stringify({ a: { username: 'a', password, base64encoded: true } }),
    })
    expect(credentials.for('a')).toBeUndefined()
  })

  it('that are malformed are left out, and the log names the property without its value', () => {
    const { credentials, warnings } = read({
      device_credential_list: '["absent", "broken", "some", "some"]',
      broken: '{"hunter2"',
      some: JSON.stringify({
        a: { username: 'a', password: 'hun%ter2', base64encoded: true },
        b: { password: 'hunter2' },
        c: 'hunter2',
        d: { username: '' },
        e: { username: 'e', password: 'fine' },
        f: { username: 'f', password: 2 },
        g: { username: 'g', password: 'hunter2', base64encoded: 'true' },
      }),
      device_credential_ref_list: '["referring"]',
      referring: JSON.stringify({
        h: { username_ref: 'empty' },
        i: { username_ref: 'absent' },
        j: { username_ref: 'k', password_ref: 1 },
      }),
      empty: '',
      username_: 'nobody',
      username_k: Buffer.from([0xff]),
      username_l: 'l',
      password_l: Buffer.from([0xff]),
      username_default: '',
    })
    expect([...'abcdefghijkl'].filter((device) => credentials.for(device) !== undefined)).toEqual([
      'e',
    ])
    expect(warnings.map(({ fields }) => [fields.property, fields.device])).toEqual([
      ['absent', undefined],
      ['broken', undefined],
      ...[...'abcdfg'].map((device) => ['some', device]),
      ...[...'hij'].map((device) => ['referring', device]),
      ['username_k', 'k'],
      ['username_l', 'l'],
      ['username_default', 'default'],
    ])
    const lists = read({
      device_credential_list: '{"hunter2": 1}',
      device_credential_ref_list: '[1]',
    })
    expect(lists.warnings.map(({ fields }) => fields.property)).toEqual([
      'device_credential_list',
      'device_credential_ref_list',
    ])
    expect(JSON.stringify([warnings, lists.warnings])).not.toContain('hunter2')
  })

  it('with any bytes are read or left out, and never throw', () => {
    const name = fc.constantFrom(
      'device_credential_list',
      'device_credential_ref_list',
      'a',
      'username_x',
      'password_x',
      'left_x',
    )
    const value = fc.oneof(
      fc.uint8Array(),
      fc.json().map(Buffer.from),
      fc.constant(Buffer.from('["a"]')),
      fc.constant(undefined),
    )
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value)), (entries) => {
        const properties = new DiscoveryProperties(entries)
        new DeviceCredentials(properties, { log: silentLogger, spelling, other: mirrored }).for('x')
      }),
    )
  })
})
