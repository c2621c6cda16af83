// Whether a server is one that may be given a credential. Without any I/O.
import { X509Certificate } from 'node:crypto'

/** Longer chains of issuers are not followed. */
const MAX_CHAIN = 8

/** Certificates of servers, or of those who issue them, that an operator has named. */
export class TrustedCertificates {
  readonly #trusted: readonly X509Certificate[]

  /** @param pem certificates in PEM, any number of them. @throws the error of the first that is none */
  constructor(pem: string) {
    const blocks = pem.match(/-----BEGIN CERTIFICATE-----[^-]*-----END CERTIFICATE-----/g) ?? []
    this.#trusted = blocks.map((block) => new X509Certificate(block))
  }

  get size(): number {
    return this.#trusted.length
  }

  /**
   * Whether a certificate is trusted, or issued by one that is, directly or through those behind it; it must be valid now and be
   * the one of this application (OPC 10000-4, 6.1.3).
   * @param der the server's certificate, its issuers behind it
   */
  trust(
    der: Buffer,
    { applicationUri, now }: { readonly applicationUri: string; readonly now: number },
  ): boolean {
    const chain = readChain(der)
    const [own] = chain
    if (own === undefined || !urisOf(own).includes(applicationUri)) return false
    for (const [index, certificate] of chain.entries()) {
      const isIssuer = index > 0
      if (!isValidAt(certificate, now) || (isIssuer && !certificate.ca)) return false
      if (this.#trusted.some(({ raw }) => raw.equals(certificate.raw))) return true
      if (
        this.#trusted.some(
          (issuer) => issuer.ca && isValidAt(issuer, now) && hasIssued(issuer, certificate),
        )
      )
        return true
      const next = chain[index + 1]
      if (next === undefined || !hasIssued(next, certificate)) return false
    }
    return false
  }
}

/** Certificates in DER, one behind the other. Empty where they are none. */
function readChain(der: Buffer): X509Certificate[] {
  const chain: X509Certificate[] = []
  try {
    for (let offset = 0; offset < der.length && chain.length < MAX_CHAIN; ) {
      // Certificates have between 256 and 65535 bytes: the length is in two of them.
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

/** The URIs of the subject's alternative names. Node quotes a name in which there is a comma. */
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
