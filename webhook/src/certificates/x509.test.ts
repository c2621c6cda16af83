import 'reflect-metadata'
import { execFile, execFileSync } from 'node:child_process'
import { createPrivateKey, X509Certificate } from 'node:crypto'
import { writeFile } from 'node:fs/promises'
import https from 'node:https'
import type { AddressInfo } from 'node:net'
import path from 'node:path'
import { promisify } from 'node:util'
import * as x509 from '@peculiar/x509'
import { describe, expect, it } from 'vitest'
import { temporaryDirectory } from '../../../test/support/temporary-directory.js'
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

const authority = await issueAuthority('akri-webhook', validity)
const names = [
  'akri-webhook.akri.svc',
  'akri-webhook',
  '10.99.0.1',
  '::1',
  'fd00::a:0:1',
  '::ffff:1.2.3.4',
] as const
const server = await issueServerCertificate([...names], validity, authority)

describe('an issued certificate', () => {
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
    const directory = await temporaryDirectory()
    const [ca, leaf] = [path.join(directory, 'ca.pem'), path.join(directory, 'leaf.pem')]
    await writeFile(ca, authority.cert)
    await writeFile(leaf, server.cert)
    const args = ['verify', '-x509_strict', '-purpose', 'sslserver', '-CAfile', ca, leaf]
    const { stdout } = await promisify(execFile)('openssl', args)
    expect(stdout).toContain('OK')
  })

  it('of an authority with a key identifier by another method is valid too', async () => {
    const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
    const keys = await crypto.subtle.generateKey(algorithm, true, ['sign', 'verify'])
    const other = await x509.X509CertificateGenerator.createSelfSigned({
      ...validity,
      keys,
      signingAlgorithm: algorithm,
      extensions: [
        new x509.BasicConstraintsExtension(true),
        new x509.SubjectKeyIdentifierExtension('0123456789abcdef'),
      ],
    })
    const exported = await crypto.subtle.exportKey('pkcs8', keys.privateKey)
    const key = x509.PemConverter.encode(exported, 'PRIVATE KEY')
    const { cert } = await issueServerCertificate([...names], validity, {
      cert: String(other),
      key,
    })
    expect(new X509Certificate(cert).checkIssued(new X509Certificate(String(other)))).toBe(true)
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
      const namesake = await issueAuthority('akri-webhook', validity)
      expect(await get(namesake.cert + authority.cert)).toBe('hello')
      await expect(get(namesake.cert)).rejects.toThrow(/signature|certificate/)
    } finally {
      listener.close()
    }
  })
})
