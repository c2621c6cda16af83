import { DiscoveryProperties, type Logger, silentLogger } from '@akrijs/sdk'
import fc from 'fast-check'
import { afterAll, beforeEach, describe, expect, it } from 'vitest'
import { Certificates, hasOpenssl } from '../test-peers/certificates.js'
import { readKeyPair, serverCredentials } from './credentials.js'

const certificates = new Certificates()
afterAll(() => certificates.remove())

let logged: Readonly<Record<string, unknown>>[]
beforeEach(() => {
  logged = []
})
const log: Logger = { ...silentLogger, warn: (fields) => logged.push(fields) }

const URI = 'urn:plc-1:mixer'
const URL = 'opc.tcp://plc-1.plant:4840/UA'
const read = (texts: Readonly<Record<string, string>>) =>
  serverCredentials(DiscoveryProperties.fromTexts(texts), log)

describe('credentials of servers', () => {
  it.each<[string, Record<string, string>]>([
    ['application URI', { device_credential_list: '["a"]', a: `{"${URI}": {"username": "anna"}}` }],
    ['URL', { device_credential_list: '["a"]', a: `{"${URL}": {"username": "anna"}}` }],
    ['application URI, as names of properties can have it', { username_urn_plc_1_mixer: 'anna' }],
    ['URL, as names of properties can have it', { username_opc_tcp___plc_1_plant_4840_UA: 'anna' }],
  ])('are found by %s', (_, texts) => {
    expect(read(texts).for(URI, URL)).toEqual({ kind: 'password', username: 'anna', password: '' })
    expect(read(texts).for('urn:other', 'opc.tcp://other:4840/')).toBeUndefined()
    expect(logged).toEqual([])
  })

  it('without a certificate or key are left out; the log has no value', () => {
    const list = {
      'urn:a': { certificate: 'SECRET', private_key: 'SECRET' },
      'urn:b': { certificate: 'SECRET', username: 'b' },
    }
    const properties = {
      device_credential_list: '["list"]',
      list: JSON.stringify(list),
      certificate_urn_c: 'SECRET',
      private_key_urn_c: 'SECRET',
      certificate_urn_d: 'SECRET',
    }
    for (const uri of ['urn:a', 'urn:b', 'urn:c', 'urn:d'])
      expect(read(properties).for(uri)).toBeUndefined()
    expect(logged.slice(0, 4).map(({ property }) => property)).toEqual([
      'list',
      'list',
      'certificate_urn_c',
      'certificate_urn_d',
    ])
    expect(JSON.stringify(logged)).not.toContain('SECRET')
  })

  it('of any bytes are read or left out, and never cause an error', () => {
    const name = fc.constantFrom('certificate_x', 'private_key_x', 'device_credential_list', 'a')
    const value = fc.oneof(
      fc.uint8Array(),
      fc.json().map(Buffer.from),
      fc.constant(Buffer.from('["a"]')),
      fc.constant(undefined),
    )
    const entries = fc.array(fc.tuple(name, value))
    fc.assert(
      fc.property(
        entries,
        (some) => void serverCredentials(new DiscoveryProperties(some), silentLogger),
      ),
    )
  })

  it.skipIf(!hasOpenssl)(
    'may be user certificates, which count before passwords (needs the Debian package openssl)',
    () => {
      const anna = certificates.issue({ algorithm: 'rsa:2048' })
      const bert = certificates.issue({ algorithm: 'rsa:2048' })
      const pair = { certificate: anna.certificate, private_key: anna.privateKey }
      const texts = {
        certificate_urn_plc_1_mixer: anna.certificate,
        private_key_urn_plc_1_mixer: anna.privateKey,
      }
      const forms: Record<string, string>[] = [
        { ...texts, username_urn_plc_1_mixer: 'anna' },
        { device_credential_list: '["a"]', a: JSON.stringify({ [URL]: pair }) },
        {
          ...texts,
          device_credential_ref_list: '["a"]',
          a:
            '{"default": {"certificate_ref": "certificate_urn_plc_1_mixer", ' +
            '"private_key_ref": "private_key_urn_plc_1_mixer"}}',
        },
      ]
      for (const form of forms) {
        const credential = read(form).for(URI, URL)
        expect(credential).toMatchObject({
          kind: 'certificate',
          privateKey: expect.stringContaining('BEGIN PRIVATE KEY'),
        })
        expect(credential?.kind === 'certificate' && credential.certificate.toString()).toBe(
          anna.certificate,
        )
      }
      expect(readKeyPair(anna.certificate, bert.privateKey)).toBeUndefined()
      const curve = certificates.issue({})
      expect(readKeyPair(curve.certificate, curve.privateKey)).toBeUndefined()
    },
  )
})
