import 'reflect-metadata'
import { type webcrypto, X509Certificate } from 'node:crypto'
import { isIP } from 'node:net'
import * as x509 from '@peculiar/x509'

// The two kinds of certificates (RFC 5280) that a webhook needs. Keys are P-256 and signatures are
// ECDSA with SHA-256, which every API server accepts. OpenSSL parses each certificate before its
// use. Import this file only where a certificate is due: the library takes 5 MB of memory.

const ALGORITHM = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
const { subtle } = globalThis.crypto

/** A certificate and its key, PEM. */
export interface KeyPair {
  /** The certificate; in files of a user, followed by the certificates of its issuers. */
  readonly cert: string
  readonly key: string
}

export interface Validity {
  readonly notBefore: Date
  readonly notAfter: Date
}

/** Issues a certificate authority for certificates of servers only. */
export async function issueAuthority(commonName: string, validity: Validity): Promise<KeyPair> {
  const keys = await subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const certificate = await x509.X509CertificateGenerator.createSelfSigned({
    ...validity,
    name: nameOf(commonName),
    keys,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(true, 0, true),
      new x509.KeyUsagesExtension(
        x509.KeyUsageFlags.keyCertSign | x509.KeyUsageFlags.cRLSign,
        true,
      ),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
    ],
  })
  return keyPair(certificate, keys.privateKey)
}

/**
 * Issues a certificate of a server.
 * @param names DNS names and IP addresses; the first name is also the common name
 */
export async function issueServerCertificate(
  names: readonly [string, ...string[]],
  validity: Validity,
  authority: KeyPair,
): Promise<KeyPair> {
  const keys = await subtle.generateKey(ALGORITHM, true, ['sign', 'verify'])
  const issuer = new x509.X509Certificate(authority.cert)
  // Its own identifier: another version of the webhook may have calculated it in another way.
  const issuerKey = issuer.getExtension(x509.SubjectKeyIdentifierExtension)
  const signingKey = await subtle.importKey(
    'pkcs8',
    x509.PemConverter.decodeFirst(authority.key),
    ALGORITHM,
    false,
    ['sign'],
  )
  const certificate = await x509.X509CertificateGenerator.create({
    ...validity,
    // RFC 5280 allows no longer common name (ub-common-name). Clients ignore the common name.
    subject: nameOf(names[0].slice(0, 64)),
    issuer: issuer.subjectName,
    publicKey: keys.publicKey,
    signingKey,
    signingAlgorithm: ALGORITHM,
    extensions: [
      new x509.BasicConstraintsExtension(false, undefined, true),
      new x509.KeyUsagesExtension(x509.KeyUsageFlags.digitalSignature, true),
      new x509.ExtendedKeyUsageExtension([x509.ExtendedKeyUsage.serverAuth]),
      new x509.SubjectAlternativeNameExtension(names.map(generalName)),
      await x509.SubjectKeyIdentifierExtension.create(keys.publicKey),
      ...(issuerKey ? [new x509.AuthorityKeyIdentifierExtension(issuerKey.keyId)] : []),
    ],
  })
  return keyPair(certificate, keys.privateKey)
}

const nameOf = (commonName: string) => new x509.Name([{ CN: [{ utf8String: commonName }] }])

function generalName(text: string): x509.JsonGeneralName {
  if (isIP(text) === 0) return { type: 'dns', value: text }
  // A URL normalises the address: the library refuses an IPv6 address that ends in an IPv4 address.
  const value = isIP(text) === 4 ? text : new URL(`https://[${text}]`).hostname.slice(1, -1)
  return { type: 'ip', value }
}

async function keyPair(
  certificate: x509.X509Certificate,
  key: webcrypto.CryptoKey,
): Promise<KeyPair> {
  return {
    cert: new X509Certificate(Buffer.from(certificate.rawData)).toString(),
    key: `${x509.PemConverter.encode(await subtle.exportKey('pkcs8', key), 'PRIVATE KEY')}\n`,
  }
}
