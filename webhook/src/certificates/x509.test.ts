import { execFile, execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bitString, integer, objectIdentifier, sequence, time, utf8String } from './der.js'
import { issueAuthority, issueServerCertificate } from './x509.js'

const DAY = 24 * 60 * 60 * 1000
const validity = {
  notBefore: new Date(Date.now() - DAY),
  notAfter: new Date(Date.now() + 90 * DAY),
}

const hasOpenssl = (() => {
  try {
    return execFileSync('openssl', ['version'], { encoding: 'utf8' }).startsWith('OpenSSL')
  } catch {
    return false
  }
})()

describe('DER', () => {
  it.each<[string, Buffer, string]>([
    ['zero', integer(Buffer.from([0, 0])), '020100'],
    ['a number without zeros in front', integer(Buffer.from([0, 1, 0])), '02020100'],
    ['a number whose first bit would be a sign', integer(Buffer.from([0x80])), '02020080'],
    ['an object identifier', objectIdentifier('1.2.840.10045.4.3.2'), '06082a8648ce3d040302'],
    ['bits', bitString(Buffer.from([6]), 1), '03020106'],
    [
      'a time of this half of the century',
      time(new Date('2049-12-31T23:59:59.999Z')),
      `170d${Buffer.from('491231235959Z').toString('hex')}`,
    ],
    [
      'a later time',
      time(new Date('2050-01-01T00:00:00Z')),
      `180f${Buffer.from('20500101000000Z').toString('hex')}`,
    ],
    ['a length of one byte', sequence(Buffer.alloc(127)).subarray(0, 2), '307f'],
    ['a length of two bytes', sequence(Buffer.alloc(128)).subarray(0, 3), '308180'],
    ['a length of three bytes', utf8String('a'.repeat(256)).subarray(0, 4), '0c820100'],
  ])('writes %s', (_what, bytes, hex) => {
    expect(bytes.toString('hex')).toBe(hex)
  })
})

describe('an issued certificate', () => {
  const authority = issueAuthority('akri-webhook', validity)
  const names = [
    'akri-webhook.akri.svc',
    'akri-webhook',
    '10.99.0.1',
    '::1',
    'fd00::a:0:1',
    '::ffff:1.2.3.4',
  ] as const
  const server = issueServerCertificate([...names], validity, authority)

  it('is valid for OpenSSL', () => {
    const [issuer, leaf] = [new X509Certificate(authority.cert), new X509Certificate(server.cert)]
    expect([issuer.ca, leaf.ca]).toEqual([true, false])
    expect(leaf.verify(issuer.publicKey)).toBe(true)
    expect(leaf.checkIssued(issuer)).toBe(true)
    expect(leaf.checkPrivateKey(createPrivateKey(server.key))).toBe(true)
    expect(leaf.checkHost('akri-webhook.akri.svc')).toBe('akri-webhook.akri.svc')
    expect(leaf.checkHost('akri-webhook.other.svc')).toBeUndefined()
    for (const address of names.slice(2)) expect(leaf.checkIP(address)).toBe(address)
    expect(leaf.checkIP('10.99.0.2')).toBeUndefined()
    expect(leaf.keyUsage).toEqual(['1.3.6.1.5.5.7.3.1'])
  })

  it.skipIf(!hasOpenssl)('is taken by a strict OpenSSL (needs openssl)', async () => {
    const directory = await mkdtemp(path.join(os.tmpdir(), 'akri-x509-'))
    try {
      const [ca, leaf] = [path.join(directory, 'ca.pem'), path.join(directory, 'leaf.pem')]
      await writeFile(ca, authority.cert)
      await writeFile(leaf, server.cert)
      const args = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', ca, leaf]
      const { stdout } = await promisify(execFile)('openssl', args)
      expect(stdout).toContain('OK')
    } finally {
      await rm(directory, { recursive: true, force: true })
    }
  })

  it('is accepted by clients of its authority, and refused by those of a namesake', async () => {
    const listener = https.createServer(server, (_request, response) => response.end('hello'))
    await new Promise<void>((resolve) => listener.listen(0, '127.0.0.1', resolve))
    const { port } = listener.address() as AddressInfo
    const get = (ca: string) =>
      new Promise<string>((resolve, reject) => {
        https
          .get(
            { host: '127.0.0.1', port, ca, servername: 'akri-webhook.akri.svc', agent: false },
            (response) => {
              response.on('data', (chunk) => resolve(String(chunk)))
            },
          )
          .on('error', reject)
      })
    try {
      expect(await get(authority.cert)).toBe('hello')
      expect(await get(issueAuthority('akri-webhook', validity).cert + authority.cert)).toBe(
        'hello',
      )
      await expect(get(issueAuthority('akri-webhook', validity).cert)).rejects.toThrow(
        /signature|certificate/,
      )
    } finally {
      listener.close()
    }
  })

  it('has the names and times that were requested, whatever they are', () => {
    const label = fc.stringMatching(/^[a-z0-9]([a-z0-9-]{0,20}[a-z0-9])?$/)
    const host = fc.oneof(
      fc.array(label, { minLength: 1, maxLength: 5 }).map((labels) => labels.join('.')),
      fc.ipV4(),
      fc.ipV6().filter((address) => !address.includes('%')),
    )
    const date = fc.date({
      min: new Date('1970-01-01'),
      max: new Date('9999-12-31'),
      noInvalidDate: true,
    })
    fc.assert(
      fc.property(
        fc.array(host, { minLength: 1, maxLength: 20 }),
        date,
        date,
        (hosts, notBefore, notAfter) => {
          const [first = 'a', ...others] = hosts
          const { cert } = issueServerCertificate(
            [first, ...others],
            { notBefore, notAfter },
            authority,
          )
          const read = new X509Certificate(cert)
          expect(read.subjectAltName?.split(', ')).toHaveLength(hosts.length)
          const seconds = (at: Date) => Math.floor(at.getTime() / 1000)
          expect([read.validFrom, read.validTo].map((text) => seconds(new Date(text)))).toEqual(
            [notBefore, notAfter].map(seconds),
          )
          expect(read.verify(new X509Certificate(authority.cert).publicKey)).toBe(true)
          expect(BigInt(`0x${read.serialNumber}`)).toBeGreaterThan(0n)
        },
      ),
    )
  })
})
