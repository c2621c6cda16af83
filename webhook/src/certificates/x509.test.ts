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
import { issueAuthority, issueServerCertificate } from './x509.js'

const DAY = 24 * 60 * 60 * 1000
const validity = {
  notBefore: new Date(Date.now() - DAY),
  notAfter: new Date(Date.now() + 90 * DAY),
}

/** An authority whose key identifier is made of SHA-256. */
const OTHER = {
  cert: `-----BEGIN CERTIFICATE-----
MIIBcjCCARmgAwIBAgIQT8x8Bv4UfK7MxjYvkFg4lDAKBggqhkjOPQQDAjAXMRUw
EwYDVQQDDAxha3JpLXdlYmhvb2swIBcNMjYwMTAxMDAwMDAwWhgPMjA5OTAxMDEw
MDAwMDBaMBcxFTATBgNVBAMMDGFrcmktd2ViaG9vazBZMBMGByqGSM49AgEGCCqG
SM49AwEHA0IABJ2MRyzEjeF393jLk5BZdPM0dsKC2G8cVluQmSyrz8cIcj9L1wFd
K6zWRLu9tuzLxTVooIghlu+SGLL9hN6Sl36jRTBDMBIGA1UdEwEB/wQIMAYBAf8C
AQAwDgYDVR0PAQH/BAQDAgEGMB0GA1UdDgQWBBTRH1mCSuZZy4Wp43XlFbuWTauh
7jAKBggqhkjOPQQDAgNHADBEAiBmz6aad4quPDUVdQXlFn6RjE5KgknFl41xczrT
hEvj3AIgWE9AtZ2OcmvaeHrPnabau8OrO6K6sFGl8iu5Dv1i6Pg=
-----END CERTIFICATE-----
`,
  key: `-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgq92QXLXRk6mQzfD2
8XiUJyeRsPpealsTkAvDsmSmUcihRANCAASdjEcsxI3hd/d4y5OQWXTzNHbCgthv
HFZbkJksq8/HCHI/S9cBXSus1kS7vbbsy8U1aKCIIZbvkhiy/YTekpd+
-----END PRIVATE KEY-----
`,
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

  it('of an authority with a key identifier by another method is valid too', async () => {
    const leaf = new X509Certificate(
      (await issueServerCertificate([...names], validity, OTHER)).cert,
    )
    expect(leaf.checkIssued(new X509Certificate(OTHER.cert))).toBe(true)
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

  it('has the names and times that were requested, whatever they are', async () => {
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
    await fc.assert(
      fc.asyncProperty(
        fc.array(host, { minLength: 1, maxLength: 20 }),
        date,
        date,
        async (hosts, notBefore, notAfter) => {
          const [first = 'a', ...others] = hosts
          const { cert } = await issueServerCertificate(
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
