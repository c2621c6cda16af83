import { createPrivateKey, X509Certificate } from 'node:crypto'
import type { DiscoveryProperties, Logger } from '@akrijs/sdk'
import {
  type CredentialKind,
  DeviceCredentials,
  type PasswordCredential,
} from '@akrijs/sdk/network'

export interface CertificateCredential extends KeyPair {
  readonly kind: 'certificate'
}

/** What the handler presents to a server as its user. */
export type Credential = PasswordCredential | CertificateCredential

const CERTIFICATES: CredentialKind<CertificateCredential> = {
  parts: ['certificate', 'private_key'],
  expected: 'an RSA certificate and its private_key, both in PEM',
  read(certificate, privateKey) {
    const pair = readKeyPair(certificate, privateKey)
    return pair && { kind: 'certificate', ...pair }
  },
}

/**
 * Credentials of servers, by application URI or discovery URL: passwords or user certificates.
 * A property name has only letters, digits and `_`, so `_` stands for every other character:
 * `username_urn_plc1_mixer` is for `urn:plc1:mixer`. Two servers can share such a name. This leaks
 * nothing, because the certificate of a server decides whether it receives a credential.
 */
export function serverCredentials(
  properties: DiscoveryProperties,
  log: Logger,
): DeviceCredentials<CertificateCredential> {
  return new DeviceCredentials(properties, {
    log,
    spelling: (server) => server.replace(/[^A-Za-z0-9]/g, '_'),
    other: CERTIFICATES,
  })
}

interface KeyPair {
  readonly certificate: X509Certificate
  /** PEM, PKCS #8 */
  readonly privateKey: string
}

/** An RSA certificate with its key; undefined if they do not match. OPC UA policies use RSA. */
export function readKeyPair(
  certificate: string | undefined,
  privateKey: string | undefined,
): KeyPair | undefined {
  if (certificate === undefined || privateKey === undefined) return undefined
  try {
    const read = new X509Certificate(certificate)
    const key = createPrivateKey(privateKey)
    if (key.asymmetricKeyType !== 'rsa' || !read.checkPrivateKey(key)) return undefined
    return {
      certificate: read,
      privateKey: key.export({ type: 'pkcs8', format: 'pem' }).toString(),
    }
  } catch {
    return undefined
  }
}
