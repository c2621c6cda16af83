import {
  createHash,
  createPrivateKey,
  generateKeyPairSync,
  type KeyObject,
  randomBytes,
  sign,
  X509Certificate,
} from 'node:crypto'
import { isIP } from 'node:net'
import {
  bitString,
  boolean,
  context,
  integer,
  objectIdentifier,
  octetString,
  sequence,
  setOf,
  time,
  utf8String,
} from './der.js'

// The two kinds of certificates (RFC 5280) that a webhook needs. Keys are P-256 and signatures are
// ECDSA with SHA-256, which every API server accepts. OpenSSL creates keys and signatures, and
// parses each certificate before its use.

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

const OID = {
  commonName: '2.5.4.3',
  ecdsaWithSha256: '1.2.840.10045.4.3.2',
  subjectKeyIdentifier: '2.5.29.14',
  keyUsage: '2.5.29.15',
  subjectAltName: '2.5.29.17',
  basicConstraints: '2.5.29.19',
  authorityKeyIdentifier: '2.5.29.35',
  extKeyUsage: '2.5.29.37',
  serverAuth: '1.3.6.1.5.5.7.3.1',
}

/** Bits of keyUsage from the left, and the number of unused bits in their byte. */
const KEY_CERT_SIGN_AND_CRL_SIGN = bitString(Buffer.from([0b0000_0110]), 1)
const DIGITAL_SIGNATURE = bitString(Buffer.from([0b1000_0000]), 7)

/** Issues a certificate authority for certificates of servers only. */
export function issueAuthority(commonName: string, validity: Validity): KeyPair {
  const isAuthority = sequence(boolean(true), integer(Buffer.from([0])))
  return issue(commonName, validity, [
    extension(OID.basicConstraints, isAuthority, 'critical'),
    extension(OID.keyUsage, KEY_CERT_SIGN_AND_CRL_SIGN, 'critical'),
  ])
}

/**
 * Issues a certificate of a server.
 * @param names DNS names and IP addresses; the first name is also the common name
 */
export function issueServerCertificate(
  names: readonly [string, ...string[]],
  validity: Validity,
  authority: KeyPair,
): KeyPair {
  const extensions = [
    extension(OID.basicConstraints, sequence(), 'critical'),
    extension(OID.keyUsage, DIGITAL_SIGNATURE, 'critical'),
    extension(OID.extKeyUsage, sequence(objectIdentifier(OID.serverAuth))),
    extension(OID.subjectAltName, sequence(...names.map(generalName))),
  ]
  // A longer common name is not allowed (RFC 5280, ub-common-name). Clients ignore the common name.
  return issue(names[0].slice(0, 64), validity, extensions, authority)
}

/** @param authority @default the certificate signs itself */
function issue(
  subject: string,
  validity: Validity,
  extensions: readonly Buffer[],
  authority?: KeyPair,
): KeyPair {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' })
  const issuer = authority && new X509Certificate(authority.cert)
  const signer = authority ? createPrivateKey(authority.key) : privateKey
  const keyIdentifiers = [
    extension(OID.subjectKeyIdentifier, octetString(keyIdentifier(publicKey))),
  ]
  if (issuer !== undefined) {
    const identifier = context(0, keyIdentifier(issuer.publicKey), false)
    keyIdentifiers.push(extension(OID.authorityKeyIdentifier, sequence(identifier)))
  }
  const algorithm = sequence(objectIdentifier(OID.ecdsaWithSha256))
  const toBeSigned = sequence(
    context(0, integer(Buffer.from([2])), true), // version 3
    integer(serialNumber()),
    algorithm,
    name(issuer ? commonNameOf(issuer) : subject),
    sequence(time(validity.notBefore), time(validity.notAfter)),
    name(subject),
    publicKey.export({ type: 'spki', format: 'der' }),
    context(3, sequence(...extensions, ...keyIdentifiers), true),
  )
  const signed = sequence(toBeSigned, algorithm, bitString(sign('sha256', toBeSigned, signer)))
  return {
    cert: new X509Certificate(signed).toString(),
    key: privateKey.export({ type: 'pkcs8', format: 'pem' }).toString(),
  }
}

function extension(oid: string, value: Uint8Array, critical?: 'critical'): Buffer {
  return sequence(objectIdentifier(oid), ...(critical ? [boolean(true)] : []), octetString(value))
}

const name = (commonName: string) =>
  sequence(setOf(sequence(objectIdentifier(OID.commonName), utf8String(commonName))))

/** A serial number: greater than zero, at most 20 bytes, and not predictable. */
function serialNumber(): Buffer {
  const bytes = randomBytes(16)
  bytes[0] = ((bytes[0] ?? 0) & 0x7f) | 0x40
  return bytes
}

/** A number that no other key has (RFC 7093, method 4). */
function keyIdentifier(key: KeyObject): Buffer {
  return createHash('sha256')
    .update(key.export({ type: 'spki', format: 'der' }))
    .digest()
    .subarray(0, 20)
}

function generalName(text: string): Buffer {
  return isIP(text) === 0
    ? context(2, Buffer.from(text, 'ascii'), false)
    : context(7, addressBytes(text), false)
}

function addressBytes(text: string): Buffer {
  if (isIP(text) === 4) return Buffer.from(text.split('.').map(Number))
  // An address has eight groups, and `::` stands for the groups that are zero. A URL normalises the
  // address.
  const [head = '', tail = ''] = new URL(`https://[${text}]`).hostname.slice(1, -1).split('::')
  const groups = (part: string) => part.split(':').filter(Boolean)
  const [left, right] = [groups(head), groups(tail)]
  const all = [
    ...left,
    ...Array.from({ length: 8 - left.length - right.length }, () => '0'),
    ...right,
  ]
  return Buffer.from(all.map((group) => group.padStart(4, '0')).join(''), 'hex')
}

/** The common name of an authority of ours, whose subject has no other part. */
function commonNameOf({ subject }: X509Certificate): string {
  return subject.replace(/^CN=/, '')
}
