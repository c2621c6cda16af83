// Decides whether a server may receive a credential. Pure.
import { X509Certificate } from 'node:crypto'
import type { DiscoveryProperties, Logger } from '@akrijs/sdk'

/** The property of a Configuration with the certificates that an operator trusts, in PEM. */
const PROPERTY = 'trusted_server_certificates'

/** The limit of certificates in a chain of issuers. */
const MAX_CHAIN = 8

/** Certificates of servers, or of their issuers, that an operator trusts. */
export class TrustedCertificates {
  readonly #trusted: readonly X509Certificate[]

  /** @param pem any number of certificates. @throws the error of the first invalid one */
  constructor(pem: string) {
    const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
    this.#trusted = blocks.map((block) => new X509Certificate(block))
  }

  get size(): number {
    return this.#trusted.length
  }

  /**
   * Whether a certificate, or an issuer in its chain, is trusted. The certificate must be valid now
   * and belong to this application (OPC 10000-4, 6.1.3).
   * @param der the certificate of the server, followed by its issuers
   */
  trust(
    der: Buffer,
    { applicationUri, now }: { readonly applicationUri: string; readonly now: number },
  ): boolean {
    const chain = readChain(der)
    const [leaf] = chain
    if (leaf === undefined || !urisOf(leaf).includes(applicationUri)) return false
    for (const [index, certificate] of chain.entries()) {
      const isIssuer = index > 0
      if (!isValidAt(certificate, now) || (isIssuer && !certificate.ca)) return false
      const isTrusted = this.#trusted.some(
        (trusted) =>
          trusted.raw.equals(certificate.raw) ||
          (trusted.ca && isValidAt(trusted, now) && hasIssued(trusted, certificate)),
      )
      if (isTrusted) return true
      const next = chain[index + 1]
      if (next === undefined || !hasIssued(next, certificate)) return false
    }
    return false
  }
}

/** The certificates in the properties of a Configuration; an unusable property trusts no server. */
export function trustedCertificates(
  properties: DiscoveryProperties,
  log: Logger,
): TrustedCertificates {
  if (!properties.has(PROPERTY)) return new TrustedCertificates('')
  try {
    const trusted = new TrustedCertificates(properties.text(PROPERTY) ?? '')
    if (trusted.size > 0) return trusted
  } catch {
    // The error does not name the property, and its message may quote the text.
  }
  log.warn({ property: PROPERTY }, 'property without PEM certificates, no server trusted')
  return new TrustedCertificates('')
}

/** Reads concatenated certificates in DER; empty if any of them is invalid. */
function readChain(der: Buffer): X509Certificate[] {
  const chain: X509Certificate[] = []
  try {
    for (let offset = 0; offset < der.length && chain.length < MAX_CHAIN; ) {
      // A certificate has between 256 and 65535 bytes, so its length field has two bytes.
      const length = der.readUInt16BE(offset) === 0x3082 ? 4 + der.readUInt16BE(offset + 2) : 0
      if (length === 0 || offset + length > der.length) return []
      chain.push(new X509Certificate(der.subarray(offset, offset + length)))
      offset += length
    }
  } catch {
    return []
  }
  return chain
}

function hasIssued(issuer: X509Certificate, certificate: X509Certificate): boolean {
  return certificate.checkIssued(issuer) && certificate.verify(issuer.publicKey)
}

function isValidAt({ validFrom, validTo }: X509Certificate, now: number): boolean {
  return Date.parse(validFrom) <= now && now <= Date.parse(validTo)
}

/** The URIs in the subject alternative names. Node.js quotes a name that contains a comma. */
function urisOf({ subjectAltName = '' }: X509Certificate): string[] {
  const uris: string[] = []
  for (const [, kind, value = ''] of subjectAltName.matchAll(
    /([A-Za-z ]+):("(?:[^"\\]|\\.)*"|[^,]*)(?:, |$)/gy,
  )) {
    if (kind !== 'URI') continue
    uris.push(value.startsWith('"') ? String(JSON.parse(value)) : value)
  }
  return uris
}
