import { DiscoveryProperties, type Logger, silentLogger } from '@akrijs/sdk'
import { describe, expect, it } from 'vitest'
import { Credentials } from './credentials.js'

const A = '5f5a69c2-e0ae-504f-829b-00fcdab169cc'
const B = '6821dc67-8438-5588-1547-4d1349048438'

function read(texts: Record<string, string | Uint8Array | undefined>) {
  const warnings: { fields: Readonly<Record<string, unknown>>; message: string }[] = []
  const log: Logger = { ...silentLogger, warn: (fields, message) => warnings.push({ fields, message }) }
  const entries = Object.entries(texts).map(
    ([name, value]) => [name, typeof value === 'string' ? Buffer.from(value) : value] as const,
  )
  return { credentials: new Credentials(new DiscoveryProperties(entries), log), warnings }
}

describe('credentials of cameras', () => {
  it('are read out of lists', () => {
    const { credentials, warnings } = read({
      device_credential_list: '["one", "two"]',
      one: JSON.stringify({ [A]: { username: 'a', password: 'p' }, default: { username: 'd' } }),
      two: JSON.stringify({ [B.toUpperCase()]: { username: 'b', password: 'cMOk', base64encoded: true } }),
    })
    expect(credentials.for(A)).toEqual({ username: 'a', password: 'p' })
    expect(credentials.for(B)).toEqual({ username: 'b', password: 'pä' })
    expect(credentials.for('another')).toEqual({ username: 'd', password: '' })
    expect(warnings).toEqual([])
  })

  it('are read out of properties that lists refer to', () => {
    const { credentials, warnings } = read({
      device_credential_ref_list: '["refs"]',
      refs: JSON.stringify({ [A]: { username_ref: 'user1', password_ref: 'secret1' }, [B]: { username_ref: 'user2' } }),
      user1: 'a',
      secret1: 'p',
      user2: 'b',
    })
    expect(credentials.for(A)).toEqual({ username: 'a', password: 'p' })
    expect(credentials.for(B)).toEqual({ username: 'b', password: '' })
    expect(credentials.for('another')).toBeUndefined()
    expect(warnings).toEqual([])
  })

  it('are read out of properties of their own', () => {
    const { credentials } = read({
      [`username_${A.replaceAll('-', '_')}`]: 'a',
      [`password_${A.replaceAll('-', '_')}`]: 'p',
      username_default: 'd',
      password_default: undefined,
    })
    expect(credentials.for(A)).toEqual({ username: 'a', password: 'p' })
    expect(credentials.for(A.toUpperCase())).toEqual({ username: 'a', password: 'p' })
    expect(credentials.for(B)).toEqual({ username: 'd', password: '' })
  })

  it('of a camera go before those for all, and later forms before earlier ones', () => {
    const list = { device_credential_list: '["l"]', l: JSON.stringify({ [A]: { username: 'l' }, default: { username: 'ld' } }) }
    const refs = { device_credential_ref_list: '["r"]', r: JSON.stringify({ [A]: { username_ref: 'ru' } }), ru: 'r' }
    const single = { [`username_${A.replaceAll('-', '_')}`]: 's' }
    const users = (texts: Record<string, string>) => [A, B].map((uuid) => read(texts).credentials.for(uuid)?.username)
    expect(users(list)).toEqual(['l', 'ld'])
    expect(users({ ...refs, ...list })).toEqual(['r', 'ld'])
    expect(users({ ...single, ...refs, ...list })).toEqual(['s', 'ld'])
    expect(users({ username_default: 'd', ...single, ...refs, ...list })).toEqual(['s', 'd'])
    expect(users({})).toEqual([undefined, undefined])
  })

  it('that are malformed are left out, and the log says where they are but not what', () => {
    const { credentials, warnings } = read({
      device_credential_list: '["absent", "broken", "some"]',
      broken: '{"hunter2"',
      some: JSON.stringify({
        a: { username: 'a', password: 'hun%ter2', base64encoded: true },
        b: { password: 'hunter2' },
        c: 'hunter2',
        d: { username: '' },
        e: { username: 'e', password: 'fine' },
        f: { username: 'f', password: 2 },
      }),
      device_credential_ref_list: 'hunter2',
      username_g: Buffer.from([0xff]),
      username_h: 'h',
      password_h: Buffer.from([0xff]),
      username_default: '',
    })
    const of = (...devices: string[]) => devices.filter((device) => credentials.for(device) !== undefined)
    expect(of('a', 'b', 'c', 'd', 'e', 'f', 'g', 'h')).toEqual(['e'])
    expect(warnings.map(({ fields }) => [fields.property, fields.device])).toEqual([
      ['absent', undefined],
      ['broken', undefined],
      ['some', 'a'],
      ['some', 'b'],
      ['some', 'c'],
      ['some', 'd'],
      ['some', 'f'],
      ['device_credential_ref_list', undefined],
      ['username_g', 'g'],
      ['username_h', 'h'],
      ['username_default', 'default'],
    ])
    expect(JSON.stringify(warnings)).not.toContain('hunter2')
  })

  it('whose user name is referred to and empty are ignored', () => {
    const { credentials } = read({
      device_credential_ref_list: '["r"]',
      r: JSON.stringify({ [A]: { username_ref: 'u' } }),
      u: '',
      username_default: 'd',
    })
    expect(credentials.for(A)?.username).toBe('d')
  })
})
