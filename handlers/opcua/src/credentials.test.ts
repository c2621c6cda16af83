import { DiscoveryProperties, type Logger } from '@akrijs/sdk'
import fc from 'fast-check'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { Certificates, hasOpenssl } from '../test-peers/certificates.js'
import { Credentials, readKeyPair } from './credentials.js'

const certificates = new Certificates()
afterAll(() => certificates.remove())

let logged: string[]
beforeEach(() => {
  logged = []
})
const log: Logger = {
  debug() {},
  info() {},
  warn: (fields, message) => void logged.push(JSON.stringify({ ...fields, message })),
  error() {},
  child: () => log,
}

const plc = { applicationUri: 'urn:plc-1:mixer', discoveryUrl: 'opc.tcp://plc-1.plant:4840/UA' }
const read = (texts: Readonly<Record<string, string>>) => new Credentials(DiscoveryProperties.fromTexts(texts), log)
const password = (username: string, text: string) => ({ kind: 'password', username, password: text })

describe('credentials of servers', () => {
  it.each<[string, Record<string, string>]>([
    ['a list', { device_credential_list: '["a"]', a: '{"urn:plc-1:mixer": {"username": "anna", "password": "x"}}' }],
    [
      'a list, in base64',
      {
        device_credential_list: '["a"]',
        a: '{"urn:plc-1:mixer": {"username": "anna", "password": "eA==", "base64encoded": true}}',
      },
    ],
    [
      'a list of references',
      {
        device_credential_ref_list: '["a"]',
        a: '{"opc.tcp://plc-1.plant:4840/UA": {"username_ref": "n", "password_ref": "p"}}',
        n: 'anna',
        p: 'x',
      },
    ],
    ['properties of its application URI', { username_urn_plc_1_mixer: 'anna', password_urn_plc_1_mixer: 'x' }],
    ['properties of its URL', { username_opc_tcp___plc_1_plant_4840_UA: 'anna', password_opc_tcp___plc_1_plant_4840_UA: 'x' }],
    ['properties for all', { username_default: 'anna', password_default: 'x' }],
  ])('come from %s', (_, texts) => {
    expect(read(texts).for(plc)).toEqual(password('anna', 'x'))
    expect(logged).toEqual([])
  })

  it('of one server count before those for all, later forms before earlier ones, and the URI before the URL', () => {
    const list = {
      device_credential_list: '["a"]',
      a: '{"urn:plc-1:mixer": {"username": "listed"}, "default": {"username": "all"}}',
    }
    expect(read(list).for(plc)).toEqual(password('listed', ''))
    expect(read(list).for({ ...plc, applicationUri: 'urn:other' })).toEqual(password('all', ''))
    expect(read({ ...list, username_urn_plc_1_mixer: 'single' }).for(plc)).toEqual(password('single', ''))
    expect(read({ ...list, username_opc_tcp___plc_1_plant_4840_UA: 'url' }).for(plc)).toEqual(password('listed', ''))
    expect(read({}).for(plc)).toBeUndefined()
  })

  it('that cannot be read are left out, with the name of the property in the log and never its value', () => {
    const secrets = {
      device_credential_list: '["broken", "absent", "wrong"]',
      broken: '{"urn:plc-1:mixer": SECRET',
      wrong: '{"urn:a": {"password": "SECRET"}, "urn:b": {"username": "u", "password": "SECRET!", "base64encoded": true}}',
      device_credential_ref_list: '"SECRET"',
      username_empty: '',
      certificate_urn_c: 'SECRET',
      private_key_urn_c: 'SECRET',
    }
    const binary = new Map<string, Uint8Array | undefined>([
      ...Object.entries(secrets).map(([name, text]) => [name, Buffer.from(text)] as const),
      ['username_binary', Buffer.from('u')],
      ['password_binary', Buffer.from([0xff, 0xfe])],
    ])
    const credentials = new Credentials(new DiscoveryProperties(binary), log)
    for (const applicationUri of ['urn:plc-1:mixer', 'urn:a', 'urn:b', 'empty', 'binary', 'urn:c'])
      expect(credentials.for({ applicationUri, discoveryUrl: '' })).toBeUndefined()
    const named = ['broken', 'absent', 'wrong', 'wrong', 'device_credential_ref_list', 'username_empty', 'username_binary']
    expect(logged.map((line) => JSON.parse(line).property)).toEqual([...named, 'certificate_urn_c'])
    expect(logged.join()).not.toContain('SECRET')
  })

  it('of any bytes are read or left out, and never throw', () => {
    const name = fc.constantFrom('device_credential_list', 'a', 'username_x', 'password_x', 'certificate_x', 'private_key_x')
    const value = fc.oneof(fc.uint8Array(), fc.json().map(Buffer.from), fc.constant(Buffer.from('["a"]')), fc.constant(undefined))
    fc.assert(
      fc.property(fc.array(fc.tuple(name, value)), (entries) => void new Credentials(new DiscoveryProperties(entries), log)),
    )
  })

  it.skipIf(!hasOpenssl)('are certificates of users too, which count before passwords (needs the Debian package openssl)', () => {
    const anna = certificates.issue({ algorithm: 'rsa:2048' })
    const bert = certificates.issue({ algorithm: 'rsa:2048' })
    const pair = { certificate: anna.certificate, private_key: anna.privateKey }
    const texts = { certificate_urn_plc_1_mixer: anna.certificate, private_key_urn_plc_1_mixer: anna.privateKey }
    const forms: Record<string, string>[] = [
      { ...texts, username_urn_plc_1_mixer: 'anna' },
      { device_credential_list: '["a"]', a: JSON.stringify({ [plc.discoveryUrl]: pair }) },
      {
        ...texts,
        device_credential_ref_list: '["a"]',
        a: '{"default": {"certificate_ref": "certificate_urn_plc_1_mixer", "private_key_ref": "private_key_urn_plc_1_mixer"}}',
      },
    ]
    for (const form of forms) {
      const credential = read(form).for(plc)
      expect(credential).toMatchObject({ kind: 'certificate', privateKey: expect.stringContaining('BEGIN PRIVATE KEY') })
      expect(credential?.kind === 'certificate' && credential.certificate.toString()).toBe(anna.certificate)
    }
    expect(readKeyPair(anna.certificate, bert.privateKey)).toBeUndefined()
    const curve = certificates.issue({})
    expect(readKeyPair(curve.certificate, curve.privateKey)).toBeUndefined()
  })
})
