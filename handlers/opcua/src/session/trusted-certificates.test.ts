import { X509Certificate } from 'node:crypto'
import { afterAll, describe, expect, it } from 'vitest'
import { Certificates, hasOpenssl, type Issued } from '../../test-peers/certificates.js'
import { TrustedCertificates } from './trusted-certificates.js'

const certificates = new Certificates()
afterAll(() => certificates.remove())

const URI = 'urn:plc1:mixer'
const identity = { subjectAltName: `URI:${URI},DNS:plc1` }
/** A time after the creation of the certificates. */
const now = Date.now() + 3_600_000
const der = (...chain: Issued[]) =>
  Buffer.concat(chain.map(({ certificate }) => new X509Certificate(certificate).raw))
const isTrusted = (named: Issued[], chain: Issued[], at = now) =>
  new TrustedCertificates(named.map(({ certificate }) => certificate).join('')).trust(
    der(...chain),
    {
      applicationUri: URI,
      now: at,
    },
  )

describe.skipIf(!hasOpenssl)(
  `trust in servers${hasOpenssl ? '' : ' (needs the Debian package openssl)'}`,
  () => {
    it('covers a named certificate while it is valid', () => {
      const server = certificates.issue(identity)
      const other = certificates.issue(identity)
      expect(isTrusted([server], [server])).toBe(true)
      expect(isTrusted([other], [server])).toBe(false)
      expect(isTrusted([], [server])).toBe(false)
      expect(isTrusted([other, server], [server])).toBe(true)
      expect(isTrusted([server], [server], now + 40 * 86_400_000)).toBe(false)
      expect(isTrusted([server], [server], now - 7_200_000 - 86_400_000)).toBe(false)
    })

    it('covers certificates of a named issuer, also by an intermediate issuer', () => {
      const root = certificates.issue({ isIssuer: true })
      const between = certificates.issue({ isIssuer: true, issuer: root })
      const server = certificates.issue({ ...identity, issuer: between })
      expect(isTrusted([root], [server, between])).toBe(true)
      expect(isTrusted([between], [server])).toBe(true)
      expect(isTrusted([root], [server])).toBe(false)
      expect(isTrusted([root], [server, root])).toBe(false)
    })

    it('excludes certificates signed by a certificate that is not an authority', () => {
      const root = certificates.issue({ isIssuer: true })
      const device = certificates.issue({ ...identity, issuer: root })
      const forged = certificates.issue({ ...identity, issuer: device })
      expect(isTrusted([root], [device])).toBe(true)
      expect(isTrusted([root], [forged, device])).toBe(false)
      expect(isTrusted([device], [forged])).toBe(false)
    })

    it('excludes the certificate of another application, in any spelling', () => {
      const root = certificates.issue({ isIssuer: true })
      const names = [
        'URI:urn:plc2',
        'DNS:urn.plc1.mixer',
        `DNS:${URI}`,
        'URI:urn:plc1:mixer:more',
        undefined,
      ]
      for (const subjectAltName of names) {
        const server = certificates.issue({
          issuer: root,
          ...(subjectAltName === undefined ? {} : { subjectAltName }),
        })
        expect(isTrusted([root], [server])).toBe(false)
      }
    })

    it('excludes bytes that are not a certificate', () => {
      const server = certificates.issue(identity)
      const trusted = new TrustedCertificates(server.certificate)
      for (const bytes of [
        Buffer.alloc(0),
        Buffer.from([0x30]),
        Buffer.from([0x30, 0x82, 0xff, 0xff, 1]),
        der(server).subarray(0, 300),
      ])
        expect(trusted.trust(bytes, { applicationUri: URI, now })).toBe(false)
      expect(
        trusted.trust(Buffer.concat([der(server), Buffer.from('x')]), { applicationUri: URI, now }),
      ).toBe(false)
      expect(
        () =>
          new TrustedCertificates('-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----'),
      ).toThrow()
      expect(new TrustedCertificates('nonsense').size).toBe(0)
    })
  },
)
